"""From evidence to decisions: every cell of the declared product gets exactly one outcome.

Evidence that contradicts itself (another procedure than its digest says, observations of cells that were not asked
for, a look that is there twice) is refused: there is no honest verdict on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from harness.deriving.checks import run_check
from harness.deriving.decide import decide, decide_cell, unjudged
from harness.deriving.product import expand_procedure
from harness.deriving.support import NO_CONTROL, capabilities_missing, facts_of, for_target, templated
from harness.deriving.view import CellView, cell_view
from harness.errors import InvalidDocumentError, UsageError
from harness.model.decision import CellDecision, CheckResult, Decision
from harness.model.evidence import (
    CellEvent,
    Difference,
    Distance,
    Evidence,
    Header,
    Observation,
    PartTable,
    Point,
    StepRecord,
    Trust,
    Turn,
)
from harness.model.noun import dataclass, replace
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, Plan
from harness.model.values import Capability, CellId, Observability, Outcome, Sha256
from harness.wire.scenario_doc import procedure_digest

INTERRUPTED: Final = "interrupted"
"""Reason of a cell, and of a check, that was not done when the run was broken off."""
_NOT_THERE: Final = frozenset(
    {"observation_missing", "cell_not_closed", "nothing_compared", "distance_missing", "unsupported"}
)
"""Reasons of checks that lack what a run that goes on would have brought, or explained."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Everything that is derived from evidence, before it is written down as a body."""

    plan: Plan
    """The declared product."""
    decision: Decision
    views: Mapping[CellId, CellView]
    """Of the cells that were judged."""
    trust: Sequence[Trust]


def judge(evidence: Evidence, where: str = "evidence") -> Judged:
    """Return the decision that follows from evidence.

    Raises:
        InvalidDocumentError: The evidence was cut off or contradicts itself.
    """
    if evidence.end is None:
        raise InvalidDocumentError("was cut off: there is no end record", where=where)
    _require_times(evidence.observations, evidence.end.elapsed_ns, where)
    _require_tables(evidence.observations, where)
    header = evidence.header
    plan = plan_of(header, where)
    sorted_out = _by_cell(evidence, plan, where)
    tables = {table.root: table for table in evidence.observations if isinstance(table, PartTable)}
    under_way = _under_way(evidence)
    judged = [
        judge_cell(
            header,
            cell,
            sorted_out[cell.id],
            tables,
            interrupted=evidence.end.interrupted,
            under_way=cell.id == under_way,
        )
        if cell.id in plan.selected
        else (cell, unjudged(cell, Outcome.NOT_RUN, "not_selected"), None)
        for cell in plan.cells
    ]
    trust = tuple(one for one in evidence.observations if isinstance(one, Trust))
    views = {cell.id: view for cell, _, view in judged if view is not None}
    reasons = trust_faults(trust, needed=bool(views), processes=_processes(evidence.observations))
    decision = decide([(cell, decided) for cell, decided, _ in judged], reasons)
    return Judged(plan=plan, decision=decision, views=views, trust=trust)


def plan_of(header: Header, where: str = "evidence") -> Plan:
    """Return the product that a header declares.

    Raises:
        InvalidDocumentError: Its procedure has another digest, or no such product can be made.
    """
    if procedure_digest(header.procedure) != header.procedure_digest:
        raise InvalidDocumentError("procedure_digest is not the digest of the procedure", where=f"{where}#1")
    try:
        return expand_procedure(
            header.scenario_id,
            header.procedure,
            header.scales,
            suite=header.suite,
            selected=header.selected,
            where=f"{where}#1",
        )
    except UsageError as error:
        raise InvalidDocumentError(str(error), where=f"{where}#1") from error


def capabilities_of(header: Header) -> tuple[str, ...]:
    """Return the capabilities that the target declared."""
    found = header.target.get("capabilities")
    return tuple(str(name) for name in found) if isinstance(found, (list, tuple)) else ()


