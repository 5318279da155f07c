"""Flip single bits all over the state, one at a time, and show that each is located before the next token is forwarded.

Each flip is brought back by a restore (or made right after one). Beside what the part digests see stands what final
logits and 64 greedy tokens alone would have seen. Two files are written: the observations, and a summary that follows
from them. With ``--certify`` the campaign is also filed as a certificate, if the tree is clean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.commands.common import add_json, add_target, chosen_target, show
from harness.errors import ExitCode, UsageError
from harness.model.values import TreeState, Verdict

if TYPE_CHECKING:
    from harness.faultcampaign import Campaign
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
    add_target(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="where run folders go (default: runs)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--certify",
        type=Path,
        nargs="?",
        const=Path("certificates"),
        metavar="DIR",
        help="file the campaign as a certificate in this folder (default: certificates); a draft if files are changed",
    )
    how.add_argument("--check", type=Path, metavar="FILE", help="derive the summary of this file again; run nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run the campaign, or check the files of one, and print the table."""
    from harness.faultcampaign import require_equal

    if args.check:
        if not args.check.is_file():
            raise UsageError(f"no file {args.check}; --check wants the observations of a campaign")
        body = require_equal(args.check)
        show(table(body), as_json=args.json)
        return exit_code(body)
    done = _run(args)
    filed = _filed(done, args.certify) if args.certify else ""
    show(table(done.body), as_json=args.json)
    if not args.json:
        sys.stdout.write(f"observations  {done.evidence}\nsummary       {done.summary}\n{filed}")
    return exit_code(done.body)


def _filed(done: Campaign, certificates: Path) -> str:
    """File a campaign; say in lines what was written."""
    from harness.pipeline import file_observed

    paths, reason = file_observed(done.evidence, certificates, done.evidence.parent / "drafts")
    if reason:
        return f"draft         {paths[0]} ({reason})\n"
    written = next((path for path in paths if path.parent.name not in {"evidence"} and path.suffix == ".json"), None)
    return f"certificate   {written or certificates}\nnext          statecert gate {certificates}\n"


def _run(args: argparse.Namespace) -> Campaign:
    from harness.faultcampaign import TYPES, Asked, run_campaign
    from harness.pipeline import bench, new_run_folder

    target = chosen_target(args.target, args)
    asked = Asked(flips=args.flips, seed=args.seed, element_types=TYPES if args.type == _ALL else (args.type,))

    def tell(kind: str, done: int) -> None:
        if done % _EVERY == 0 or done == args.flips:
            sys.stderr.write(f"{kind}: {done} of {args.flips}\n")
            sys.stderr.flush()

    with bench(target, new_run_folder(args.out)) as up:
        if args.certify and up.source.tree == TreeState.DIRTY:
            sys.stderr.write("files of engine or harness differ from their commit: this will be a draft\n")
        return run_campaign(up, asked, None if args.json else tell)


def exit_code(body: Mapping[str, object]) -> ExitCode:
    """0: every flip is located; 1: one is not; 3: the campaign proves nothing."""
    decision = body["decision"]
    overall = decision["overall"] if isinstance(decision, Mapping) else Verdict.ERROR
    codes = {Verdict.PASS: ExitCode.GOOD, Verdict.STOP: ExitCode.FINDINGS}
    return codes.get(Verdict(str(overall)), ExitCode.BROKEN)


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
    decision = body["decision"]
    words = [decision["overall"], *decision["reasons"]] if isinstance(decision, Mapping) else []
    return Table(title=f"single-bit faults: {', '.join(map(str, words))}", columns=columns, rows=rows)
