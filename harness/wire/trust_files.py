"""Edits the allowed signers file and the list of revoked keys, line by line; what it does not mean, it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from harness.errors import UsageError
from harness.wire import privacy, sshsig
from harness.wire.allowed_signers import Line, parse_revoked, parse_signers, parse_time

_PRINCIPAL: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NAMESPACES: Final = re.compile(r"[A-Za-z0-9*?!./@_,-]{1,256}")
_HEAD: Final = b"# Whose signatures on certificates and ledger events count. Edited by `statecert trust`.\n"
_REVOKED_HEAD: Final = (
    b"# Keys that do not count any more. Edited by `statecert trust revoke`; read by ssh-keygen too.\n"
)


def with_signer(data: bytes, principal: str, key: bytes, namespaces: str, after: str, before: str, where: str) -> bytes:
    """Return an allowed signers file with one more line.

    Args:
        data: The file as it is; empty: there is none yet.
        principal: Who signs: the name of a lab or a machine class, not of a person.
        key: The public key.
        namespaces: Patterns of what the key may sign.
        after: First moment, ``YYYYMMDD[HHMM[SS]]Z``; empty: no bound.
        before: Last moment, in the same form; empty: no bound.
        where: What to call the file.

    Raises:
        UsageError: The name, the patterns or a time are not allowed, or the principal has this key already.
        InvalidDocumentError: The file cannot be read as it is, or would not be readable with the line.
    """
    if _PRINCIPAL.fullmatch(principal) is None or privacy.text_kind(principal):
        raise UsageError(f"found the principal {principal[:40]!r}; wanted is a slug like lab-a, naming no person")
    if _NAMESPACES.fullmatch(namespaces) is None:
        raise UsageError(f"found the namespaces {namespaces[:40]!r}; wanted are patterns like statecert/*")
    if any(line.key == key and line.principals == principal for line in parse_signers(data, where).lines):
        raise UsageError(f"{principal} has the key {sshsig.fingerprint(key)} already; remove it first")
    options = [f'namespaces="{namespaces}"']
    options += [f'{name}="{_utc(text)}"' for name, text in (("valid-after", after), ("valid-before", before)) if text]
    new = f"{principal} {','.join(options)} {sshsig.key_text(key)}\n".encode()
    changed = (_closed(data) or _HEAD) + new
    parse_signers(changed, where)
    return changed


def with_note(data: bytes, note: str) -> bytes:
    """Return an allowed signers file that says something to people below its first line, once."""
    line = f"# {note}\n".encode()
    if line in data:
        return data
    head, end, rest = data.partition(b"\n")
    return head + end + line + rest if head.startswith(b"#") else line + data


def without_signer(data: bytes, chosen: Callable[[Line], bool], where: str) -> tuple[bytes, int]:
    """Return an allowed signers file without some lines, and how many went.

    Raises:
        InvalidDocumentError: The file cannot be read as it is.
    """
    gone = {line.number for line in parse_signers(data, where).lines if chosen(line)}
    lines = data.split(b"\n")
    return b"\n".join(line for number, line in enumerate(lines, 1) if number not in gone), len(gone)


def with_revoked(data: bytes, key: bytes, where: str) -> bytes:
    """Return a list of revoked keys with one more; the same bytes, if it is there already.

    Raises:
        InvalidDocumentError: The file cannot be read as it is.
    """
    if key in parse_revoked(data, where):
        return data
    return (_closed(data) or _REVOKED_HEAD) + f"{sshsig.key_text(key)}\n".encode()


def _closed(data: bytes) -> bytes:
    return data if not data or data.endswith(b"\n") else data + b"\n"


def _utc(text: str) -> str:
    compact = text.replace("-", "").replace(":", "").replace("T", "")
    compact = compact if compact.endswith("Z") else f"{compact}Z"
    if not parse_time(compact):
        raise UsageError(f"found the time {text[:40]!r}; wanted is one like 2026-12-31 or 2026-12-31T12:00:00Z")
    return compact
