"""Check certificates on any machine: parse, schema, digests, every derived field again from the evidence, the ledger.

Without ``--require-pass`` honest stops are listed and do not fail the gate; with it every cell of every current
certificate must have passed.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from harness.model.certificate import GateReport

DEFAULT = "certificates"
EXAMPLE = "example: statecert gate certificates\n         statecert gate --explain CG301"


def configure(parser: argparse.ArgumentParser) -> None:
    """Folders, what is required, how to print."""
    parser.add_argument("folder", nargs="*", help="certificate folders (default: certificates)")
    parser.add_argument("--require-pass", action="store_true", help="every cell of every current certificate must pass")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--list-rules", action="store_true", help="list the rules and stop")
    parser.add_argument("--explain", metavar="CGnnn", help="explain one rule and stop")


def run(args: argparse.Namespace) -> ExitCode:
    """Gate the folders, or speak about the rules."""
    from harness.gating import outputs

    if args.explain:
        sys.stdout.write(outputs.explain(args.explain))
        return ExitCode.GOOD
    if args.list_rules:
        _bytes(outputs.rules_json()) if args.json else sys.stdout.write(outputs.rules_table())
        return ExitCode.GOOD
    report = _gate(args.folder, require_pass=args.require_pass)
    _bytes(outputs.to_json(report)) if args.json else sys.stdout.write(outputs.text(report))
    return report.exit_code


def run_plain(folders: Sequence[str]) -> ExitCode:
    """Gate folders without any option: the argument parser takes as long to import as some records to judge."""
    from harness.gating import outputs

    report = _gate(folders)
    sys.stdout.write(outputs.text(report))
    return report.exit_code


def _gate(folders: Sequence[str], *, require_pass: bool = False) -> GateReport:
    """Gate the folders. What was imported is there to stay, so that no collector need look at it."""
    gc.disable()
    try:
        from harness.gating.gate import gate

        gc.freeze()
    finally:
        gc.enable()
    return gate(folders or [DEFAULT], require_pass=require_pass)


def _bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
