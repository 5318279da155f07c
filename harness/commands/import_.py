"""Read records that others published, keep them verbatim, and say what of them adds up and what they come to.

Ratios, sums, bytes for each element type, verdicts against thresholds and quoted reasons are made again from the
record's own numbers. The result is a certificate of kind ``foreign``: it says what was recorded, what that is by the
rules here, and what a reader should know. It never satisfies a claim, unless the policy of a gate says so. Several
records of one model and machine are filed in the order of their days; a later one supersedes the one before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json, show
from harness.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from harness.reporting.tables import Table

EXAMPLE = (
    "example: statecert import summary.json --engine mesh_llm --certify\n"
    "         statecert import gate.json --engine mesh_llm --model tiny --hardware 'cuda sm_90' --published "
    "2026-09-12T08:00:00Z"
)
_TOLD = ("engine", "published", "model", "model_sha256", "hardware")
_SOURCE = ("repository", "path", "commit", "license")


def configure(parser: argparse.ArgumentParser) -> None:
    """Which records, and what they do not say themselves."""
    parser.add_argument("records", type=Path, nargs="+", metavar="FILE", help="records, as they were published")
    parser.add_argument("--engine", required=True, metavar="NAME", help="engine that they are about, like mesh_llm")
    parser.add_argument("--published", metavar="TIME", help="when (default: the day that the record names)")
    parser.add_argument("--model", metavar="NAME", help="model, where the record names none")
    parser.add_argument("--model-sha256", metavar="HEX", help="its digest, where the record has none")
    parser.add_argument("--hardware", metavar="WORDS", help="backend and chip, where the record names none")
    parser.add_argument("--repository", metavar="OWNER/NAME", help="where it was published")
    parser.add_argument("--path", metavar="PATH", help="path there")
    parser.add_argument("--commit", metavar="HEX", help="commit there")
    parser.add_argument("--license", metavar="ID", help="licence there, like Apache-2.0")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where run folders go")
    parser.add_argument(
        "--certify",
        type=Path,
        nargs="?",
        const=Path("certificates"),
        metavar="DIR",
        help="file them as certificates in this folder (default: certificates); drafts if files are changed",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Read all, then write one after the other."""
    from harness.campaigning.importing import Imported, in_order
    from harness.certifying.store import read_store
    from harness.pipeline import file_observed, new_run_folder, utc_now

    told, source = _given(args, _TOLD), _given(args, _SOURCE)
    if len(args.records) > 1 and {"published", "path"} & {*told, *source}:
        raise UsageError("--published and --path are of one record; import them one by one")
    records = in_order([Imported(path, told, source) for path in args.records])
    folder = new_run_folder(args.out)
    for number, record in enumerate(records):
        store = read_store(args.certify) if args.certify is not None else None
        path = folder / f"foreign-{number}.jsonl"
        known = () if store is None else tuple(store.certificates.values())
        body = record.write(path, known)
        show(table(body), as_json=args.json)
        if not args.json:
            sys.stdout.write(f"observations  {path}\n")
        if args.certify is not None:
            paths, reason = file_observed(path, args.certify, folder / "drafts", now=utc_now())
            sys.stdout.write(f"draft         {paths[0]} ({reason})\n" if reason else f"certificate   {args.certify}\n")
    return ExitCode.GOOD


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def table(body: Mapping[str, object]) -> Table:
    """One row for each thing that the record judges, as recorded and as judged."""
    from harness.reporting.foreign import rows_of
    from harness.reporting.tables import Column, Table

    decision = body["decision"]
    words = [decision["overall"], *decision["reasons"]] if isinstance(decision, Mapping) else []
    names = ("name", "recorded", "judged", "reasons", "samples", "recomputed")
    columns = [Column(key=name, header=name, justify="left") for name in names]
    rows = [dict(zip(names, row, strict=True)) for row in rows_of(body)]
    return Table(title=f"foreign record: {', '.join(map(str, words))}", columns=columns, rows=rows)
