"""Sign certificates and ledger events with an Ed25519 key: a file.sig beside each file that has none yet.

With --throwaway NAME the key is made in memory, its public half is written to the allowed signers, and the private half
is gone when the command ends: signatures that demonstrate the mechanism and vouch for nobody.

Signed are the canonical bytes of a certificate's body, or of an event: the bytes whose SHA-256 is the id. Keys are
OpenSSH files; one with a passphrase or in an agent is used with --with-ssh-keygen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands import ledger_common as common
from harness.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from harness.certifying.sign import Signer
    from harness.certifying.store import Store

EXAMPLE = (
    "example: statecert sign --key ~/.ssh/lab_ed25519\n"
    "         statecert sign 3f9a01 --key ~/.ssh/lab_ed25519 --with-ssh-keygen\n"
    "         statecert sign certificates --throwaway demonstration --again"
)

_SIGNERS_BYTES = 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Which documents, which key."""
    parser.add_argument(
        "id",
        nargs="*",
        help="certificates or events, at least 6 hex digits each (with the events of a certificate), or the folder",
    )
    key = parser.add_mutually_exclusive_group(required=True)
    key.add_argument("--key", type=Path, metavar="FILE", help="OpenSSH Ed25519 private key")
    key.add_argument(
        "--throwaway",
        metavar="NAME",
        help="a key of this command alone; NAME is its principal and begins with demonstration",
    )
    parser.add_argument(
        "--signers",
        type=Path,
        default=Path("trust/allowed_signers"),
        metavar="FILE",
        help="where --throwaway says whose signatures count (default: %(default)s)",
    )
    parser.add_argument(
        "--with-ssh-keygen",
        action="store_true",
        help="sign by ssh-keygen -Y sign: passphrases, agents (key or key.pub)",
    )
    parser.add_argument("--again", action="store_true", help="also replace signatures that are there")
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Sign and count."""
    from harness.certifying.sign import key_signer, sign_folder, ssh_keygen_signer
    from harness.wire.signed_documents import PROVES, PROVES_NOT
    from harness.wire.sshsig import fingerprint

    if len(args.id) == 1 and Path(args.id[0]).is_dir():
        args.folder, args.id = Path(args.id[0]), []
    ids = _ids(common.opened(args.folder), args.id)
    if args.throwaway is not None:
        signer = _throwaway(args)
    else:
        signer = ssh_keygen_signer(args.key) if args.with_ssh_keygen else key_signer(args.key)
    signed = sign_folder(args.folder, signer, ids, again=args.again)
    for path in signed.written:
        sys.stdout.write(f"wrote {path}\n")
    sys.stdout.write(f"{len(signed.written)} signed by {fingerprint(signer.public_key)}, ")
    sys.stdout.write(f"{len(signed.kept)} had a signature already\n{PROVES}\n{PROVES_NOT}\n")
    return ExitCode.GOOD


def _throwaway(args: argparse.Namespace) -> Signer:
    """Return a signer whose key nobody will have again, after its public half took the place of the last one's."""
    from harness.certifying.sign import throwaway_signer
    from harness.wire import files
    from harness.wire.signed_documents import DEMONSTRATED, DEMONSTRATION
    from harness.wire.trust_files import with_note, with_signer, without_signer

    if not args.throwaway.startswith(DEMONSTRATION) or args.with_ssh_keygen:
        raise UsageError(f"a key that is thrown away belongs to a principal like {DEMONSTRATION}, and to no agent")
    signer, path = throwaway_signer(), args.signers
    held = files.read(path, max_bytes=_SIGNERS_BYTES) if path.is_file() else b""
    if args.again:
        held, _ = without_signer(held, lambda line: line.principals == args.throwaway, str(path))
    named = with_signer(held, args.throwaway, signer.public_key, "statecert/*", "", "", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, with_note(named, DEMONSTRATED))
    sys.stdout.write(f"{args.throwaway} may sign statecert/*; {DEMONSTRATED}\nwrote {path}\n")
    return signer


def _ids(store: Store, heads: list[str]) -> set[str]:
    """Return the whole ids that the heads name; a certificate brings the events about it."""
    found: set[str] = set()
    for head in heads:
        events = [event.id for event in store.events if len(head) >= 6 and event.id.startswith(head)]
        if len(events) == 1 and not any(one.startswith(head) for one in store.certificates):
            found.add(events[0])
        else:
            certificate = store.find(head)
            found |= {certificate.id, *certificate.status.events}
    return found
