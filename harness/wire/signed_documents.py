"""Signatures of certificates and ledger events: which bytes, which namespace, and whether one counts.

What is signed are the canonical bytes (RFC 8785) of a certificate's ``body``, or of an event: the very bytes whose
SHA-256 is the id. The signature lies beside its file, as ``<file>.sig``. The status of a certificate is not signed,
since it follows from the ledger.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.errors import InvalidDocumentError, StorageError
from harness.model.noun import dataclass
from harness.wire import canonical, files, sshsig
from harness.wire.allowed_signers import AllowedSigners, Line, Reason
from harness.wire.certificate_doc import MAX_BYTES, parse_certificate
from harness.wire.event_doc import event_to_mapping, parse_event
from harness.wire.sha256 import Digested

SUFFIX: Final = ".sig"
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
EVENT_NAMESPACE: Final = "statecert/event/v1@statecert.invalid"

PROVES: Final = (
    "A signature proves that the holder of a key signed exactly these bytes, and that the allowed signers let this key "
    "sign this kind of document at the time of the check."
)
PROVES_NOT: Final = (
    "It does not prove that the hardware existed, that the run took place as reported, that a time in the record is "
    "right, or that the result is good: evidence and gate judge those."
)

DEMONSTRATION: Final = "demonstration"
"""How principals begin whose keys were thrown away after signing: they show that the mechanism works, and no more."""
DEMONSTRATED: Final = (
    "A demonstration key vouches for nobody: whoever ran the command had it. It shows that bytes, signatures and "
    "allowed signers fit together, and that nothing was changed since."
)

_WORDS: Final[Mapping[Reason, str]] = {
    Reason.UNSIGNED: "has no signature",
    Reason.SIGNS_NOTHING: "signs nothing that is there",
    Reason.UNREADABLE: "cannot be read",
    Reason.MALFORMED: "is no signature",
    Reason.WRONG_NAMESPACE: "was made for another kind of document",
    Reason.CHANGED: "does not fit the bytes: document or signature was changed",
    Reason.REVOKED: "was made by a key that is revoked",
    Reason.UNKNOWN_KEY: "was made by a key that no line of the allowed signers has",
    Reason.UNKNOWN_PRINCIPAL: "was made by a key of another principal",
    Reason.NAMESPACE_NOT_ALLOWED: "was made by a key that may not sign this kind of document",
    Reason.NOT_YET_VALID: "was made by a key that is not valid yet",
    Reason.EXPIRED: "was made by a key that is not valid any more",
    Reason.DEMONSTRATION: "was made by a demonstration key, which proves nothing but the mechanism",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Keyring:
    """Whose signatures count, and when."""

    signers: AllowedSigners
    at: int
    """Seconds since 1970 at which keys must be valid."""
    revoked: frozenset[bytes] = frozenset()
    principal: str = ""
    """Who must have signed; empty: anybody in the allowed signers."""
    demonstration: bool = True
    """Whether keys of principals named ``demonstration`` count."""

    @property
    def digest(self) -> str:
        """Digest of what the trust files say, without the time."""
        lines = [
            [one.principals, one.key.hex(), one.namespaces, one.valid_after, one.valid_before]
            for one in self.signers.lines
        ]
        return canonical.digest([lines, sorted(key.hex() for key in self.revoked), self.demonstration])


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What the check of one signature came to."""

    path: str
    """Of the document, below its folder."""
    reason: Reason | None = None
    """Why it does not count; None: it does."""
    principals: str = ""
    """As the line of the allowed signers names them; only where it counts."""
    fingerprint: str = ""
    """Of the key, where the file told one."""
    detail: str = ""
    """What exactly could not be read."""

    @property
    def message(self) -> str:
        """What is wrong, as a sentence about the signature or document; empty where nothing is."""
        if self.reason is None:
            return ""
        shown = self.detail or self.fingerprint
        return f"{self.reason}: {_WORDS[self.reason]}{f' ({shown})' if shown else ''}"


def certificate_namespace(kind: str) -> str:
    """Return the namespace of a kind of certificate, like ``qualification``."""
    return f"statecert/certificate/{kind}/v1@statecert.invalid"


