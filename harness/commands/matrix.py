"""Run mutants (engines with one planted fault each) against scenarios: which one stops which, as a campaign.

Every mutant meets the scenario that it names and, by default, every scenario that lists it under ``faults``; with
``--reach kind`` every scenario that lists a fault of its kind, with ``--reach all`` every one (both take long). The
clean engine meets every cell that stopped one, and must pass it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.campaigns import Body, add_result, run_or_check, teller, verdict
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.campaigning.campaign import Campaign
    from harness.reporting.tables import Table

EXAMPLE = (
    "example: statecert matrix --certify\n"
    "         statecert matrix K07 K13 --reach kind\n"
    "         statecert matrix --check runs/x/matrix.jsonl"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Which mutants, how far, where to write."""
    parser.add_argument("mutant", nargs="*", help="ids like K01.conv-zeroed, kinds like K07 (default: all)")
    parser.add_argument(
        "--reach", choices=("claims", "kind", "all"), default="claims", help="how many scenarios each meets"
    )
    parser.add_argument("--scenarios", type=Path, metavar="DIR", help="take scenarios from this folder")
    parser.add_argument("--target", default="torch", help="the clean engine (default: %(default)s)")
    parser.add_argument("--preset", default="tiny", help="model preset (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="device of the engines (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="children side by side (default: %(default)s)"
    )
    add_result(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run the campaign, or check the files of one, and print the table."""

    def carried() -> Campaign:
        from harness.campaigning.matrix import Asked, run_matrix
        from harness.mutation.expecting import chosen
        from harness.pipeline import available_scenarios, new_run_folder

        names = chosen(args.mutant)
        asked = Asked(
            mutants=names,
            reach=args.reach,
            jobs=max(1, args.jobs),
            engine=args.target,
            device=args.device,
            preset=args.preset,
        )
        folder = new_run_folder(args.out)
        return run_matrix(folder, asked, available_scenarios(args.scenarios), teller(args, 0, 20))

    return run_or_check(args, carried, table)


def table(body: Body) -> Table:
    """One row per kind of fault."""
    from harness.reporting.campaign_matrix import COLUMNS
    from harness.reporting.tables import Column, Table

    results = body["results"]
    rows = [dict(row) for row in results] if isinstance(results, list) else []
    columns = [Column(key=key, header=head) for key, head in COLUMNS.items()]
    return Table(title=f"matrix: {verdict(body)}", columns=columns, rows=rows)
