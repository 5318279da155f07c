"""Give the readers of documents, the gate and the ledger inputs that nobody thought of; each must be refused by name.

First holes are planted, one after another, and must be found: a fuzzer that finds nothing may be blind. Then cases are
made from valid records, by their bytes and by their values, for as long as was asked. An input that raises, breaks a
rule, makes two readers disagree, takes more than a second or 64 MiB, or passes although it was changed, is kept in the
run folder. With ``--certify`` the campaign is also filed as a certificate.

With ``--of codec`` the readers of coded rows are asked instead: a second reader, written apart, must agree about every
input, and every path must decode it to the same page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.campaigns import exit_code
from harness.commands.common import add_json, show
from harness.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from harness.reporting.tables import Table
    from harness.selfcheck.conducting import Checked, Write
    from harness.selfcheck.fuzz import Walk

EXAMPLE = "example: statecert fuzz --minutes 30 --certify\n         statecert fuzz --seconds 60"


def configure(parser: argparse.ArgumentParser) -> None:
    """How long, from which seed, where to write."""
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--minutes", type=int, default=30, help="how long (default: %(default)s)")
    how_long.add_argument("--seconds", type=int, help="a shorter run, for continuous integration")
    parser.add_argument(
        "--of",
        choices=("gate", "codec"),
        default="gate",
        help="gate: readers of documents, gate and ledger; codec: archives of coded rows (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the cases (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where run folders go")
    parser.add_argument(
        "--from", dest="earlier", type=Path, metavar="FILE", help="with --certify: file an earlier campaign"
    )
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="also write inputs that showed something new here")
    parser.add_argument(
        "--certify",
        type=Path,
        nargs="?",
        const=Path("certificates"),
        metavar="DIR",
        help="file the campaign as a certificate in this folder (default: certificates); a draft if files are changed",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Plant holes, walk, write, print."""
    from harness.pipeline import file_observed, new_run_folder

    if args.minutes < 0 or (args.seconds is not None and args.seconds < 0):
        raise UsageError("a campaign lasts no negative time")
    if args.earlier is not None and args.certify is None:
        raise UsageError("--from says what --certify files; add it")
    folder = new_run_folder(args.out) if args.earlier is None else args.earlier.parent
    done = _campaign(args, folder) if args.earlier is None else _earlier(args.earlier)
    show(table(done.body), as_json=args.json)
    if not args.json:
        sys.stdout.write(f"observations  {done.evidence}\n")
    if args.certify:
        paths, reason = file_observed(done.evidence, args.certify, folder / "drafts")
        sys.stdout.write(f"draft         {paths[0]} ({reason})\n" if reason else f"certificate   {args.certify}\n")
    return exit_code(done.body)


def _campaign(args: argparse.Namespace, folder: Path) -> Checked:
    from harness.selfcheck import fuzz
    from harness.selfcheck.conducting import conduct

    seconds = args.minutes * 60 if args.seconds is None else args.seconds
    procedure = {
        "seed": args.seed,
        "minutes": seconds // 60,
        "round": fuzz.ROUND,
        "targets": list(fuzz.SUBJECTS[args.of]),
        "controls": list(fuzz.HOLES[args.of]),
        "slow_ns": fuzz.SLOW_NS,
        "large_kib": fuzz.LARGE_KIB,
    }

    def work(write: Write) -> None:
        until = time.monotonic() + seconds
        with tempfile.TemporaryDirectory(prefix="statecert-fuzz-") as scratch:
            for name, found, cases in fuzz.controls(args.seed, Path(scratch) / "controls", args.of):
                write({"type": "control", "name": name, "found": found, "cases": cases})
            walk = fuzz.Walk(args.seed, Path(scratch) / "walk", of=args.of)
            for one in walk.rounds():
                write(fuzz.record_of(one))
                _tell(args, one.number, walk, until)
                if time.monotonic() >= until:
                    break
        _keep(walk, folder, args.corpus, write)

    return conduct(folder, "fuzz", procedure, work, about=args.of)


def _earlier(path: Path) -> Checked:
    from harness.pipeline import judge
    from harness.selfcheck.conducting import Checked

    if not path.is_file():
        raise UsageError(f"no file {path}; --from wants the observations of a campaign")
    return Checked(evidence=path, body=judge(path)[1])


def _keep(walk: Walk, folder: Path, corpus: Path | None, write: Write) -> None:
    from harness.selfcheck import fuzz
    from harness.wire import files

    for one in walk.crashers[: fuzz.MOST_CRASHERS]:
        write(fuzz.record_of_crasher(one))
        place = folder / "crashers" / f"{one.target}-{one.number}-{one.wrong}"
        place.parent.mkdir(exist_ok=True)
        files.replace(place, one.data)
    if corpus is not None:
        corpus.mkdir(parents=True, exist_ok=True)
        for kept in walk.kept:
            files.replace(corpus / kept.name, kept.data)


def _tell(args: argparse.Namespace, number: int, walk: Walk, until: float) -> None:
    if not args.json and number % 20 == 0:
        left = max(0, int(until - time.monotonic()))
        sys.stderr.write(f"round {number}: {len(walk.crashers)} wrong, {len(walk.kept)} kept, {left} s left\n")
        sys.stderr.flush()


def table(body: Mapping[str, object]) -> Table:
    """One row per target."""
    from harness.reporting.tables import Column, Table

    results, totals, decision = body["results"], body["totals"], body["decision"]
    rows = [dict(row) for row in results] if isinstance(results, list) else []
    words = [decision["overall"], *decision["reasons"]] if isinstance(decision, Mapping) else []
    told = ", ".join(f"{value} {name}" for name, value in totals.items()) if isinstance(totals, Mapping) else ""
    columns = [Column(key="target", header="target"), Column(key="cases", header="cases", justify="right")]
    return Table(title=f"fuzz: {', '.join(map(str, words))} ({told})", columns=columns, rows=rows)