def check_signature(message: Digested, signature: bytes, namespace: str, keyring: Keyring, path: str = "") -> Checked:
    """Check one signature over bytes that are at hand.

    Args:
        message: The canonical bytes, with the digest that was computed of them.
        signature: Bytes of the signature file.
        namespace: What it must have been made for.
        keyring: Whose signatures count.
        path: What to call the document.
    """
    try:
        found = sshsig.parse(signature, path + SUFFIX)
    except InvalidDocumentError as refused:
        return Checked(path=path, reason=Reason.MALFORMED, detail=refused.message)
    fingerprint = sshsig.fingerprint(found.public_key)
    if found.namespace != namespace:
        return Checked(path=path, reason=Reason.WRONG_NAMESPACE, fingerprint=fingerprint)
    if not sshsig.is_valid(found, message):
        return Checked(path=path, reason=Reason.CHANGED, fingerprint=fingerprint)
    line = _line_of(found.public_key, namespace, keyring)
    if isinstance(line, Reason):
        return Checked(path=path, reason=line, fingerprint=fingerprint)
    return Checked(path=path, principals=line.principals, fingerprint=fingerprint)


def check_beside(root: str, path: str, message: Digested, namespace: str, keyring: Keyring) -> Checked:
    """Check the signature that lies beside a document whose bytes are at hand; nothing raises for what lies there.

    Args:
        root: A certificates folder.
        path: Of the document below it.
        message: The canonical bytes, with the digest that was computed of them.
        namespace: What it must have been made for.
        keyring: Whose signatures count.
    """
    try:
        signature = _read_plain(f"{root}/{path}{SUFFIX}")
    except FileNotFoundError:
        return Checked(path=path, reason=Reason.UNSIGNED)
    except (OSError, ValueError):
        return Checked(path=path, reason=Reason.UNREADABLE, detail="its signature is not a regular file")
    return check_signature(message, signature, namespace, keyring, path)


def _read_plain(path: str) -> bytes:
    """Return the bytes of a regular file, at most one more than a signature may have; a link is none.

    Raises:
        OSError: It is absent, a link, no regular file, or cannot be read.
    """
    descriptor = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(path)
        return os.read(descriptor, sshsig.MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def _line_of(key: bytes, namespace: str, keyring: Keyring) -> Line | Reason:
    """Return the line that lets a key sign, or why its signatures do not count."""
    if key in keyring.revoked:
        return Reason.REVOKED
    found = keyring.signers.allowed(key, namespace, keyring.at, keyring.principal)
    if isinstance(found, Line) and not keyring.demonstration and found.principals.startswith(DEMONSTRATION):
        return Reason.DEMONSTRATION
    return found


def signed_bytes(path: str, data: bytes) -> tuple[bytes, str]:
    """Return the bytes of a certificate or event file that are signed, and the namespace.

    Args:
        path: Below the certificates folder; tells an event from a certificate.
        data: Bytes of the file.

    Raises:
        InvalidDocumentError: It is neither.
    """
    if path.startswith("ledger/"):
        return canonical.canonical(event_to_mapping(parse_event(data, path))), EVENT_NAMESPACE
    body = parse_certificate(data, path).body
    return canonical.canonical(body), certificate_namespace(str(body.get("kind")))


def document_paths(folder: Path) -> list[Path]:
    """Return the files of a certificates folder that can be signed: certificates, then events."""
    certificates = (path for path in folder.glob("*/*/*/*.json") if path.relative_to(folder).parts[0] != "ledger")
    return [*sorted(certificates), *sorted((folder / "ledger").glob("*/*.json"))]


def check_folder(folder: Path, keyring: Keyring) -> list[Checked]:
    """Check the signature of every certificate and event of a folder, also of those that have none.

    Nothing raises for what lies inside the folder.
    """
    documents = document_paths(folder)
    checked = [_check_file(folder, path, keyring) for path in documents]
    known = {path.with_name(path.name + SUFFIX) for path in documents}
    stray = [path for path in sorted(folder.rglob(f"*{SUFFIX}")) if path not in known]
    return checked + [Checked(path=path.relative_to(folder).as_posix(), reason=Reason.SIGNS_NOTHING) for path in stray]


def _check_file(folder: Path, path: Path, keyring: Keyring) -> Checked:
    name = path.relative_to(folder).as_posix()
    try:
        if not os.path.lexists(path.with_name(path.name + SUFFIX)):
            return Checked(path=name, reason=Reason.UNSIGNED)
        if not path.is_file() or path.is_symlink():
            return Checked(path=name, reason=Reason.UNREADABLE, detail="not a regular file")
        message, namespace = signed_bytes(name, files.read(path, max_bytes=MAX_BYTES))
    except InvalidDocumentError as refused:
        return Checked(path=name, reason=Reason.UNREADABLE, detail=refused.message)
    except StorageError as refused:
        return Checked(path=name, reason=Reason.UNREADABLE, detail=type(refused).__name__)
    return check_beside(str(folder), name, Digested(message), namespace, keyring)
