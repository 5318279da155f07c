"""Sign certificates and ledger events with an Ed25519 key: a file.sig beside each file that has none yet.

Signed are the canonical bytes of a certificate's body, or of an event: the bytes whose SHA-256 is the id. Keys are
OpenSSH files; one with a passphrase or in an agent is used with --with-ssh-keygen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands import ledger_common as common
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.certifying.store import Store

EXAMPLE = (
    "example: statecert sign --key ~/.ssh/lab_ed25519\n"
    "         statecert sign 3f9a01 --key ~/.ssh/lab_ed25519 --with-ssh-keygen"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Which documents, which key."""
    parser.add_argument(
        "id",
        nargs="*",
        help="certificates or events, at least 6 hex digits each; a certificate's events are signed too",
    )
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="OpenSSH Ed25519 private key")
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

    ids = _ids(common.opened(args.folder), args.id)
    signer = ssh_keygen_signer(args.key) if args.with_ssh_keygen else key_signer(args.key)
    signed = sign_folder(args.folder, signer, ids, again=args.again)
    for path in signed.written:
        sys.stdout.write(f"wrote {path}\n")
    sys.stdout.write(f"{len(signed.written)} signed by {fingerprint(signer.public_key)}, ")
    sys.stdout.write(f"{len(signed.kept)} had a signature already\n{PROVES}\n{PROVES_NOT}\n")
    return ExitCode.GOOD


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
