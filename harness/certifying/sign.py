"""Signs certificates and events of a folder: one detached ``.sig`` beside each file, never a change of the file.

Keys are OpenSSH Ed25519 files. An unencrypted one is read here; one with a passphrase, or in an agent, is used through
``ssh-keygen -Y sign``, which gives the same bytes, since Ed25519 signatures are deterministic.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.errors import InvalidDocumentError, StorageError, UsageError
from harness.wire import files, sshsig
from harness.wire.allowed_signers import read_key
from harness.wire.certificate_doc import MAX_BYTES
from harness.wire.sha256 import Digested
from harness.wire.signed_documents import SUFFIX, document_paths, signed_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KEY_FILE_BYTES: Final = 16 * 1024
_OTHERS: Final = 0o077
_PATIENCE_S: Final = 120
"""For a person who types a passphrase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """Something that signs, and whose public key is known."""

    public_key: bytes
    sign: Callable[[bytes, str], bytes]
    """Message and namespace to the bytes of a signature file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """What signing a folder came to."""

    written: tuple[Path, ...]
    kept: tuple[Path, ...]
    """Documents that had a signature already, which was left alone."""


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Return the key of an OpenSSH private key file without a passphrase.

    Raises:
        UsageError: It is absent, readable by others, has a passphrase, or is no Ed25519 key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    _require_private(path)
    try:
        key = load_ssh_private_key(files.read(path, max_bytes=_KEY_FILE_BYTES), password=None)
    except TypeError:
        raise UsageError(f"{path.name} has a passphrase; add --with-ssh-keygen") from None
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            f"{path.name} is no OpenSSH private key that can be read here ({type(error).__name__})"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path.name} is a key of another type; make one with `ssh-keygen -t ed25519`")
    return key


def key_signer(path: Path) -> Signer:
    """Return a signer by an OpenSSH private key file without a passphrase.

    Raises:
        UsageError: As :func:`load_private_key`.
    """
    private = load_private_key(path)

    def sign(message: bytes, namespace: str) -> bytes:
        return sshsig.sign(message, namespace, private)

    return Signer(public_key=private.public_key().public_bytes_raw(), sign=sign)


def throwaway_signer() -> Signer:
    """Return a signer by a new key that lies in memory alone, for as long as the signer does."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()

    def sign(message: bytes, namespace: str) -> bytes:
        return sshsig.sign(message, namespace, private)

    return Signer(public_key=private.public_key().public_bytes_raw(), sign=sign)


def ssh_keygen_signer(path: Path) -> Signer:
    """Return a signer by ``ssh-keygen -Y sign``: for a passphrase, or a public key that an agent answers for.

    Raises:
        UsageError: There is no ssh-keygen, no public key beside the file, or it is no Ed25519 key.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError("there is no ssh-keygen on the path; use a key without a passphrase")
    public = path if path.suffix == ".pub" else path.with_name(path.name + ".pub")
    key = public_key(public)

    def sign(message: bytes, namespace: str) -> bytes:
        command = [program, "-Y", "sign", "-f", str(path), "-n", namespace, "-O", f"hashalg={sshsig.HASH}"]
        try:
            done = subprocess.run(command, input=message, capture_output=True, timeout=_PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise UsageError(f"ssh-keygen did not sign within {_PATIENCE_S} s") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UsageError(f"ssh-keygen did not sign: {ascii(said[-1][:120]) if said else 'it said nothing'}")
        return done.stdout

    return Signer(public_key=key, sign=sign)


def public_key(path: Path) -> bytes:
    """Return the Ed25519 key of a ``.pub`` file.

    Raises:
        UsageError: It is absent or holds no Ed25519 public key.
    """
    if not path.is_file():
        raise UsageError(f"no public key file {path.name}")
    try:
        text = files.read(path, max_bytes=_KEY_FILE_BYTES).decode()
        key = read_key(text.strip(), path.name)
    except (UnicodeDecodeError, InvalidDocumentError):
        key = b""
    if not key:
        raise UsageError(f"{path.name} holds no Ed25519 public key; make a pair with `ssh-keygen -t ed25519`")
    return key


def sign_folder(folder: Path, signer: Signer, ids: Collection[str] = (), *, again: bool = False) -> Signed:
    """Sign every certificate and event that has no signature yet.

    Args:
        folder: A certificates folder.
        signer: Signs.
        ids: Only documents with these ids; empty: all.
        again: Also replace signatures that are there.

    Raises:
        InvalidDocumentError: A document cannot be trusted; those before it are signed.
        StorageError: The disk refuses.
    """
    written, kept = [], []
    for path in document_paths(folder):
        beside = path.with_name(path.name + SUFFIX)
        text, namespace = signed_bytes(path.relative_to(folder).as_posix(), files.read(path, max_bytes=MAX_BYTES))
        message = Digested(text)
        if ids and message.hexdigest not in ids:
            continue
        if beside.exists() and not again:
            kept.append(beside)
            continue
        data = signer.sign(text, namespace)
        _require_own(data, message, namespace, signer)
        files.replace(beside, data) if beside.exists() else files.write_new(beside, data)
        written.append(beside)
    return Signed(written=tuple(written), kept=tuple(kept))


def _require_own(data: bytes, message: Digested, namespace: str, signer: Signer) -> None:
    """Read a signature back before it is written: another tool may have made it, with another key."""
    found = sshsig.parse(data, "signature to be written")
    fits = found.namespace == namespace and sshsig.is_valid(found, message)
    if not fits or found.public_key != signer.public_key:
        raise StorageError("the signature that was made does not verify under the key; nothing was written for it")


def _require_private(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"no private key file {path.name}")
    if path.stat().st_mode & _OTHERS:
        raise UsageError(f"{path.name} can be read by others; `chmod 600` it, as ssh-keygen demands too")
