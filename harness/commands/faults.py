"""Flip single bits all over the state, one at a time, and show that each is located before the next token is forwarded.

Each flip is brought back by a restore (or made right after one). Beside what the part digests see stands what final
logits and 64 greedy tokens alone would have seen. Two files are written: the observations, and a summary that follows
from them. With ``--certify`` the campaign is also filed as a certificate, if the tree is clean.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from harness.commands.campaigns import add_campaign, on_bench, run_or_check, teller, verdict
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.campaigning.campaign import Campaign
    from harness.reporting.tables import Table

EXAMPLE = (
    "example: statecert faults --flips 240 --type bf16\n"
    "         statecert faults --certify\n"
    "         statecert faults --check runs/x/faults.jsonl"
)

_COLUMNS: Final = (
    ("element_type", "K/V type"),
    ("flips", "flips"),
    ("located", "located"),
    ("restored", "parts at once"),
    ("prefilled", "parts later"),
    ("logits", "logits"),
    ("logits_end", "logits at the end"),
    ("tokens", "64 tokens"),
)
_ALL: Final = "all"
_EVERY: Final = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """How many flips, of what, where to write."""
    parser.add_argument("--flips", type=int, default=240, help="flips per element type (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the flips (default: %(default)s)")
    parser.add_argument(
        "--type",
        choices=("f32", "f16", "bf16", _ALL, "native"),
        default=_ALL,
        help="element type of K and V; native: what the engine has (default: %(default)s)",
    )
    add_campaign(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run the campaign, or check the files of one, and print the table."""

    def carried() -> Campaign:
        from harness.campaigning.faults import TYPES, Asked, run_faults

        types = TYPES if args.type == _ALL else (args.type,)
        asked = Asked(flips=args.flips, seed=args.seed, element_types=types)
        return on_bench(args, lambda up: run_faults(up, asked, teller(args, args.flips, _EVERY)))

    return run_or_check(args, carried, table)


def table(body: Mapping[str, object]) -> Table:
    """One row per element type: how many flips each way of looking saw."""
    from harness.reporting.tables import Column, Table

    results = body["results"]
    rows = [
        {key: value for key, value in row.items() if isinstance(value, str | int)}
        for row in (results if isinstance(results, list) else [])
    ]
    columns = [
        Column(key=key, header=header, justify="left" if key == "element_type" else "right") for key, header in _COLUMNS
    ]
    return Table(title=f"single-bit faults: {verdict(body)}", columns=columns, rows=rows)
