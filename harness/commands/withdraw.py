"""Take a certificate back, by an event in the ledger: it supports no claim any more. The file stays.

A stop that it had replaced holds again, by an event written with it: no stop drops out of sight behind a record that
was taken back. A superseded certificate is not withdrawn as well; --mend puts the supersession aside first.
"""

from __future__ import annotations

import argparse

from harness.commands import ledger_common as common
from harness.errors import ExitCode

EXAMPLE = f"example: statecert withdraw 3f9a01 --reason harness_bug\n{common.REASONS}"


def configure(parser: argparse.ArgumentParser) -> None:
    """The certificate and the reason."""
    parser.add_argument("certificate", help="at least 6 hex digits of its id")
    common.add_reason(parser)
    common.add_mend(parser)
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Write the event and what follows from it."""
    from harness.certifying.ledger import withdraw

    store = common.opened(args.folder)
    found = store.find(args.certificate)
    written = withdraw(args.folder, found.id, args.reason, common.time_for(store, found), mend=args.mend)
    return common.echo(args.folder, found.id, written)
