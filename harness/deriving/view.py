"""One cell's observations, indexed by what a check asks for.

Built once per cell; refuses observations that contradict the plan or each other, since a check that picked one of
two could be led to the better one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from harness.deriving.looks import step_of
from harness.deriving.support import NOTHING_TOLD
from harness.errors import InvalidDocumentError
from harness.model.evidence import (
    CellEvent,
    Crash,
    Difference,
    Distance,
    Observation,
    PartTable,
    Point,
    StepRecord,
    StoreView,
    Trust,
    Turn,
)
from harness.model.noun import dataclass, field
from harness.model.scenario import Arm, CellPlan, PointRef, Step
from harness.model.values import ArmRole, Observability, Phase, Sha256

Place = tuple[str, int, str]
"""Arm, rep, label."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class CellView:
    """What was seen of one cell, beside what was planned."""

    cell: CellPlan
    """As the target can run it: controls that it cannot run are left out."""
    grade: Observability
    """What the target says it shows."""
    tables: Mapping[Sha256, PartTable]
    events: Sequence[CellEvent]
    points: Mapping[tuple[str, int, str, Phase, int], Point] = field(repr=False)
    """By arm, rep, label, phase and position."""
    looked: Mapping[Place, Sequence[Point]] = field(repr=False)
    """The same points by arm, rep and label, in the order in which they were made."""
    turns: Mapping[Place, Turn] = field(repr=False)
    steps: Mapping[Place, StepRecord] = field(repr=False)
    stores: Mapping[Place, StoreView] = field(repr=False)
    course: Sequence[Observation] = field(default=(), repr=False)
    """All of it, in the order of the file."""
    crashes: Sequence[Crash] = ()
    differences: Mapping[tuple[str, Phase], Difference] = field(default_factory=dict)
    """By check and phase."""
    distances: Mapping[tuple[str, Phase, str], Distance] = field(default_factory=dict)
    """By check, phase and part."""
    busy: str = ""
    """Why times of this run are of no use: the machine did other work; empty: it is not known to."""
    templated: bool = False
    """Whether the target puts a template around prompts: how many tokens one has is then the target's to tell."""
    told: Mapping[str, object] = field(default_factory=dict)
    """What the target says of itself."""
    pauses: bool = False
    """Whether the target pauses its prefills, so that references are looked at at every multiple of the chunk."""

    def arm(self, name: str) -> Arm | None:
        """Return a planned arm."""
        return next((arm for arm in self.cell.arms if arm.id == name), None)

    def step(self, ref: PointRef) -> Step:
        """Return the planned step of a reference; the plan was made with all of them valid."""
        found = step_of(self.cell.arms, ref)
        if found is None:
            raise InvalidDocumentError(f"no step {ref} is planned", where=self.cell.id)
        return found

    def reps(self, arm: str) -> range:
        """Return the runs of an arm: two for a reference, one for others."""
        planned = self.arm(arm)
        return range(2 if planned is not None and planned.role is ArmRole.REFERENCE else 1)

    def looks(self, ref: PointRef, rep: int = 0) -> Sequence[Point]:
        """Return all points of one step, in the order in which they were made."""
        return self.looked.get((ref.arm, rep, ref.label), ())

    def look(self, ref: PointRef, phase: Phase, rep: int = 0) -> Point | None:
        """Return the last point of a step at a phase."""
        found = [point for point in self.looks(ref, rep) if point.phase is phase]
        return found[-1] if found else None

    def same_in(self, point: Point, rep: int) -> Point | None:
        """Return the same look in another run of the arm."""
        return self.points.get((point.arm, rep, point.label, point.phase, point.position))

    def table(self, point: Point) -> PartTable:
        """Return the part table of a point; the reader saw to it that there is one."""
        return self.tables[point.root]

    def turn(self, ref: PointRef, rep: int = 0) -> Turn | None:
        """Return the turn of a step."""
        return self.turns.get((ref.arm, rep, ref.label))

    def record(self, ref: PointRef, rep: int = 0) -> StepRecord | None:
        """Return the step record of a step."""
        return self.steps.get((ref.arm, rep, ref.label))

    def store(self, ref: PointRef, rep: int = 0) -> StoreView | None:
        """Return the store observation of a step."""
        return self.stores.get((ref.arm, rep, ref.label))

    def refused_in(self, arm: str, rep: int = 0) -> frozenset[str]:
        """Return the labels of the steps of an arm that the engine refused."""
        return frozenset(
            label
            for (name, run, label), record in self.steps.items()
            if (name, run, record.ended) == (arm, rep, "refused")
        )

    def crash_in(self, arm: str) -> Crash | None:
        """Return the first crash of an arm."""
        return next((crash for crash in self.crashes if crash.arm == arm), None)

    def refusal_before(self, ref: PointRef, rep: int = 0) -> StepRecord | None:
        """Return the refusal that ended an arm at or before a step; None if none did."""
        arm = self.arm(ref.arm)
        for step in arm.steps if arm is not None else ():
            record = self.steps.get((ref.arm, rep, step.label))
            if record is not None and record.ended == "refused" and (not step.may_refuse or step.label == ref.label):
                return record
            if step.label == ref.label:
                return None
        return None


