"""Evidence with one line or one part changed never keeps a pass: what the plan announces is there once, in its place.

Asked of a made-up cell with every kind of step, and of a committed cell of every scenario of the default suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from harness.deriving.checks import run_check
from harness.deriving.judge import judge, plan_of
from harness.deriving.looks import step_of
from harness.deriving.view import CellView
from harness.errors import InvalidDocumentError
from harness.model.decision import CheckResult
from harness.model.evidence import (
    CellEvent,
    Difference,
    Distance,
    Evidence,
    Observation,
    PartTable,
    Point,
    StepRecord,
    StoreView,
    Trust,
    Turn,
)
from harness.model.noun import replace
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef
from harness.model.values import ArmRole, Capability, CellId, Observability, Outcome, Phase
from harness.wire.evidence_doc import part_table
from tests.deriving.committed import committed, committed_cell
from tests.deriving.failable import blind
from tests.fakes.evidence import CELL, SCENARIO, recorded
from tests.fakes.evidence import scenario as parse

BASE = recorded()
Change = tuple[str, Observation, Sequence[Observation]]
"""What was done, to what, and what is left."""

EXCEPTIONS = {
    "deleted Difference of looks without a reference arm": "the bytes of the first may have been gone at the second",
    "deleted Distance of a control": "a control lies beyond a limit in one place at least; the others change nothing",
    "deleted opened look of a refused step with session options": "the refusal may have been one of the options",
    "renamed Trust, where no process was written down": "evidence of older harnesses does not say where a turn ran",
    "swapped Difference": "two looks of one arm can show one difference, and it stays what it is",
    "swapped Distance": "a distance is found by its check, phase and part",
    "swapped Trust": "trust tells of a child, whenever that ended",
    "deprived logits, where only empty sessions have the table": "an engine may list logits and sampler from the first token on",
    "deleted pause at no multiple of the chunk": "such cuts are the engine's own; both runs of a reference repeat them",
    "deprived part of a cell that asks for no parts": "its scenario is judged by tokens or logits alone",
}
"""Changes that change no answer, and why."""


def exception(word: str, one: Any, left: Sequence[Observation], cell: CellPlan) -> str:
    """Return which exception a change is; empty: none."""
    kind = type(one).__name__
    controls = {check.id: check for check in cell.checks if check.kind is CheckKind.SEEN}
    match word, one:
        case "deleted", Difference():
            found = controls.get(one.check)
            arms = {arm.id for arm in cell.arms if arm.role is ArmRole.REFERENCE}
            apart = found is not None and found.reference is not None and found.reference.arm not in arms
            return "deleted Difference of looks without a reference arm" if apart else ""
        case "deleted", Distance():
            return "deleted Distance of a control" if one.check in controls else ""
        case "deleted", Point(phase=Phase.OPENED):
            refused = any(_place(other) == _place(one) and getattr(other, "ended", "") == "refused" for other in left)
            step = step_of(cell.arms, PointRef(arm=one.arm, label=one.label))
            optional = refused and step is not None and step.options
            return "deleted opened look of a refused step with session options" if optional else ""
        case _, PartTable():
            if word.startswith("deprived") and cell.observability is not Observability.PARTS:
                return "deprived part of a cell that asks for no parts"
            new = next(
                (other for other in left if isinstance(other, PartTable) and len(other.rows) < len(one.rows)), one
            )
            empty = not any(other.position for other in left if isinstance(other, Point) and other.root == new.root)
            told = word in ("deprived of logits", "deprived of sampler.history") and empty
            return "deprived logits, where only empty sessions have the table" if told else ""
        case "renamed", Trust():
            processes = {other.process for other in left if isinstance(other, Turn)}
            return "renamed Trust, where no process was written down" if processes == {0} else ""
        case _:
            return f"{word} {kind}" if f"{word} {kind}" in EXCEPTIONS else ""


def _place(one: Any) -> object:
    return getattr(one, "arm", ""), getattr(one, "rep", 0), getattr(one, "label", "")


def moved(seen: Sequence[Observation], number: int) -> Sequence[Observation]:
    """Exchange one observation with the next, each with the time of its new place."""
    one, other = seen[number], seen[number + 1]
    times = [getattr(found, "t_ns", None) for found in (one, other)]
    if None not in times:
        swapped: Any = other, one
        one, other = replace(swapped[1], t_ns=times[1]), replace(swapped[0], t_ns=times[0])
    return [*seen[:number], other, one, *seen[number + 2 :]]


def renamed(one: Any, labels: Sequence[str]) -> Observation | None:
    """Return the observation under another name; None: it has none."""
    match one:
        case Point() | Turn() | StepRecord() | StoreView():
            other = next((label for label in labels if label != one.label), "elsewhere")
            return replace(one, label=other)
        case Difference() | Distance():
            return replace(one, check="elsewhere")
        case CellEvent():
            return replace(one, event="end" if one.event == "begin" else "begin")
        case Trust():
            return replace(one, child=one.child + 7)
        case _:
            return None


def changes(seen: Sequence[Observation], every: int = 1) -> Iterator[Change]:
    """Yield each observation deleted; and every n-th doubled, exchanged with the next, and renamed."""
    labels = sorted({one.label for one in seen if isinstance(one, Point)})
    for number, one in enumerate(seen):
        yield "deleted", one, [*seen[:number], *seen[number + 1 :]]
        if number % every:
            continue
        yield "doubled", one, [*seen[: number + 1], one, *seen[number + 1 :]]
        if number + 1 < len(seen):
            yield "swapped", one, moved(seen, number)
        other = renamed(one, labels)
        if other is not None:
            yield "renamed", one, [*seen[:number], other, *seen[number + 1 :]]


def in_both_runs(seen: Sequence[Observation]) -> Iterator[tuple[Point, Sequence[Observation]]]:
    """Yield each look of a reference, and what is left when it is taken out of both of its runs."""
    looks = [one for one in seen if isinstance(one, Point)]
    again = {(one.arm, one.label, one.phase, one.position): one for one in looks if one.rep}
    for one in looks:
        other = again.get((one.arm, one.label, one.phase, one.position))
        if not one.rep and other is not None:
            yield one, [found for found in seen if found is not one and found is not other]


def pairs_survived(evidence: Evidence, cell: CellId) -> list[str]:
    """Return the looks that can go out of both runs of a reference and leave a pass, but for the engine's own cuts."""
    plan = next(one for one in judge(evidence).plan.cells if one.id == cell)
    chunk = {arm.id: {**plan.engine, **arm.engine}.get("chunk") for arm in plan.arms}
    told = []
    for one, left in in_both_runs(evidence.observations):
        size = chunk[one.arm]
        own = one.phase is Phase.BOUNDARY and isinstance(size, int) and one.position % size != 0
        tables = {look.root for look in left if isinstance(look, Point)}
        seen = [look for look in left if not isinstance(look, PartTable) or look.root in tables]
        if not own and keeps_its_pass(evidence, cell, seen):
            told.append(f"{one.arm}.{one.label} {one.phase} {one.position}")
    return told


