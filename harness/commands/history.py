"""Tell what the ledger says of a certificate: what it replaced, what replaced it, why, and what differed."""

from __future__ import annotations

import argparse
import sys

from harness.commands import ledger_common as common
from harness.commands.common import add_json
from harness.errors import ExitCode

EXAMPLE = (
    "example: statecert history 3f9a01\n         statecert history 3f9a01 --folder runs/latest/certificates --json"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The certificate and the form."""
    parser.add_argument("certificate", help="at least 6 hex digits of its id")
    common.add_folder(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Print the chain, oldest first."""
    from harness.certifying import chain
    from harness.wire import canonical

    store = common.opened(args.folder)
    found = store.find(args.certificate)
    if args.json:
        sys.stdout.buffer.write(canonical.render(chain.as_value(store, found)))
    else:
        sys.stdout.write(chain.as_text(store, found))
    return ExitCode.GOOD