def cell_view(
    cell: CellPlan,
    observations: Iterable[Observation],
    tables: Mapping[Sha256, PartTable],
    grade: Observability,
    busy: str = "",
    *,
    templated: bool = False,
    told: Mapping[str, object] = NOTHING_TOLD,
    pauses: bool = False,
) -> CellView:
    """Return the view of one cell.

    Args:
        cell: The plan, as the target can run it.
        observations: Those of this cell, in order.
        tables: Part tables of the whole evidence.
        grade: What the target says it shows.
        busy: Why times of the run are of no use.
        templated: Whether the target puts a template around prompts.
        told: What the target says of itself.
        pauses: Whether the target pauses its prefills (capability ``boundaries``).

    Raises:
        InvalidDocumentError: An observation speaks of an arm, run or step that was not planned, or is there twice.
    """
    filing = _Filing(cell)
    course = tuple(observations)
    for observation in course:
        filing.take(observation)
    return CellView(
        cell=cell,
        grade=grade,
        tables=tables,
        events=tuple(filing.events),
        points=filing.points,
        looked=filing.looked,
        turns=filing.turns,
        steps=filing.steps,
        stores=filing.stores,
        course=course,
        crashes=tuple(filing.crashes),
        differences=filing.differences,
        distances=filing.distances,
        busy=busy,
        templated=templated,
        told=told,
        pauses=pauses,
    )


class _Filing:
    """Puts observations into their places."""

    def __init__(self, cell: CellPlan) -> None:
        self.events: list[CellEvent] = []
        self.points: dict[tuple[str, int, str, Phase, int], Point] = {}
        self.looked: dict[Place, list[Point]] = {}
        self.turns: dict[Place, Turn] = {}
        self.steps: dict[Place, StepRecord] = {}
        self.stores: dict[Place, StoreView] = {}
        self.crashes: list[Crash] = []
        self.differences: dict[tuple[str, Phase], Difference] = {}
        self.distances: dict[tuple[str, Phase, str], Distance] = {}
        self._cell = cell
        self._look: Point | None = None
        self._checks = {check.id: check for check in cell.checks}
        self._known = {
            (arm.id, rep, step.label)
            for arm in cell.arms
            for rep in range(2 if arm.role is ArmRole.REFERENCE else 1)
            for step in arm.steps
        }

    def take(self, observation: Observation) -> None:
        """File one observation."""
        match observation:
            case CellEvent():
                self.events.append(observation)
            case Point():
                place = self._place(observation)
                self._once(self.points, (*place, observation.phase, observation.position), observation)
                self.looked.setdefault(place, []).append(observation)
                self._look = observation
            case Turn():
                self._once(self.turns, self._place(observation), observation)
            case StepRecord():
                self._once(self.steps, self._place(observation), observation)
            case StoreView():
                self._once(self.stores, self._place(observation), observation)
            case Difference():
                self._require_place(observation)
                self._once(self.differences, (observation.check, observation.phase), observation)
            case Distance():
                self._require_asked(observation)
                self._once(self.distances, (observation.check, observation.phase, observation.part), observation)
            case Crash():
                self.crashes.append(observation)
            case PartTable() | Trust():
                pass

    def _place(self, seen: Point | Turn | StepRecord | StoreView) -> Place:
        place = (seen.arm, seen.rep, seen.label)
        if place not in self._known:
            raise InvalidDocumentError(
                f"found an observation of arm {seen.arm}, run {seen.rep}, step {seen.label}, which is not planned",
                where=self._cell.id,
            )
        return place

    def _require_place(self, found: Difference) -> None:
        """A difference is told right behind one of the two looks that show it, unless its reference ran once more."""
        self._require_asked(found)
        look, check = self._look, self._checks[found.check]
        arms = {ref.arm for ref in (check.candidate, check.reference, check.at) if ref is not None}
        told = look is not None and look.arm in arms
        if told and look is not None and check.candidate is not None and arms != {check.candidate.arm}:
            told = look.arm != check.candidate.arm or look.phase is found.phase
        if not found.rerun and not told:
            raise InvalidDocumentError(
                f"found a difference of {found.check} at {found.phase} behind another look", where=self._cell.id
            )

    def _require_asked(self, found: Difference | Distance) -> None:
        if found.check not in self._checks:
            raise InvalidDocumentError(
                f"found a {'difference' if isinstance(found, Difference) else 'distance'} of {found.check}, "
                "which is no check of this cell",
                where=self._cell.id,
            )

    def _once(self, shelf: dict[_Key, _Value], key: _Key, value: _Value) -> None:
        if key in shelf:
            raise InvalidDocumentError(f"found an observation twice: {key}", where=self._cell.id)
        shelf[key] = value