def without_parts(seen: Sequence[Observation], every: int = 1) -> Iterator[Change]:
    """Yield each part (every n-th of a table) left out of its table, and so of all looks that name it."""
    for number, one in enumerate(seen):
        if isinstance(one, PartTable):
            for row in range(number % every, len(one.rows), every):
                table = part_table([*one.rows[:row], *one.rows[row + 1 :]])
                left = [_retold(found, one, table) for found in seen]
                yield f"deprived of {one.rows[row].name}", one, left


def _retold(found: Observation, old: PartTable, new: PartTable) -> Observation:
    if found is old:
        return new
    return replace(found, root=new.root) if isinstance(found, Point) and found.root == old.root else found


def keeps_its_pass(evidence: Evidence, cell: CellId, seen: Sequence[Observation]) -> bool:
    """Tell whether a cell still passes, and the run is believed."""
    roots: set[str] = set()
    for one in seen:
        if isinstance(one, PartTable):
            if one.root in roots:
                return False
            roots.add(one.root)
        if isinstance(one, Point) and one.root not in roots:
            return False
    try:
        found = judge(replace(evidence, observations=tuple(seen))).decision
    except InvalidDocumentError:
        return False
    return not found.reasons and next(one for one in found.cells if one.id == cell).outcome is Outcome.PASS


