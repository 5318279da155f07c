"""Run engines with one planted fault each: all must be stopped, each by its named check at the expected part.

A failing check stops a mutant; a crash, an error or a refusal that nobody planned does not. The clean engine runs every
cell too and must pass it. With ``--matrix`` every mutant meets every scenario: which one stops which. With ``--beyond``
only those are run that a certified matrix does not show stopped, as they and their scenarios are now, and one of each
kind. With ``--count`` nothing is run: how many there are of each kind of fault, and which scenarios say so.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json, parse_options, show, use_colour
from harness.errors import ExitCode, NothingToDoError, UsageError

if TYPE_CHECKING:
    from harness.model.scenario import Scenario
    from harness.mutation.crossing import Cross
    from harness.mutation.expecting import Expected
    from harness.mutation.trying import Tried
    from harness.mutation.workshops import Workshop
    from harness.reporting.tables import Table

EXAMPLE = "example: statecert mutants K01 K07.handle-views"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which mutants, which scenarios for the matrix, where to write."""
    parser.add_argument("mutant", nargs="*", help="ids like K01.conv-zeroed, kinds like K07 (default: all)")
    parser.add_argument("--matrix", action="store_true", help="run every mutant against every scenario; takes long")
    parser.add_argument(
        "--claims", action="store_true", help="run every mutant against all scenarios that list it under faults"
    )
    parser.add_argument(
        "--beyond",
        type=Path,
        metavar="DIR",
        help="leave out what the certified matrix in this folder shows stopped, but for one of each kind",
    )
    parser.add_argument("--count", action="store_true", help="run nothing; count the mutants of each kind of fault")
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="ID",
        help="only mutants of this scenario; with --matrix: only these scenarios (may be repeated)",
    )
    parser.add_argument("--scenarios", type=Path, metavar="DIR", help="take scenarios from this folder")
    parser.add_argument("--target", default="torch", help="the clean engine (default: %(default)s)")
    parser.add_argument("--preset", default="tiny", help="model preset (default: %(default)s)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="engine option; may be repeated"
    )
    parser.add_argument("--device", default="cpu", help="device of the engines (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where the run folder goes")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="children side by side (default: %(default)s)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run, print, say how many were stopped."""
    from harness.mutation.expecting import chosen
    from harness.mutation.workshops import expectations, workshops
    from harness.pipeline import available_scenarios, new_run_folder

    names = chosen(args.mutant, args.preset, args.target)
    scenarios = available_scenarios(args.scenarios)
    for name in args.scenario:
        if name not in scenarios:
            raise UsageError(f"there is no scenario {name!r}; there are: {', '.join(scenarios) or 'none'}")
    if args.count:
        return _counted(names, scenarios, args)
    folder = new_run_folder(args.out)
    _tell(args, f"starting {args.target} on {args.device} ...\n")
    jobs = max(1, min(args.jobs, len(names)))
    options = parse_options(args.option)
    engine = {"engine": args.target, "device": args.device, "preset": args.preset}
    with workshops(folder, jobs, **engine, options=options, forked=True) as shops:
        if args.beyond:
            names = _beyond(shops[0], names, scenarios, args)
        expected = expectations(shops[0], names)
        if args.matrix or args.claims:
            picked = {name: one for name, one in scenarios.items() if not args.scenario or name in args.scenario}
            return _crossed(shops, expected, picked, args)
        wanted = [one for one in expected if not args.scenario or one.scenario in args.scenario]
        return _each(shops, wanted, scenarios, args)


def _beyond(
    shop: Workshop, names: Sequence[str], scenarios: Mapping[str, Scenario], args: argparse.Namespace
) -> list[str]:
    """Choose what a certified matrix leaves to be run, and say how many there are, and why."""
    from harness.mutation.certified import ground_now, newest_matrix, to_run
    from harness.mutation.sources import files_of_mutant

    shown = newest_matrix(args.beyond, args.target, args.preset)
    why = to_run(names, shown, files_of_mutant, scenarios, ground_now(shop))
    counts = Counter(why.values())
    told = "".join(f"  {count:4}  {reason}\n" for reason, count in counts.most_common())
    if not args.json:
        sys.stdout.write(f"to be run of {len(names)}, for what a certified matrix does not show:\n{told}")
        sys.stdout.flush()
    return list(why)


