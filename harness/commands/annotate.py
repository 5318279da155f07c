"""Put a note beside a certificate, by an event in the ledger; it changes nothing of what the certificate supports.

The note is a code; a line of text may be added, of at most 200 printable ASCII characters, without names of people,
machines, addresses or paths.
"""

from __future__ import annotations

import argparse

from harness.commands import ledger_common as common
from harness.errors import ExitCode

EXAMPLE = (
    "example: statecert annotate 3f9a01 --note-code environment_changed --note 'driver update pending'\n"
    + common.REASONS.replace("reasons", "codes")
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The certificate, the code, the line."""
    parser.add_argument("certificate", help="at least 6 hex digits of its id")
    common.add_reason(parser, "--note-code", "what the note is about, one of the codes")
    parser.add_argument("--note", default="", metavar="TEXT", help="one short line")
    common.add_folder(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Write the event and what follows from it."""
    from harness.certifying.ledger import annotate

    store = common.opened(args.folder)
    found = store.find(args.certificate)
    written = annotate(args.folder, found.id, args.note_code, common.time_for(store, found), note=args.note)
    return common.echo(args.folder, found.id, written)
