"""The matrix of K/V element types: each pair as an exact page and as a CacheGen archive, measured side by side.

Fresh processes make the pages, code them (LCG1, LCG2), write, read and import them and decode the next token, in rounds
whose order rotates. A lossy form must be smaller, and within its limits for restore to first token, import, total cost
and memory; LCG2's bytes must be those of its formula. The entries H01 to H10 and G11 are tried on the same pages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.commands.campaigns import Body, add_campaign, on_bench, run_or_check, teller, verdict
from harness.commands.common import show
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.campaigning.campaign import Campaign
    from harness.reporting.tables import Table

EXAMPLE = (
    "example: statecert kv --certify\n"
    "         statecert kv --scale 1 --type f16 --model scheduled\n"
    "         statecert kv --resume runs/x/kv.jsonl\n"
    "         statecert kv --mutants\n"
    "         statecert kv --check runs/x/kv.jsonl"
)
_READABLE: Final = {
    "name": "cell",
    "bins": "bins",
    "outcome": "outcome",
    "size_ppm": "bytes",
    "restore_ppm": "restore",
    "import_ppm": "import",
    "total_ppm": "total cost",
    "lossy_composed_ns": "composed",
    "lossy_overlap_ns": "overlap",
    "lossy_host_kib": "host memory",
    "agreed": "agreed",
    "why": "why",
}
"""Headings of the table for people: each figure beside that of the exact form."""
_SHOWN: Final = (
    "name", "bins", "outcome", "size_ppm", "restore_ppm", "import_ppm", "total_ppm", "lossy_composed_ns",
    "lossy_overlap_ns", "lossy_host_kib", "agreed", "why",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Which cells, how many rounds, where to write."""
    parser.add_argument(
        "--scale", type=int, default=16, help="divides the prefixes of 4,000 and 19,000 tokens (default: %(default)s)"
    )
    parser.add_argument("--type", action="append", default=[], metavar="TYPE", help="only these types of K and V")
    parser.add_argument("--model", action="append", default=[], help="scheduled (both bins), wide (two caches)")
    parser.add_argument("--processes", type=int, default=2, help="fresh processes, one after another (default: 2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each process (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=32, help="decode steps of a continuation (default: %(default)s)")
    parser.add_argument(
        "--lcg", type=int, action="append", default=[], choices=(1, 2), help="only this version of the segments"
    )
    parser.add_argument("--path", default="compiled", help="encodes: compiled, numpy, oracle (default: compiled)")
    parser.add_argument(
        "--restore", default="", metavar="PATH",
        help="decodes: as --path, or torch, triton or triton_interpreted on the device (default: that of "
        "--path; torch on other devices)",
    )  # fmt: skip
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="go on with a campaign that was broken off, by its options"
    )
    parser.add_argument(
        "--mutants", action="store_true", help="no matrix: try the probes on pages with one planted fault each"
    )
    add_campaign(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run the campaign, or check the files of one, or try the mutants; print the table."""
    if args.mutants:
        return _mutants(args)

    def carried() -> Campaign:
        from harness.campaigning.kv import Asked, procedure_of, run_kv, whole_of
        from harness.campaigning.kv_resuming import kept_of
        from harness.deriving.kv_plan import CODECS, CODED, MODELS

        if args.resume:
            kept = kept_of(args.resume)
            return on_bench(args, lambda up: run_kv(up, kept, teller(args, whole_of(kept.procedure), 1)))
        asked = Asked(
            scale=args.scale,
            pairs=tuple(args.type) or CODED,
            models=tuple(args.model) or tuple(MODELS),
            processes=args.processes,
            rounds=args.rounds,
            steps=args.steps,
            versions=tuple(args.lcg) or CODECS,
            path=args.path,
            restore=args.restore,
        )
        whole = whole_of(procedure_of(asked))
        return on_bench(args, lambda up: run_kv(up, asked, teller(args, whole, 1)))

    return run_or_check(args, carried, lambda body: table(body, exact=args.json))


def table(body: Body, *, exact: bool = True) -> Table:
    """One row per cell, lossy beside exact.

    Args:
        body: Of the campaign.
        exact: Millionths and KiB as they are recorded, for programs; else with units, for people.
    """
    from harness.reporting.campaign_kv import COLUMNS
    from harness.reporting.tables import Column, Table

    heads = {**COLUMNS, "why": "why"} if exact else _READABLE
    left = ("name", "outcome", "why")
    columns = [Column(key=name, header=heads[name], justify="left" if name in left else "right") for name in _SHOWN]
    results, entries = body["results"], body["entries"]
    rows = [
        {
            **{name: row[name] if exact else _readable(name, row[name]) for name in _SHOWN if name in row},
            "why": ", ".join(row["reasons"]),
        }
        for row in (results if isinstance(results, list) else [])
    ]
    told = [f"{one['entry']} {one['outcome']}" for one in entries] if isinstance(entries, list) else []
    return Table(title=f"kv: {verdict(body)}; {', '.join(told)}", columns=columns, rows=rows)


def _readable(name: str, value: str | int | list[int]) -> str | int:
    """A figure with its unit; bytes as a share of the exact ones, times beside the exact ones as a multiple."""
    from harness.reporting.units import duration, percent, ratio, size

    if isinstance(value, list):
        return "+".join(map(str, value))
    if not isinstance(value, int) or name == "agreed":
        return value
    if name == "lossy_host_kib":
        return size(value << 10)
    if name.endswith("_ns"):
        return duration(value)
    return percent(value) if name == "size_ppm" else ratio(value)


def _mutants(args: argparse.Namespace) -> ExitCode:
    from harness.campaigning.kv_mutants import PAGE_MUTANTS, caught
    from harness.engines import registry
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    rows = [dict(caught(name, args.device or "cpu")) for name in registry.names(PAGE_MUTANTS)]
    columns = [Column(key=name, header=name) for name in ("mutant", "entry", "probe", "stopped", "failed")]
    show(Table(title="pages with one planted fault", columns=columns, rows=rows), as_json=args.json)
    good = all(row["stopped"] == "yes" for row in rows)
    if not args.json:
        sys.stdout.write(f"{counted(len(rows), 'mutant')}, {sum(row['stopped'] == 'yes' for row in rows)} stopped\n")
    return ExitCode.GOOD if good and rows else ExitCode.FINDINGS
