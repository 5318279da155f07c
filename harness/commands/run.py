"""Run scenarios on an engine of this machine: judged at once, written as certificates (or drafts, with the reason).

Evidence, certificates, drafts and the engine's own output go to a new folder ``runs/<utc>-<id>/``. With ``--certify``
the certificates go to ``certificates/`` instead; that needs a clean tree and every cell of the scenarios.

With ``--jobs`` several scenarios run at a time, each in a child of its own; those that are judged by times run first,
alone. What is written does not depend on it; times do, and the record says how many jobs there were.

With ``--fork`` no child imports the engine again: for a survey of an engine whose import takes longer than its cells.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from harness.commands.common import (
    add_json,
    add_scenarios,
    add_target,
    chosen_plans,
    chosen_target,
    opened,
    reason_words,
    require_folder,
    require_writable,
    show,
    typed,
    use_colour,
    why,
)
from harness.errors import ExitCode, StatecertError, UsageError
from harness.model.values import Capability, Outcome, Verdict

if TYPE_CHECKING:
    from harness.jobs import Ran
    from harness.model.evidence import Observation
    from harness.model.scenario import Plan
    from harness.pipeline import Bench, Finished
    from harness.reporting.tables import Table

EXAMPLE = "example: statecert run A01 A02 --suite default"

NO_WORDS: Mapping[str, str] = MappingProxyType({})
RAN = frozenset({Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.ERROR})
"""Outcomes of cells in which an engine was looked at."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Scenarios, target, where to write, whether to certify and gate."""
    add_scenarios(parser)
    add_target(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="where run folders go (default: runs)"
    )
    parser.add_argument(
        "--certify",
        type=Path,
        nargs="?",
        const=Path("certificates"),
        metavar="DIR",
        help="write certificates to this folder (default: certificates) instead of the run folder",
    )
    parser.add_argument("--gate", action="store_true", help="gate what was written, every cell must pass")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="scenarios side by side, those judged by times before them, alone; other times are not those of a "
        "quiet machine (default: %(default)s)",
    )
    parser.add_argument(
        "--fork",
        action="store_true",
        help="fork children of one process that has imported the engine (Linux, processors only): quicker where "
        "scenarios restart; what is written are drafts",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Run, judge, file, print."""
    from harness.pipeline import new_run_folder
    from harness.reporting.escape import lines

    require_folder(args.out, "--out")
    if args.certify:
        require_folder(args.certify, "--certify")
        require_writable(args.certify, "--certify")
    if args.fork and (args.certify or args.gate):
        raise UsageError("--fork: certificates rest on children that were started; leave --certify and --gate away")
    if args.jobs < 1:
        raise UsageError(f"--jobs: found {args.jobs}; expected 1 or more")
    plans = chosen_plans(args)
    target = chosen_target(args.target, args)
    folder = new_run_folder(args.out)
    certificates = args.certify or folder / "certificates"
    if not args.quiet:
        sys.stderr.write(f"starting {target.adapter} on {target.device}{_patience(target.device)} ...\n")
    with opened(target, folder, jobs=min(args.jobs, len(plans)), forked=args.fork) as up:
        if not args.quiet:
            sys.stderr.write(f"{up.facts.engine} {up.facts.model} on {up.facts.hw_class}\n")
        if up.host.absent:
            sys.stderr.write(f"{absence(up)}\n")
        words: dict[str, str] = {}
        finished, interrupted, problems = _run_all(up, plans, certificates, args, words)
    if finished or not problems:
        table = cell_table(finished, absent=up.host.absent, declared=up.host.capabilities, words=words)
        show(table, as_json=args.json)
    mine = exit_code(finished, interrupted=interrupted, wanted=bool(args.certify or args.gate))
    code = reduce(worse, [problem.exit_code for problem in problems], mine)
    if not args.json:
        begun = {one.plan.scenario.id for one in finished}
        left = [plan.scenario.id for plan in plans if plan.scenario.id not in begun]
        _epilogue(finished, folder, certificates, left=left, interrupted=interrupted)
    for line in dict.fromkeys(str(problem) for problem in problems):
        sys.stderr.write(f"statecert: {lines(line)}\n")
    gated = args.gate and not interrupted
    if gated:
        code = worse(code, _gate(certificates, quiet=args.json))
    if not args.json:
        steps = next_steps(finished, certificates, gated=gated, kept=bool(args.certify))
        sys.stdout.writelines(f"{'' if place else 'next':<14}{step}\n" for place, step in enumerate(steps))
    return code


def _patience(device: str) -> str:
    """What there is to wait for, where a device was asked for that need not be here."""
    return "" if device in {"best", "cpu"} else ", once the engine's library is loaded and says whether there is one"


def absence(up: Bench) -> str:
    """Why the device that was asked for cannot run here, in the engine's own words, and what can be asked for."""
    able = [name for name, reason in up.host.devices if not reason]
    instead = f"what can run here: --device {' or '.join(able)}" if able else "no device of this engine is here"
    return f"no {up.target.device} here: {up.host.absent}; {instead} (statecert doctor lists all engines)"


def _run_all(
    up: Bench, plans: Sequence[Plan], certificates: Path, args: argparse.Namespace, words: dict[str, str]
) -> tuple[list[Finished], bool, list[StatecertError]]:
    """Run and file; return what was filed, whether it was broken off, and what could not be filed or run, and why.

    A scenario that cannot be filed keeps no other one from being run, nor what was measured from being shown. What the
    engine said of what it does not support goes to ``words``, by cell.
    """
    from harness.jobs import benches, run_plans
    from harness.model.evidence import CellEvent
    from harness.pipeline import file_evidence
    from harness.reporting.progress import observe, progress

    cells = sum(1 for plan in plans for cell in plan.cells if cell.id in plan.selected and not cell.excluded)
    finished: list[Finished] = []
    problems: list[StatecertError] = []
    interrupted = False
    quiet = args.quiet or args.json
    with progress(sys.stderr, cells=cells, quiet=quiet, colour=use_colour()) as display:

        def tell(observation: Observation) -> None:
            if isinstance(observation, CellEvent) and observation.words:
                words[observation.cell] = observation.words
            observe(display, observation)

        def file(ran: Ran) -> None:
            try:
                one = file_evidence(up, ran.plan, ran.evidence, certificates)
            except StatecertError as problem:
                problems.append(problem)
                return
            finished.append(one)
            if one.problem is not None:
                problems.append(one.problem)

        with benches(up, min(args.jobs, len(plans))) as several:
            try:
                interrupted = run_plans(several, plans, tell, file)
            except StatecertError as problem:
                problems.append(problem)
        places = {id(plan): place for place, plan in enumerate(plans)}
        return sorted(finished, key=lambda one: places[id(one.plan)]), interrupted, problems


def cell_table(
    finished: Sequence[Finished],
    *,
    absent: str = "",
    declared: Collection[str] = (),
    words: Mapping[str, str] = NO_WORDS,
) -> Table:
    """One row per cell that was asked for: outcome, checks, what failed first.

    Args:
        finished: What was run.
        absent: Why the target's device is not here; empty: it is.
        declared: Capabilities of the target, to say which ones a cell's controls would need.
        words: What the engine said of what it does not support, by cell.
    """
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    rows = [
        _row(cell, one, _why(cell, one, absent, declared, words.get(str(cell["id"]), "")))
        for one in finished
        for cell in _cells(one.body)
        if cell["id"] in one.plan.selected
    ]
    columns = (
        Column(key="cell", header="cell"),
        Column(key="outcome", header="outcome"),
        Column(key="checks", header="checks", justify="right"),
        Column(key="why", header="why"),
    )
    return Table(title=counted(len(rows), "cell"), columns=columns, rows=rows)


def _row(cell: Mapping[str, object], one: Finished, reason: str) -> dict[str, str | int]:
    results = _checks(cell)
    passed = sum(check["outcome"] == Outcome.PASS for check in results)
    return {
        "cell": str(cell["id"]),
        "outcome": str(cell["outcome"]),
        "checks": f"{passed}/{len(results)}",
        "why": reason or (f"draft: {one.draft}" if one.draft else ""),
    }


def _why(cell: Mapping[str, object], one: Finished, absent: str, declared: Collection[str], words: str) -> str:
    said = why(cell)
    if cell["outcome"] == Outcome.EXCLUDED:
        return reason_words(said)
    if words:
        return f"{said}: {words}"
    if cell["outcome"] == Outcome.NOT_SUPPORTED and said in frozenset(Capability):
        return f"{said}: a capability that the target does not declare"
    lacking = control_lacks(one.plan, str(cell["id"]), declared) if said == "no_control" else []
    if lacking:
        return f"{said}: declare {', '.join(lacking)}"
    if cell["outcome"] == Outcome.NOT_SUPPORTED and said == cell.get("reason"):
        return f"{said}: {reason_words(said)}"
    return f"{said}: {absent}" if absent and cell["outcome"] == Outcome.NOT_RUN else said


def control_lacks(plan: Plan, cell: str, declared: Collection[str]) -> list[str]:
    """Capabilities that would let the cheapest control of a cell run; empty where it is not for lack of one."""
    from harness.deriving.support import arm_needs
    from harness.model.values import ArmRole

    controls = [arm for one in plan.cells if one.id == cell for arm in one.arms if arm.role is ArmRole.CONTROL]
    lacking = [[str(need) for need in arm_needs(arm) if need not in declared] for arm in controls]
    return min(lacking, key=len, default=[])


def _cells(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    cells = body["cells"]
    return [cell for cell in cells if isinstance(cell, Mapping)] if isinstance(cells, list) else []


def exit_code(finished: Sequence[Finished], *, interrupted: bool, wanted: bool) -> ExitCode:
    """The exit code of a run, from outcomes, and from what made drafts of it.

    Args:
        finished: What was run.
        interrupted: It was broken off.
        wanted: Certificates were asked for, so that a draft is a finding, whatever made it one.
    """
    from harness.certifying.issue import CLOCK_WAS_SET, NOT_NEWER
    from harness.pipeline import FILES_CHANGED, NOTHING_RAN

    outcomes = {str(cell["outcome"]) for one in finished for cell in _cells(one.body)}
    verdicts = {_verdict(one) for one in finished}
    if interrupted or Outcome.ERROR in outcomes or Verdict.ERROR in verdicts:
        return ExitCode.BROKEN if interrupted or outcomes & RAN else ExitCode.NOTHING
    if not outcomes & RAN:
        return ExitCode.NOTHING
    drafts = {one.draft for one in finished}
    spoiled = drafts - {"", NOTHING_RAN} if wanted else drafts & {NOT_NEWER, CLOCK_WAS_SET, FILES_CHANGED}
    return ExitCode.GOOD if verdicts == {Verdict.PASS} and not spoiled else ExitCode.FINDINGS


def _verdict(one: Finished) -> str:
    """The decision on what was asked for: where cells were named, the others are missing from a record, not from it."""
    overall = _overall(one.body)
    if overall != Verdict.INCONCLUSIVE or not one.plan.partial:
        return overall
    asked = {str(cell["outcome"]) for cell in _cells(one.body) if cell["id"] in one.plan.selected}
    return str(Verdict.PASS) if asked - {Outcome.EXCLUDED} == {Outcome.PASS} else overall


def _overall(body: Mapping[str, object]) -> str:
    decision = body["decision"]
    return str(decision["overall"]) if isinstance(decision, Mapping) else str(Verdict.ERROR)


def worse(one: ExitCode, other: ExitCode) -> ExitCode:
    """The one that weighs more: 3 before 2 before 1, any of them before 0."""
    order = (ExitCode.BROKEN, ExitCode.INVALID, ExitCode.FINDINGS, ExitCode.USAGE, ExitCode.NOTHING, ExitCode.GOOD)
    return min(one, other, key=order.index)


def _epilogue(
    finished: Sequence[Finished], folder: Path, certificates: Path, *, left: Sequence[str], interrupted: bool
) -> None:
    say: Callable[[str], int] = sys.stdout.write
    drafts = sorted({one.draft for one in finished if one.draft})
    issued = sum(1 for one in finished if not one.draft)
    if interrupted:
        say(broken_off(left))
    say(f"run folder    {folder}\n")
    if issued:
        say(f"certificates  {certificates} ({issued})\n")
    if drafts:
        say(f"drafts        {folder / 'drafts'} ({len(finished) - issued}): {'; '.join(drafts)}\n")


def next_steps(finished: Sequence[Finished], certificates: Path, *, gated: bool, kept: bool) -> list[str]:
    """What to type after a run: what tells more of the first stop or error, then what was not done yet with the rest.

    Args:
        finished: What was run.
        certificates: Where certificates were written to.
        gated: The gate has just spoken of them.
        kept: They went to a folder that is to be committed.
    """
    from harness.pipeline import NOTHING_RAN

    folder = shlex.quote(str(certificates))
    bad = [one for verdict in (Verdict.STOP, Verdict.ERROR) for one in finished if _overall(one.body) == verdict]
    steps = [f"{typed()} explain {shlex.quote(str(one.evidence))}" for one in bad[:1] if one.draft != NOTHING_RAN]
    if any(not one.draft for one in finished):
        steps.append(f"{typed()} report {folder}")
        steps += [] if gated else [f"{typed()} gate {folder} --require-pass"]
        return [*steps, *([f"git add {folder}"] if gated and kept else [])]
    ran = next((one for one in finished if one.draft != NOTHING_RAN), None)
    if ran is not None and not steps:
        return [f"{typed()} judge {shlex.quote(str(ran.evidence))}"]
    declined = all(_only_declined(one.body) for one in finished)
    return steps or ([] if declined else [f"{typed()} doctor"])


def _checks(cell: Mapping[str, object]) -> list[Mapping[str, object]]:
    checks = cell.get("checks")
    return [check for check in checks if isinstance(check, Mapping)] if isinstance(checks, list) else []


def _only_declined(body: Mapping[str, object]) -> bool:
    """Whether each cell says itself what it asks of the engine, so that looking at the machine tells nothing more."""
    asked = [cell for cell in _cells(body) if cell["outcome"] != Outcome.EXCLUDED]
    return bool(asked) and all(cell["outcome"] == Outcome.NOT_SUPPORTED for cell in asked)


def broken_off(left: Sequence[str]) -> str:
    """What Ctrl-C left undone, in one line.

    Args:
        left: Ids of the scenarios that did not begin.
    """
    never = f"; did not begin, so nothing is written of them: {', '.join(left)}" if left else ""
    return f"interrupted: cells that were not done are not_run, unless one had failed by then{never}\n"


def _gate(certificates: Path, *, quiet: bool) -> ExitCode:
    from harness.certifying.issue import alone
    from harness.gating.gate import gate
    from harness.gating.outputs import text

    if not certificates.is_dir():
        return ExitCode.FINDINGS
    with alone(certificates):  # another run may be about to write the event that its certificate needs
        report = gate([certificates], require_pass=True)
    if not quiet:
        sys.stdout.write(text(report))
    return report.exit_code
