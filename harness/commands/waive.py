"""Record that a finding of one gate rule on one certificate is accepted, and until when.

A gate then lists such findings with the id of this event and counts them, without weight for its exit code. Only what a
caller requires can be waived (exit class 1); a waiver that has ended is a finding.
"""

from __future__ import annotations

import argparse

from harness.commands import ledger_common as common
from harness.errors import ExitCode

EXAMPLE = (
    "example: statecert waive 3f9a01 --rule CG601 --reason environment_changed --until 2026-12-31\n" + common.REASONS
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The certificate, the rule, the reason, the last day."""
    parser.add_argument("certificate", help="at least 6 hex digits of its id")
    parser.add_argument("--rule", required=True, metavar="CGnnn", help="the gate rule")
    common.add_reason(parser)
    parser.add_argument("--until", default="", metavar="DATE", help="last day, like 2026-12-31 (default: no end)")
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Write the event and what follows from it."""
    from harness.certifying.ledger import waive

    store = common.opened(args.folder)
    found = store.find(args.certificate)
    at = common.time_for(store, found)
    written = waive(args.folder, found.id, args.rule, args.reason, at, until=args.until)
    return common.echo(args.folder, found.id, written)
