"""Kill the engine's process at random points of a publish, and look at what the next process makes of its folder.

Every round: a prompt is forwarded, its links are sent to the disk, SIGKILL comes after a planned share of the time that
takes. A new process must open the folder; whatever it restores must equal what the killed one had; what was reported
as published must be there. A bit flipped on purpose must be seen.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from harness.commands.campaigns import Body, add_campaign, facts_table, on_bench, run_or_check, teller
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.campaigning.campaign import Campaign
    from harness.reporting.tables import Table

EXAMPLE = (
    "example: statecert kill --kills 200\n"
    "         statecert kill --certify\n"
    "         statecert kill --check runs/x/kill.jsonl"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """How many kills, where to write."""
    parser.add_argument("--kills", type=int, default=200, help="kills (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of prompts and times (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="folders side by side (default: %(default)s)"
    )
    add_campaign(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run the campaign, or check the files of one, and print what was counted."""

    def carried() -> Campaign:
        from harness.campaigning.kill import Asked, run_kills

        asked = Asked(kills=args.kills, seed=args.seed, lanes=args.jobs)
        return on_bench(args, lambda up: run_kills(up, asked, teller(args, args.kills, 10)))

    return run_or_check(args, carried, table)


def table(body: Body) -> Table:
    """One row per count."""
    from harness.reporting.campaign_counts import KILL

    return facts_table("kills", body, KILL.facts)