def _counted(names: Sequence[str], scenarios: Mapping[str, Scenario], args: argparse.Namespace) -> ExitCode:
    """Count, and find out what is claimed by no scenario, or by one and not there."""
    from harness.engines import registry

    counts = kind_table(names, scenarios, whole=not args.mutant)
    show(counts, as_json=args.json)
    claimed = {fault for one in scenarios.values() for fault in one.faults}
    unknown = sorted(claimed - set(registry.names(registry.MUTANTS)))
    if unknown and not args.json:
        sys.stdout.write(f"claimed by scenarios and not there: {', '.join(unknown)}\n")
    empty = [row["kind"] for row in counts.rows if not row["mutants"]]
    return ExitCode.FINDINGS if unknown or empty else ExitCode.GOOD


def kind_table(names: Sequence[str], scenarios: Mapping[str, Scenario], *, whole: bool) -> Table:
    """One row per kind of fault and one of all.

    Args:
        names: Ids of mutants.
        scenarios: What may claim them.
        whole: Also show known kinds that none of these is of.
    """
    from harness.reporting.fault_kinds import KINDS
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    kinds = sorted({name.partition(".")[0] for name in names} | (set(KINDS) if whole else set()))
    rows = [_kind_row(kind, [name for name in names if name.partition(".")[0] == kind], scenarios) for kind in kinds]
    found = counted(sum(bool(row["mutants"]) for row in rows), "kind")
    rows.append({**_kind_row("all", names, scenarios), "fault": found})
    columns = [Column(key=key, header=key) for key in ("kind", "mutants", "scenarios", "fault")]
    return Table(title=counted(len(names), "mutant"), columns=columns, rows=rows)


def _kind_row(kind: str, names: Sequence[str], scenarios: Mapping[str, Scenario]) -> dict[str, str | int]:
    from harness.reporting.fault_kinds import KINDS

    claiming = sum(not set(names).isdisjoint(one.faults) for one in scenarios.values())
    return {"kind": kind, "mutants": len(names), "scenarios": claiming, "fault": KINDS.get(kind, "")}


def _each(
    shops: Sequence[Workshop], wanted: Sequence[Expected], scenarios: Mapping[str, Scenario], args: argparse.Namespace
) -> ExitCode:
    from harness.mutation.trying import Serial, runs_of, try_all
    from harness.reporting.progress import progress

    if not wanted:
        raise NothingToDoError(f"no mutant of these is stopped by {', '.join(args.scenario)}")
    runs = runs_of(wanted, scenarios)
    count = len(wanted) + len(runs)
    with progress(sys.stderr, cells=count, quiet=args.quiet or args.json, colour=use_colour()) as display:
        tried = try_all(shops, runs, Serial(display))
    show(table(tried) if args.json else short_table(tried), as_json=args.json)
    lost = sum(not one.stopped for one in tried)
    if not args.json:
        sys.stdout.write(f"evidence      {shops[0].folder.parent}\n{summary(len(tried), lost)}\n")
    return ExitCode.FINDINGS if lost else ExitCode.GOOD


def summary(count: int, lost: int) -> str:
    """The last line."""
    from harness.reporting.units import counted

    return f"{counted(count, 'mutant')}, {count - lost} stopped, {lost} not stopped"


def table(tried: Sequence[Tried]) -> Table:
    """One row per mutant: its fault, what had to stop it, what that found."""
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    keys = ("mutant", "fault", "cell", "check", "found", "stopped", "why_not")
    columns = [Column(key=key, header=key) for key in keys]
    return Table(title=counted(len(tried), "mutant"), columns=columns, rows=[_row(one) for one in tried])


def short_table(tried: Sequence[Tried]) -> Table:
    """The same in as few columns as a terminal has room for."""
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    headers = {"mutant": "mutant", "must_fail": "must fail", "found": "found", "stopped": "stopped", "fault": "fault"}
    columns = [Column(key=key, header=header) for key, header in headers.items()]
    rows = [_short_row(one) for one in tried]
    return Table(title=counted(len(tried), "mutant"), columns=columns, rows=rows)


