"""Say whose signatures count: add, list or remove keys in the allowed signers file, or revoke a key.

The files are OpenSSH's own, so `ssh-keygen -Y verify` reads them too. They belong into the repository, and a gate must
take them from the base, not from the change that it judges. Removing a key is for mistakes; a key that may have got
into other hands is revoked, and then nothing that it ever signed counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_action, add_json, show
from harness.commands.verify import REVOKED, SIGNERS
from harness.errors import ExitCode, NothingToDoError
from harness.wire import files

if TYPE_CHECKING:
    from harness.reporting.tables import Table
    from harness.wire.allowed_signers import Line

EXAMPLE = (
    "example: statecert trust add lab-a --key lab-a.pub --valid-before 2027-12-31\n"
    "         statecert trust list\n"
    "         statecert trust remove lab-a\n"
    "         statecert trust revoke --key lab-a.pub"
)
_BYTES = 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Four actions."""
    parser.add_argument("--signers", type=Path, default=SIGNERS, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--revoked", type=Path, default=REVOKED, metavar="FILE", help="default: %(default)s")
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|list|remove|revoke")
    add = add_action(actions, "add", does="let a key sign", examples=EXAMPLE)
    add.add_argument("principal", help="who signs: a lab, like lab-a; not a person")
    add.add_argument("--key", type=Path, required=True, metavar="FILE.pub", help="OpenSSH Ed25519 public key")
    add.add_argument("--namespaces", default="statecert/*", metavar="PATTERNS", help="default: %(default)s")
    add.add_argument("--valid-after", default="", metavar="TIME", help="like 2026-01-01 or 2026-01-01T12:00:00Z, UTC")
    add.add_argument("--valid-before", default="", metavar="TIME", help="the same")
    add_json(add_action(actions, "list", does="show who may sign what, and until when", examples=EXAMPLE))
    remove = add_action(actions, "remove", does="take lines out", examples=EXAMPLE)
    remove.add_argument("principal")
    remove.add_argument("--key", type=Path, metavar="FILE.pub", help="only this key of the principal")
    revoke = add_action(actions, "revoke", does="let nothing count that a key ever signed", examples=EXAMPLE)
    revoke.add_argument("--key", type=Path, required=True, metavar="FILE.pub")


def run(args: argparse.Namespace) -> ExitCode:
    """Do the action."""
    return {"add": _add, "list": _list, "remove": _remove, "revoke": _revoke}[str(args.action)](args)


def _add(args: argparse.Namespace) -> ExitCode:
    from harness.certifying.sign import public_key
    from harness.wire.sshsig import fingerprint
    from harness.wire.trust_files import with_signer

    key = public_key(args.key)
    times = (args.valid_after, args.valid_before)
    _write(
        args.signers, with_signer(_read(args.signers), args.principal, key, args.namespaces, *times, str(args.signers))
    )
    sys.stdout.write(f"{args.principal} may sign {args.namespaces} with {fingerprint(key)}\nwrote {args.signers}\n")
    return ExitCode.GOOD


def _list(args: argparse.Namespace) -> ExitCode:
    from harness.reporting.escape import plain
    from harness.wire.allowed_signers import parse_revoked, parse_signers
    from harness.wire.sshsig import fingerprint

    lines = parse_signers(_read(args.signers), str(args.signers)).lines
    revoked = parse_revoked(_read(args.revoked), str(args.revoked))
    if not lines and not revoked:
        raise NothingToDoError(f"no key in {args.signers}")
    if args.json:
        show(_table(lines, revoked), as_json=True)
        return ExitCode.GOOD
    for line in lines:
        state = "  REVOKED" if line.key in revoked else ""
        after, before = _day(line.valid_after), _day(line.valid_before)
        sys.stdout.write(f"{plain(line.principals)}  {fingerprint(line.key)}{state}\n")
        sys.stdout.write(f"    namespaces {plain(line.namespaces or '(any)')}; valid {after} to {before}\n")
    for key in sorted(revoked - {line.key for line in lines}):
        sys.stdout.write(f"(no principal)  {fingerprint(key)}  REVOKED\n")
    return ExitCode.GOOD


def _table(lines: Sequence[Line], revoked: Collection[bytes]) -> Table:
    """One row per key: who may sign what with it, from when to when, and whether it is revoked."""
    from harness.reporting.tables import Column, Table
    from harness.wire.sshsig import fingerprint

    rows: list[dict[str, str | int]] = [
        {
            "principals": line.principals,
            "key": fingerprint(line.key),
            "namespaces": line.namespaces,
            **({"valid_after": _day(line.valid_after)} if line.valid_after else {}),
            **({"valid_before": _day(line.valid_before)} if line.valid_before else {}),
            "revoked": "yes" if line.key in revoked else "no",
        }
        for line in lines
    ]
    strangers = sorted(set(revoked) - {line.key for line in lines})
    rows += [{"key": fingerprint(key), "revoked": "yes"} for key in strangers]
    keys = ("principals", "key", "namespaces", "valid_after", "valid_before", "revoked")
    return Table(
        title=f"{len(rows)} keys", columns=[Column(key=key, header=key.replace("_", " ")) for key in keys], rows=rows
    )


def _remove(args: argparse.Namespace) -> ExitCode:
    from harness.certifying.sign import public_key
    from harness.wire.trust_files import without_signer

    key = public_key(args.key) if args.key is not None else b""
    data, count = without_signer(
        _read(args.signers),
        lambda line: line.principals == args.principal and key in (b"", line.key),
        str(args.signers),
    )
    if not count:
        raise NothingToDoError(f"no such key of {args.principal} in {args.signers}")
    _write(args.signers, data)
    sys.stdout.write(f"{count} removed; a key in other hands must be revoked too\nwrote {args.signers}\n")
    return ExitCode.GOOD


def _revoke(args: argparse.Namespace) -> ExitCode:
    from harness.certifying.sign import public_key
    from harness.wire.sshsig import fingerprint
    from harness.wire.trust_files import with_revoked

    key = public_key(args.key)
    _write(args.revoked, with_revoked(_read(args.revoked), key, str(args.revoked)))
    sys.stdout.write(f"{fingerprint(key)} is revoked: nothing that it ever signed counts\nwrote {args.revoked}\n")
    return ExitCode.GOOD


def _read(path: Path) -> bytes:
    return files.read(path, max_bytes=_BYTES) if path.is_file() else b""


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, data)


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else "(no bound)"