def survivors(evidence: Evidence, cell: CellId, found: Iterator[Change]) -> list[str]:
    """Return the changes that left a pass and are no exception, in words."""
    plan = next(one for one in judge(evidence).plan.cells if one.id == cell)
    told = []
    for word, one, left in found:
        both = [one]
        if word == "swapped":
            both.append(evidence.observations[evidence.observations.index(one) + 1])
        if any(exception(word, each, left, plan) for each in both):
            continue
        if keeps_its_pass(evidence, cell, left):
            told.append(f"{word}: {type(one).__name__} {getattr(one, 'label', '')} {getattr(one, 'phase', '')}")
    return told


def test_the_made_up_cell_passes_and_no_change_of_a_line_keeps_its_pass() -> None:
    evidence = BASE.evidence()

    assert keeps_its_pass(evidence, CellId(CELL), evidence.observations)
    assert survivors(evidence, CellId(CELL), changes(evidence.observations)) == []


def test_no_part_can_be_left_out_of_the_made_up_cell() -> None:
    evidence = BASE.evidence()

    assert survivors(evidence, CellId(CELL), without_parts(evidence.observations)) == []


def test_the_default_suite_has_committed_evidence_to_change() -> None:
    assert len(committed()) > 40


@pytest.fixture(scope="module", params=sorted(committed()))
def of(request: pytest.FixtureRequest) -> tuple[Evidence, CellId]:
    """The committed cell of a scenario; all tests of one follow each other."""
    return committed_cell(request.param)


class Sparing:
    """Asks a cell for its inventory only where nothing else keeps it from passing: a third of the time goes there."""

    def __init__(self) -> None:
        self._view: CellView | None = None
        self._failed: CheckResult | None = None
        self._finished: CheckResult | None = None

    def run_check(self, view: CellView, spec: CheckSpec) -> CheckResult:
        """Answer one question."""
        if view is not self._view:
            self._view, self._failed, self._finished = view, None, None
        if spec.kind is CheckKind.INVENTORY:
            [last] = [one for one in view.cell.checks if one.kind is CheckKind.FINISHED]
            self._finished = self._noted(run_check(view, last))
            return self._failed or run_check(view, spec)
        told = self._finished if spec.kind is CheckKind.FINISHED else None
        return told or self._noted(run_check(view, spec))

    def _noted(self, result: CheckResult) -> CheckResult:
        if result.outcome is not Outcome.PASS:
            self._failed = result
        return result


