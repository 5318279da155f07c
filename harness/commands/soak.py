"""Let a few conversations grow for hundreds of turns on one engine: memory stays, the budget holds, states stay exact.

The engine may hold about half of what the conversations would like to keep. After every step the bytes held are
compared with the budget; the memory of the engine's process after the warm-up is compared with that at the end; now
and then a turn is repeated without the cache. Last, snapshots are kept on purpose: that growth must be seen.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness.commands.campaigns import Body, add_campaign, facts_table, on_bench, run_or_check, teller
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.campaigning.campaign import Campaign
    from harness.reporting.tables import Table

EXAMPLE = (
    "example: statecert soak --turns 500\n"
    "         statecert soak --certify\n"
    "         statecert soak --check runs/x/soak.jsonl"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """How many turns, where to write."""
    parser.add_argument("--turns", type=int, default=500, help="turns (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the conversations (default: %(default)s)")
    add_campaign(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run the campaign, or check the files of one, and print what was counted."""

    def carried() -> Campaign:
        from harness.campaigning.soak import Asked, run_soak

        asked = Asked(turns=args.turns, seed=args.seed)
        return on_bench(args, lambda up: run_soak(up, asked, teller(args, args.turns, 50)))

    return run_or_check(args, carried, table)


def table(body: Body) -> Table:
    """One row per count."""
    from harness.reporting.campaign_counts import SOAK

    return facts_table("soak", body, SOAK.facts)