def _short_row(one: Tried) -> dict[str, str | int]:
    return {
        "mutant": one.expected.id,
        "must_fail": f"{one.cell} {one.expected.check}",
        "found": one.found or "nothing",
        "stopped": f"no: {one.why_not}" if one.why_not else "yes",
        "fault": one.expected.fault,
    }


def _row(one: Tried) -> dict[str, str | int]:
    row: dict[str, str | int] = {
        "mutant": one.expected.id,
        "fault": one.expected.fault,
        "cell": one.cell,
        "check": one.expected.check,
        "found": one.found or "nothing",
        "stopped": "no" if one.why_not else "yes",
    }
    return {**row, "why_not": one.why_not} if one.why_not else row


def _crossed(
    shops: Sequence[Workshop], wanted: Sequence[Expected], scenarios: Mapping[str, Scenario], args: argparse.Namespace
) -> ExitCode:
    from harness.mutation.crossing import claims, cross
    from harness.mutation.trying import Serial
    from harness.mutation.workshops import side_by_side
    from harness.reporting.progress import progress

    whole = [(one, scenario) for one in wanted for scenario in scenarios.values()]
    pairs = claims(wanted, scenarios) if args.claims else whole
    if not pairs:
        raise NothingToDoError("no scenario of these lists a mutant of these")
    with progress(sys.stderr, cells=len(pairs), quiet=args.quiet or args.json, colour=use_colour()) as display:
        serial = Serial(display)

        def work(shop: Workshop, pair: tuple[Expected, Scenario]) -> Cross:
            what = f"{pair[0].id} {pair[1].id}"
            serial.cell_begin(what)
            met = cross(shop, *pair)
            serial.cell_end(what, met.word, met.by)
            return met

        found = side_by_side(shops, pairs, work)
    return _claimed(found, args) if args.claims else _matrix(found, args)


def _claimed(found: Sequence[Cross], args: argparse.Namespace) -> ExitCode:
    from harness.reporting.units import counted

    show(pairs_table(found), as_json=args.json)
    lost = sum(one.word != "stopped" for one in found)
    if not args.json:
        sys.stdout.write(f"{counted(len(found), 'claim')}, {len(found) - lost} hold, {lost} do not hold\n")
    return ExitCode.FINDINGS if lost else ExitCode.GOOD


def _matrix(found: Sequence[Cross], args: argparse.Namespace) -> ExitCode:

    show(pairs_table(found) if args.json else matrix_table(found), as_json=args.json)
    stopped = {one.mutant for one in found if one.word == "stopped"}
    names = list(dict.fromkeys(one.mutant for one in found))
    lost = [name for name in names if name not in stopped]
    if not args.json:
        sys.stdout.write(f"stopped by no scenario here: {', '.join(lost) or 'none'}\n")
        sys.stdout.write(f"{summary(len(names), len(lost))}\n")
    return ExitCode.FINDINGS if lost else ExitCode.GOOD


def pairs_table(found: Sequence[Cross]) -> Table:
    """One row per mutant and scenario."""
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    columns = [Column(key=key, header=key) for key in ("mutant", "scenario", "word", "by")]
    rows: list[dict[str, str | int]] = [
        {"mutant": one.mutant, "scenario": one.scenario, "word": one.word, "by": one.by} for one in found
    ]
    return Table(title=counted(len(rows), "pair"), columns=columns, rows=rows)


_LETTERS = {"stopped": "x", "survived": ".", "refused": "r", "crash": "c", "error": "e"}


def matrix_table(found: Sequence[Cross]) -> Table:
    """Mutants down, scenarios across."""
    from harness.reporting.tables import Column, Table

    scenarios = list(dict.fromkeys(one.scenario for one in found))
    rows: dict[str, dict[str, str | int]] = {}
    for one in found:
        rows.setdefault(one.mutant, {"mutant": one.mutant})[one.scenario] = _LETTERS[one.word]
    columns = [Column(key="mutant", header="mutant"), *(Column(key=name, header=name) for name in scenarios)]
    title = "x stopped, . survived, r refused, c crashed, e error"
    return Table(title=title, columns=columns, rows=list(rows.values()))


def _tell(args: argparse.Namespace, text: str) -> None:
    if not (args.quiet or args.json):
        sys.stderr.write(text)