@pytest.fixture
def _quickly(of: tuple[Evidence, CellId], monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge changes of a committed cell in less time; those of the made-up cell are judged as ever."""
    header = of[0].header
    plan = plan_of(header)
    monkeypatch.setattr("harness.deriving.judge.plan_of", lambda one, where: plan if one is header else plan_of(one))
    monkeypatch.setattr("harness.deriving.judge.run_check", Sparing().run_check)


@pytest.mark.usefixtures("_quickly")
def test_no_change_of_a_line_keeps_a_pass_of_a_committed_cell(of: tuple[Evidence, CellId]) -> None:
    evidence, cell = of

    assert keeps_its_pass(evidence, cell, evidence.observations)
    assert survivors(evidence, cell, changes(evidence.observations, every=7)) == []
    assert survivors(evidence, cell, without_parts(evidence.observations, every=11)) == []


@pytest.mark.usefixtures("_quickly")
def test_no_look_can_be_left_out_of_both_runs_of_a_committed_reference(of: tuple[Evidence, CellId]) -> None:
    assert pairs_survived(*of) == []


def test_every_check_of_a_committed_cell_can_fail(of: tuple[Evidence, CellId]) -> None:
    """One that cannot asks nothing. Controls end in an error when they see what their reference saw; all others fail
    on some change of one line of what they look at."""
    assert blind(*of) == []


def test_no_look_can_be_left_out_of_both_runs_of_a_reference() -> None:
    evidence = BASE.evidence()
    pauses = [one for one, _ in in_both_runs(evidence.observations) if one.phase is Phase.BOUNDARY]

    assert len(pauses) >= 3
    assert pairs_survived(evidence, CellId(CELL)) == []


def test_all_pauses_of_both_runs_left_out_are_missed() -> None:
    pause = lambda one: isinstance(one, Point) and one.phase is Phase.BOUNDARY  # noqa: E731
    result = BASE.without(pause).result("finished")

    assert (result.outcome, result.reason, result.detail["what"]) == (Outcome.ERROR, "observation_missing", "boundary")


def test_a_target_that_cannot_pause_is_asked_for_no_pause() -> None:
    text = SCENARIO.replace(b"requires: [parts, logits, boundaries,", b"requires: [parts, logits,")
    able = [str(one) for one in Capability if one is not Capability.BOUNDARIES]
    pause = lambda one: isinstance(one, Point) and one.phase is Phase.BOUNDARY  # noqa: E731
    found = recorded(parse(text)).with_target(capabilities=able).without(pause)

    assert found.result("finished").outcome is Outcome.PASS


def test_the_look_at_a_new_session_is_demanded() -> None:
    result = BASE.without_point("warm", "first", Phase.OPENED).result("finished")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "observation_missing")
    assert (result.detail["label"], result.detail["what"]) == ("first", "opened")


def test_a_look_that_no_reused_token_announces_has_no_place() -> None:
    result = BASE.with_turn("halves", "half", cached=0).result("finished")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "out_of_place")


def test_a_child_that_steps_ran_in_needs_its_trust() -> None:
    found = judge(BASE.with_turn("warm", "first", process=3).evidence()).decision

    assert found.reasons == ("trust_missing",)


def test_a_cell_behind_a_later_one_is_refused() -> None:
    two = recorded(scales=(16, 32))
    seen = list(two.evidence().observations)
    cells = [number for number, one in enumerate(seen) if isinstance(one, CellEvent)]
    (begin, end, again, last) = cells
    turned = [*seen[:begin], *seen[again : last + 1], *seen[begin : end + 1], *seen[last + 1 :]]
    untimed = [replace(one, t_ns=0) if hasattr(one, "t_ns") else one for one in turned]

    with pytest.raises(InvalidDocumentError, match="behind a later one"):
        judge(replace(two.evidence(), observations=tuple(one for one in untimed if not isinstance(one, PartTable))))


def test_a_part_table_that_no_look_stands_behind_is_refused() -> None:
    evidence = BASE.evidence()
    table = part_table([])

    with pytest.raises(InvalidDocumentError, match="part table that no look stands behind"):
        judge(replace(evidence, observations=(*evidence.observations, table)))


def test_a_difference_of_looks_that_are_equal_is_refused() -> None:
    evidence = BASE.evidence()
    told = Difference(
        cell=BASE.cell().id, check="again", phase=Phase.RESTORED, part="layer0.recurrent", family="recurrent", layer=0,
        element_type="f32", byte=0, row=0, element=0, reference="00", candidate="01", reference_value="0",
        candidate_value="1", differing_elements=1, differing_rows=1, last_row=0, shape="single_bit", parts_differing=1,
    )  # fmt: skip
    at = evidence.observations.index(BASE.point("warm", "again", Phase.RESTORED)) + 1
    seen = (*evidence.observations[:at], told, *evidence.observations[at:])

    with pytest.raises(InvalidDocumentError, match="a difference of again, whose looks are equal"):
        judge(replace(evidence, observations=seen))
