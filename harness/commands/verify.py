"""Check the signatures of all certificates and ledger events of a folder against the allowed signers, in one process.

A document that was changed, or whose key is unknown, revoked, expired, not valid yet, or not allowed to sign its kind,
ends in exit code 2 with the reason; one that has no signature in 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json
from harness.errors import ExitCode, NothingToDoError, UsageError
from harness.wire import files

if TYPE_CHECKING:
    from harness.wire.signed_documents import Checked, Keyring

EXAMPLE = (
    "example: statecert verify certificates --signers trust/allowed_signers\n"
    "         statecert verify --at 2026-06-30T12:00:00Z --revoked trust/revoked_keys"
)
SIGNERS = Path("trust/allowed_signers")
REVOKED = Path("trust/revoked_keys")
_BYTES = 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """The folder, the keys, the time."""
    parser.add_argument("folder", nargs="?", type=Path, default=Path("certificates"), help="default: certificates")
    parser.add_argument("--signers", type=Path, metavar="FILE", help=f"allowed signers (default: {SIGNERS})")
    parser.add_argument(
        "--revoked", type=Path, metavar="FILE", help=f"revoked public keys, one a line (default: {REVOKED}, if there)"
    )
    parser.add_argument("--at", default="", metavar="TIME", help="when keys must be valid, like 2026-06-30T12:00:00Z")
    parser.add_argument(
        "--principal", default="", metavar="NAME", help="who must have signed (default: anybody listed)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Check and print, worst first."""
    from harness.wire.signed_documents import check_folder

    if not args.folder.is_dir():
        raise UsageError(f"no folder {args.folder}")
    checked = check_folder(args.folder, keyring(args.signers, args.revoked, args.at, args.principal))
    if not checked:
        raise NothingToDoError(f"no certificate or event in {args.folder}")
    code = exit_code(checked)
    if args.json:
        from harness.reporting.escape import json_bytes

        sys.stdout.buffer.write(json_bytes(_as_value(checked, code)))
    else:
        sys.stdout.write(_as_text(checked))
    return code


def from_disk(path: Path) -> bytes:
    """Return a file of policy or keys as it lies there.

    Raises:
        UsageError: There is none.
    """
    if not path.is_file():
        raise UsageError(f"no file {path}")
    return files.read(path, max_bytes=_BYTES)


def keyring(
    signers: Path | None,
    revoked: Path | None,
    at: str = "",
    principal: str = "",
    *,
    read: Callable[[Path], bytes] | None = None,
    demonstration: bool = True,
) -> Keyring:
    """Return the keys that count, from the files that the caller named or the usual ones.

    Args:
        signers: Allowed signers.
        revoked: Revoked keys.
        at: When keys must be valid; now, if not given.
        principal: Who must have signed.
        read: Gives the bytes of a file; those of the disk, if not given.
        demonstration: Whether keys of principals named ``demonstration`` count.

    Raises:
        UsageError: A named file is not there, there are no signers, or the time is none.
        InvalidDocumentError: A file cannot be read as what it must be.
    """
    from harness.wire.allowed_signers import parse_revoked, parse_signers
    from harness.wire.signed_documents import Keyring

    signers = signers or SIGNERS
    if revoked is None and REVOKED.is_file():
        revoked = REVOKED
    if read is None:
        for path in (signers, *([revoked] if revoked is not None else [])):
            if not path.is_file():
                raise UsageError(f"no file {path}; `statecert trust add` makes one")
        read = from_disk
    return Keyring(
        signers=parse_signers(read(signers), str(signers)),
        revoked=frozenset() if revoked is None else parse_revoked(read(revoked), str(revoked)),
        at=moment(at) if at else int(time.time()),
        principal=principal,
        demonstration=demonstration,
    )


def moment(text: str) -> int:
    """Return the seconds since 1970 of an RFC 3339 UTC time.

    Raises:
        UsageError: It is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not text.endswith("Z"):
        raise UsageError(f"found the time {text[:40]!r}; wanted is one like 2026-06-30T12:00:00Z")
    return int(found.timestamp())


def exit_code(checked: Sequence[Checked]) -> ExitCode:
    """Return how a check of signatures ends."""
    from harness.wire.allowed_signers import Reason

    reasons = {one.reason for one in checked} - {None}
    if reasons - {Reason.UNSIGNED}:
        return ExitCode.INVALID
    return ExitCode.FINDINGS if reasons else ExitCode.GOOD


def _as_text(checked: Sequence[Checked]) -> str:
    from harness.reporting.escape import plain
    from harness.wire.signed_documents import DEMONSTRATED, DEMONSTRATION, PROVES, PROVES_NOT

    bad = sorted(
        (one for one in checked if one.reason is not None), key=lambda one: (one.reason == "unsigned", one.path)
    )
    lines = [f"{plain(one.path)}  {plain(one.message)}" for one in bad]
    by = sorted({(one.principals, one.fingerprint) for one in checked if one.reason is None})
    for principals, print_of_key in by:
        count = sum((one.principals, one.fingerprint) == (principals, print_of_key) for one in checked)
        lines.append(f"{count} signed by {plain(principals)} ({print_of_key})")
    lines.append(f"{len(checked) - len(bad)} of {len(checked)} documents have a signature that counts")
    shown = any(principals.startswith(DEMONSTRATION) for principals, _ in by)
    return "\n".join([*lines, PROVES, PROVES_NOT, *([DEMONSTRATED] if shown else []), ""])


def _as_value(checked: Sequence[Checked], code: ExitCode) -> dict[str, object]:
    from harness.wire.signed_documents import PROVES, PROVES_NOT

    return {
        "exit_code": int(code),
        "proves": PROVES,
        "proves_not": PROVES_NOT,
        "documents": [
            {
                "path": one.path,
                "counts": one.reason is None,
                "reason": str(one.reason or ""),
                "detail": one.detail,
                "principals": one.principals,
                "key": one.fingerprint,
            }
            for one in checked
        ],
    }
