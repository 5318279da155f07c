"""Write a certificate in a form for other tools: in-toto Statement v1 in a signed DSSE envelope, or the signed bytes.

The envelope is signed with an unencrypted OpenSSH Ed25519 key: ssh-keygen signs no bytes but its own, so keys with a
passphrase or in an agent cannot make one. --bytes gives the canonical bytes of the body: what `statecert sign` signs,
what `ssh-keygen -Y verify` reads, and whose SHA-256 is the id.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.commands import ledger_common as common
from harness.errors import ExitCode, UsageError
from harness.wire import canonical, files

EXAMPLE = (
    "example: statecert export --in-toto 3f9a01 --key ~/.ssh/lab_ed25519 --out 3f9a01.intoto.json\n"
    "         statecert export --bytes 3f9a01 --out 3f9a01.body"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The certificate, the form, where to write."""
    parser.add_argument("certificate", help="at least 6 hex digits of its id")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--in-toto", action="store_true", help="in-toto Statement in a DSSE envelope")
    form.add_argument("--bytes", action="store_true", help="the canonical bytes of the body")
    parser.add_argument("--key", type=Path, metavar="FILE", help="OpenSSH Ed25519 private key, for --in-toto")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a new file")
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Write the file; an existing one is left alone."""
    found = common.opened(args.folder).find(args.certificate)
    if args.out.exists():
        raise UsageError(f"{args.out} is there already; nothing was written")
    if args.in_toto:
        from harness.certifying.attestation import PREDICATE_TYPE, envelope, statement
        from harness.certifying.sign import load_private_key
        from harness.wire.signed_documents import PROVES_NOT

        if args.key is None:
            raise UsageError("--in-toto wants --key: an unsigned envelope proves nothing")
        data = canonical.render(envelope(statement(found), load_private_key(args.key)))
        told = f"{found.id[:12]} is {found.status.state}; predicate {PREDICATE_TYPE}\n{PROVES_NOT}\n"
    else:
        data = canonical.canonical(found.body)
        told = f"{len(data)} bytes, SHA-256 {found.id}\n"
    files.write_new(args.out, data)
    sys.stdout.write(f"{told}wrote {args.out}\n")
    return ExitCode.GOOD