def trust_faults(trust: Sequence[Trust], *, needed: bool, processes: Collection[int] = ()) -> tuple[str, ...]:
    """Return why the digests of a run cannot be believed, as reason codes; empty: they can.

    Args:
        trust: What was done for it, by child.
        needed: Whether any digest was judged.
        processes: Numbers of the children that steps ran in, as far as they were written down.
    """
    faults = []
    if (needed and not trust) or not {one.child for one in trust}.issuperset(processes):
        faults.append("trust_missing")
    if any(one.mismatches for one in trust):
        faults.append("trust_mismatch")
    if any(not one.known_answers for one in trust):
        faults.append("no_known_answers")
    if len({one.child for one in trust}) != len(trust):
        faults.append("child_twice")
    return tuple(faults)


def _processes(observations: Sequence[Observation]) -> set[int]:
    """Return the numbers of the children that turns ran in, and that restarts began; 0 was not written down."""
    ran = {one.process for one in observations if isinstance(one, Turn)}
    for one in observations:
        begun = one.detail.get("process") if isinstance(one, StepRecord) else None
        ran |= {begun} if isinstance(begun, int) else set()
    return ran - {0}


def _require_tables(observations: Sequence[Observation], where: str) -> None:
    """A part table stands right before the first look that names it."""
    for number, one in enumerate(observations):
        after = observations[number + 1] if number + 1 < len(observations) else None
        if isinstance(one, PartTable) and not (isinstance(after, Point) and after.root == one.root):
            raise InvalidDocumentError("found a part table that no look stands behind", where=f"{where}#{number + 2}")


def _require_times(observations: Sequence[Observation], elapsed_ns: int, where: str) -> None:
    """Observations lie in the order in which they were made, within the run; a time of 0 was not taken."""
    before = 0
    for number, one in enumerate(observations, start=2):
        now = 0 if isinstance(one, (PartTable, Trust, Difference, Distance)) else one.t_ns
        if now and not before <= now <= elapsed_ns:
            message = f"found t_ns {now}; allowed is {before} (the one before) to {elapsed_ns} (the whole run)"
            raise InvalidDocumentError(message, where=f"{where}#{number}")
        before = now or before


def _by_cell(evidence: Evidence, plan: Plan, where: str) -> Mapping[CellId, Sequence[Observation]]:
    excluded = {cell.id for cell in plan.cells if cell.excluded}
    found: dict[CellId, list[Observation]] = {cell.id: [] for cell in plan.cells}
    order = {cell.id: number for number, cell in enumerate(plan.cells)}
    at = 0
    for number, observation in enumerate(evidence.observations, start=2):
        if isinstance(observation, (PartTable, Trust)):
            continue
        place = f"{where}#{number}"
        if observation.cell not in found:
            raise InvalidDocumentError(f"found cell {observation.cell}, which is not in the product", where=place)
        if observation.cell in excluded or observation.cell not in plan.selected:
            raise InvalidDocumentError(f"found cell {observation.cell}, which was not to be run", where=place)
        if order[observation.cell] < at:
            raise InvalidDocumentError(f"found cell {observation.cell} behind a later one", where=place)
        at = order[observation.cell]
        found[observation.cell].append(observation)
    return found


def judge_cell(
    header: Header,
    cell: CellPlan,
    observations: Sequence[Observation],
    tables: Mapping[Sha256, PartTable],
    *,
    interrupted: bool,
    under_way: bool = False,
) -> tuple[CellPlan, CellDecision, CellView | None]:
    """Return one cell as the target can run it, what it comes to, and the view that was judged (None: none was).

    Args:
        header: Of the evidence.
        cell: As planned.
        observations: Those of this cell, in order.
        tables: Part tables by root.
        interrupted: Whether the run was broken off.
        under_way: Whether it was broken off in this cell: what is lacking in it is no error then, but was not run.

    Raises:
        InvalidDocumentError: The observations contradict the plan or one another.
    """
    if cell.excluded:
        return cell, unjudged(cell, Outcome.EXCLUDED, cell.excluded), None
    told, able = facts_of(header.target), capabilities_of(header)
    fitted = for_target(cell, able, told)
    ended = _without_judgement(cell, observations, interrupted=interrupted)
    if ended is not None:
        return fitted, ended, None
    grade = Observability(str(header.target.get("observability")))
    missing = capabilities_missing(cell, able, grade, told)
    if missing:
        unfit = Outcome.NOT_SUPPORTED if missing == (NO_CONTROL,) else Outcome.ERROR
        return fitted, unjudged(cell, unfit, missing[0]), None
    busy = busy_at(header)
    pauses = Capability.BOUNDARIES in able
    view = cell_view(fitted, observations, tables, grade, busy, templated=templated(told), told=told, pauses=pauses)
    results = [run_check(view, check) for check in fitted.checks]
    _require_agreement(fitted, view, results)
    if under_way:
        step = _step_under_way(observations)
        results = [_as_far_as_it_came(one, spec, step) for one, spec in zip(results, fitted.checks, strict=True)]
    return fitted, decide_cell(fitted, results), view


