"""SSHSIG signatures (OpenSSH, PROTOCOL.sshsig) for Ed25519: bytes to sign, the armored file, and back.

Read strictly: one key type, the two hash algorithms of the format, no reserved bytes, no spelling but the one that is
written here. So nobody without the key makes a second, equally valid file of a signature. ``ssh-keygen -Y verify``
accepts everything that is accepted here; the reverse holds for what ``ssh-keygen -Y sign`` writes by an Ed25519 key.

Written is ``sha256``, since the digest of a document is its id and has been computed before anybody asks who signed it
(ADR 0009); what was signed over ``sha512``, the default of ssh-keygen, counts as before.

The signature is checked in this process (``curve.py``): thousands of files need no thousands of processes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

from harness.errors import InvalidDocumentError
from harness.model.noun import dataclass
from harness.wire import curve
from harness.wire.sha256 import Digested

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_TYPE: Final = "ssh-ed25519"
HASH: Final = "sha256"
"""Of the message, in signatures that are made here."""
HASHES: Final = ("sha256", "sha512")
"""Those that are read: all that the format has."""
MAX_BYTES: Final = 1024
"""Of an armored signature; with the longest namespace it has about 500."""
MAX_NAMESPACE: Final = 128
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_MAGIC: Final = b"SSHSIG"
_VERSION: Final = 1
_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"
_END: Final = b"-----END SSH SIGNATURE-----\n"
_COLUMNS: Final = 70
_NAMESPACE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9./@_-]{{0,{MAX_NAMESPACE - 1}}}")
_LENGTH: Final = struct.Struct(">I")
_KEY_HEAD: Final = _LENGTH.pack(len(KEY_TYPE)) + KEY_TYPE.encode() + _LENGTH.pack(KEY_BYTES)
_SIGNATURE_HEAD: Final = _LENGTH.pack(len(KEY_TYPE)) + KEY_TYPE.encode() + _LENGTH.pack(SIGNATURE_BYTES)
_HEAD: Final = _MAGIC + _LENGTH.pack(_VERSION) + _LENGTH.pack(len(_KEY_HEAD) + KEY_BYTES) + _KEY_HEAD
_MIDDLES: Final = {
    _LENGTH.pack(0)
    + _LENGTH.pack(len(name))
    + name.encode()
    + _LENGTH.pack(len(_SIGNATURE_HEAD) + SIGNATURE_BYTES)
    + _SIGNATURE_HEAD: name
    for name in HASHES
}
"""No reserved bytes, the hash algorithm, and what stands before the 64 bytes of the signature; to the algorithm."""
_MIDDLE_BYTES: Final = len(next(iter(_MIDDLES)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """One detached signature, as it stands in its file."""

    public_key: bytes
    """32 bytes of Ed25519."""
    namespace: str
    """What kind of document it was made for."""
    signature: bytes
    """64 bytes of Ed25519."""
    algorithm: str = HASH
    """Of the message's digest, as the file says; it is one of the signed bytes, so another word fits no signature."""


def signed_blob(message: Digested, namespace: str, algorithm: str = HASH) -> bytes:
    """Return the bytes that the key signs: never the message itself, always with its namespace and the algorithm."""
    digest = message.digest if algorithm == "sha256" else hashlib.new(algorithm, message.data).digest()
    return _MAGIC + b"".join(map(_string, (namespace.encode(), b"", algorithm.encode(), digest)))


def armor(signature: Signature) -> bytes:
    """Return the bytes of a signature file.

    Raises:
        InvalidDocumentError: The namespace or a length is not allowed.
    """
    _require_fields(signature, "signature to be written")
    fields = (
        key_blob(signature.public_key),
        signature.namespace.encode(),
        b"",
        signature.algorithm.encode(),
        _SIGNATURE_HEAD + signature.signature,
    )
    text = base64.b64encode(_MAGIC + _LENGTH.pack(_VERSION) + b"".join(map(_string, fields)))
    return _BEGIN + _wrapped(text) + _END


def parse(data: bytes, where: str) -> Signature:
    """Return the signature of a file.

    Raises:
        InvalidDocumentError: It is not the one spelling of an SSHSIG signature by Ed25519 over SHA-256 or SHA-512.
    """
    if len(data) > MAX_BYTES:
        raise InvalidDocumentError(f"found {len(data)} bytes; a signature has at most {MAX_BYTES}", where=where)
    blob = _dearmored(data, where)
    found = _usual(blob)
    return _read_blob(blob, where) if found is None else found


def is_valid(signature: Signature, message: Digested) -> bool:
    """Tell whether the key in a signature signed this message in this namespace. Says nothing about whose key it is."""
    blob = signed_blob(message, signature.namespace, signature.algorithm)
    return curve.is_valid((signature.public_key, signature.signature, blob))


