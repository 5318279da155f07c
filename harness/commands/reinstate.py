"""Make a withdrawn or superseded certificate current again, by an event in the ledger.

An older certificate that is current for the same claim key and machine gives way to it; a newer one does not, and must
be withdrawn first.
"""

from __future__ import annotations

import argparse

from harness.commands import ledger_common as common
from harness.errors import ExitCode

EXAMPLE = f"example: statecert reinstate 3f9a01 --reason record_error\n{common.REASONS}"


def configure(parser: argparse.ArgumentParser) -> None:
    """The certificate and the reason."""
    parser.add_argument("certificate", help="at least 6 hex digits of its id")
    common.add_reason(parser)
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Write the event and what follows from it."""
    from harness.certifying.ledger import reinstate

    store = common.opened(args.folder)
    found = store.find(args.certificate)
    written = reinstate(args.folder, found.id, args.reason, common.time_for(store, found))
    return common.echo(args.folder, found.id, written)