def _under_way(evidence: Evidence) -> CellId | None:
    """Return the cell in which a run was broken off; None: it was not, or between two cells.

    It is the last one that began, and has no other event: a cell before it that did not end is not excused.
    """
    if evidence.end is None or not evidence.end.interrupted:
        return None
    events = [one for one in evidence.observations if isinstance(one, CellEvent)]
    begun = [one.cell for one in events if one.event == "begin"]
    last = begun[-1] if begun else None
    return last if last is not None and [one.cell for one in events].count(last) == 1 else None


def _step_under_way(observations: Sequence[Observation]) -> tuple[str, str] | None:
    """Return arm and label of the step that was seen last and has no record of its end; None: none is known to be."""
    last = observations[-1] if observations else None
    return (last.arm, last.label) if isinstance(last, (Point, Turn)) else None


def _as_far_as_it_came(result: CheckResult, spec: CheckSpec, step: tuple[str, str] | None) -> CheckResult:
    """Return the result of a check in a cell that was broken off.

    What is not there yet was not run, nor was a refusal missed by a step that it could still have ended. A failure that
    was seen stays one, and so does what broke before the end: breaking off a run takes nothing back. Nothing of such a
    cell can come to a pass, since it was not finished.

    Args:
        result: Of the check, as if nothing more was to come.
        spec: The check.
        step: Arm and label of the step that was under way.
    """
    lacks = result.outcome is Outcome.ERROR and result.reason in _NOT_THERE
    awaited = spec.kind is CheckKind.REFUSED and spec.at is not None and step == (spec.at.arm, spec.at.label)
    if lacks or (awaited and result.outcome is Outcome.FAIL and result.reason == "not_refused"):
        return replace(result, outcome=Outcome.NOT_RUN, reason=INTERRUPTED)
    return result


def _require_agreement(cell: CellPlan, view: CellView, results: Sequence[CheckResult]) -> None:
    """No difference is told of what a check found equal: the look or the difference was changed."""
    told = {check for check, _ in view.differences}
    for spec, result in zip(cell.checks, results, strict=True):
        if spec.kind is not CheckKind.SEEN and result.outcome is Outcome.PASS and spec.id in told:
            raise InvalidDocumentError(f"found a difference of {spec.id}, whose looks are equal", where=cell.id)


def busy_at(header: Header) -> str:
    """Return why times of a run are of no use, as a reason code; empty: the machine is not known to have been busy.

    Other jobs of the same run, or a load at its start that left no processor idle.
    """
    found = header.environment.get("facts")
    facts = found if isinstance(found, Mapping) else {}
    jobs, load, cores = (facts.get(name) for name in ("jobs", "load_1min_milli", "cores_usable"))
    if isinstance(jobs, int) and jobs > 1:
        return "not_alone"
    if isinstance(load, int) and isinstance(cores, int) and load > cores * 1000:
        return "machine_busy"
    return ""


def _without_judgement(
    cell: CellPlan, observations: Sequence[Observation], *, interrupted: bool
) -> CellDecision | None:
    """Return the decision of a cell that was not run through; None: its checks are to be asked."""
    events = [one for one in observations if isinstance(one, CellEvent)]
    names = [event.event for event in events]
    if len(set(names)) != len(names):
        raise InvalidDocumentError(f"found the events {', '.join(names)}; each is there once", where=cell.id)
    last = events[-1] if events else None
    if last is not None and last.event in ("not_run", "not_supported"):
        if "end" in names or (len(observations) > 1 and names[0] != "begin"):
            raise InvalidDocumentError(f"found {last.event} beside observations of the cell", where=cell.id)
        return unjudged(cell, Outcome(last.event), last.reason or "unstated")
    if observations:
        return None
    if interrupted:
        return unjudged(cell, Outcome.NOT_RUN, INTERRUPTED)
    return unjudged(cell, Outcome.ERROR, "no_observation")