def sign(message: bytes, namespace: str, private: Ed25519PrivateKey) -> bytes:
    """Return the armored signature of a message."""
    return armor(
        Signature(
            public_key=private.public_key().public_bytes_raw(),
            namespace=namespace,
            signature=private.sign(signed_blob(Digested(message), namespace)),
        )
    )


def key_blob(public_key: bytes) -> bytes:
    """Return a public key as OpenSSH encodes it."""
    return _KEY_HEAD + public_key


def key_text(public_key: bytes) -> str:
    """Return a public key as it stands in a ``.pub`` file, without a comment."""
    return f"{KEY_TYPE} {base64.b64encode(key_blob(public_key)).decode()}"


@lru_cache(maxsize=256)
def fingerprint(public_key: bytes) -> str:
    """Return what ``ssh-keygen -l`` shows: ``SHA256:`` and 43 characters."""
    digest = hashlib.sha256(key_blob(public_key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _string(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _dearmored(data: bytes, where: str) -> bytes:
    if not (data.startswith(_BEGIN) and data.endswith(b"\n" + _END)):
        _refuse("no SSH signature between its two marks", where)
    wrapped = data[len(_BEGIN) : -len(_END)]
    text = wrapped.replace(b"\n", b"")
    try:
        blob = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        _refuse("text that is not base64", where)
    if binascii.b2a_base64(blob, newline=False) != text or _wrapped(text) != wrapped:
        _refuse("another spelling than the one that `statecert sign` and `ssh-keygen -Y sign` write", where)
    return blob


def _wrapped(text: bytes) -> bytes:
    return b"".join([text[at : at + _COLUMNS] + b"\n" for at in range(0, len(text), _COLUMNS)])


def _usual(blob: bytes) -> Signature | None:
    """Read the one layout that is allowed; None where anything is otherwise, for the slow reader to say what."""
    key_at = len(_HEAD)
    space_at = key_at + KEY_BYTES + 4
    space_end = space_at + int.from_bytes(blob[space_at - 4 : space_at], "big")
    signature_at = space_end + _MIDDLE_BYTES
    algorithm = _MIDDLES.get(blob[space_end:signature_at])
    if not blob.startswith(_HEAD) or algorithm is None or len(blob) != signature_at + SIGNATURE_BYTES:
        return None
    namespace = blob[space_at:space_end].decode("latin-1")
    if _NAMESPACE.fullmatch(namespace) is None:
        return None
    key = blob[key_at : key_at + KEY_BYTES]
    return Signature(public_key=key, namespace=namespace, signature=blob[signature_at:], algorithm=algorithm)


def _read_blob(blob: bytes, where: str) -> Signature:
    if blob[: len(_MAGIC)] != _MAGIC:
        _refuse("bytes that do not begin with SSHSIG", where)
    if blob[len(_MAGIC) : len(_MAGIC) + 4] != _LENGTH.pack(_VERSION):
        _refuse("another version of the format than 1", where)
    key, namespace, reserved, algorithm, signature = _five_strings(blob, len(_MAGIC) + 4, where)
    if reserved:
        _refuse("reserved bytes; allowed are none", where)
    if not key.startswith(_KEY_HEAD) or len(key) != len(_KEY_HEAD) + KEY_BYTES:
        _refuse(f"a key that is not {KEY_TYPE}", where)
    if not signature.startswith(_SIGNATURE_HEAD) or len(signature) != len(_SIGNATURE_HEAD) + SIGNATURE_BYTES:
        _refuse(f"a signature that is not {KEY_TYPE}", where)
    found = Signature(
        public_key=key[len(_KEY_HEAD) :],
        namespace=namespace.decode("latin-1"),
        signature=signature[len(_SIGNATURE_HEAD) :],
        algorithm=algorithm.decode("latin-1"),
    )
    _require_fields(found, where)
    return found


def _five_strings(blob: bytes, at: int, where: str) -> list[bytes]:
    found = []
    for _ in range(5):
        if at + 4 > len(blob):
            _refuse("bytes that end too early", where)
        (length,) = _LENGTH.unpack_from(blob, at)
        at += 4
        if at + length > len(blob):
            _refuse("bytes that end too early", where)
        found.append(blob[at : at + length])
        at += length
    if at != len(blob):
        _refuse("more bytes after the signature", where)
    return found


def _require_fields(signature: Signature, where: str) -> None:
    if _NAMESPACE.fullmatch(signature.namespace) is None:
        _refuse(f"the namespace {_shown(signature.namespace.encode())}", where)
    if len(signature.public_key) != KEY_BYTES or len(signature.signature) != SIGNATURE_BYTES:
        _refuse("a key or signature of another length", where)
    if signature.algorithm not in HASHES:
        _refuse(f"the hash algorithm {_shown(signature.algorithm.encode())}; allowed are {' and '.join(HASHES)}", where)


def _shown(data: bytes) -> str:
    return ascii(data[:40].decode("latin-1"))


def _refuse(found: str, where: str) -> NoReturn:
    raise InvalidDocumentError(f"found {found}", where=where)
