"""Let one certificate replace another, by an event in the ledger. The old file stays as it is, but for its status.

A new run on the same machine supersedes its predecessor by itself; this is for what a merge left side by side, and for
corrections. Both must speak of the same claim key on the same machine, and a stop gives way only to a record that
stands and ran at least as many cells.
"""

from __future__ import annotations

import argparse

from harness.commands import ledger_common as common
from harness.errors import ExitCode

EXAMPLE = f"example: statecert supersede 3f9a01 --by 77c2d4 --reason measurement_invalid\n{common.REASONS}"


def configure(parser: argparse.ArgumentParser) -> None:
    """The two certificates and the reason."""
    parser.add_argument("old", help="the one that is replaced: at least 6 hex digits of its id")
    parser.add_argument("--by", required=True, metavar="NEW", help="its successor")
    common.add_reason(parser)
    common.add_mend(parser)
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Write the event and what follows from it."""
    from harness.certifying.ledger import supersede

    store = common.opened(args.folder)
    old, new = store.find(args.old), store.find(args.by)
    at = common.time_for(store, old, new)
    written = supersede(args.folder, old.id, new.id, args.reason, at, mend=args.mend)
    return common.echo(args.folder, old.id, written)
