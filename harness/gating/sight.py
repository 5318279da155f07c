"""Evidence, indexed for rules that look at it by their own short logic.

Deliberately not the judge's code: a mistake there must not be its own alibi. What is shared is only the resolution of a
procedure to cells, arms and check specifications.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from harness.deriving.product import expand_procedure
from harness.deriving.support import READ, facts_of, for_target
from harness.model.evidence import Distance, Evidence, PartRow, PartTable, Point, StepRecord, Turn
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef
from harness.model.values import Phase
from harness.wire import canonical

_SAME_PLACE: Final = (Phase.BOUNDARY, Phase.PREFILLED, Phase.END, Phase.SEEN, Phase.RESTORED)
"""Where a reference may have been looked at, at the position of a restore, most telling first."""
_LATE: Final = (Phase.OPENED, Phase.BOUNDARY, Phase.RESTORED, Phase.PREFILLED, Phase.END, Phase.SEEN)

_MOST_PLANS: Final = 64
_PLANS: Final[dict[tuple[object, ...], Mapping[str, CellPlan]]] = {}
"""Resolved products by everything that they depend on: many certificates share a scenario."""

Key = tuple[str, str, str]
"""Cell, arm, label."""


class Sight:
    """What one evidence file shows, by cell, arm and label. First runs, unless said otherwise."""

    def __init__(self, evidence: Evidence) -> None:
        self._header = evidence.header
        self.tables: dict[str, Sequence[PartRow]] = {}
        self.turns: dict[Key, Turn] = {}
        self.steps: dict[Key, StepRecord] = {}
        self.distances: dict[tuple[str, str, str, str], Distance] = {}
        """By cell, check, phase and part."""
        self._points: dict[Key, list[Point]] = defaultdict(list)
        self._by_cell: dict[str, list[Point]] = defaultdict(list)
        for one in evidence.observations:
            if isinstance(one, PartTable):
                self.tables[one.root] = one.rows
            elif isinstance(one, Point):
                self._by_cell[one.cell].append(one)
                if not one.rep:
                    self._points[one.cell, one.arm, one.label].append(one)
            elif isinstance(one, Distance):
                self.distances[one.cell, one.check, one.phase, one.part] = one
            elif isinstance(one, Turn) and not one.rep:
                self.turns[one.cell, one.arm, one.label] = one
            elif isinstance(one, StepRecord) and not one.rep:
                self.steps[one.cell, one.arm, one.label] = one

    @cached_property
    def plans(self) -> Mapping[str, CellPlan]:
        """Every cell of the declared product, resolved, without the controls that the target cannot run."""
        header = self._header
        capabilities = tuple(self.capabilities)
        told = facts_of(header.target)
        fitting = (capabilities, *(str(told.get(name)) for name in READ))
        key = (canonical.digest(header.procedure), header.scenario_id, tuple(header.scales), fitting)
        if key not in _PLANS:
            if len(_PLANS) >= _MOST_PLANS:
                _PLANS.clear()
            plan = expand_procedure(header.scenario_id, header.procedure, header.scales)
            _PLANS[key] = {cell.id: for_target(cell, capabilities, told) for cell in plan.cells}
        return _PLANS[key]

    def points(self, cell: str, ref: PointRef | None) -> Sequence[Point]:
        """Looks of one step, in the order in which they were taken."""
        return () if ref is None else self._points.get((cell, ref.arm, ref.label), ())

    def points_of_cell(self, cell: str) -> Sequence[Point]:
        """Every look of a cell, second runs included."""
        return self._by_cell.get(cell, ())

    def parts(self, point: Point) -> Mapping[str, PartRow]:
        """The part table of a look, by part name."""
        return {row.name: row for row in self.tables.get(point.root, ())}

    def row_types(self, cell: str, arm: str) -> Mapping[str, Sequence[str]]:
        """Element types of K and V rows by the target's words: its own, or those of options that an arm gives."""
        plan = self.plans.get(cell)
        planned = next((one for one in plan.arms if one.id == arm), None) if plan is not None else None
        if plan is None or planned is None:
            return {}
        sources: list[Mapping[str, object]] = [facts_of(self._header.target), plan.engine, planned.engine]
        found = {}
        for side in ("k", "v"):
            names = ("kv_type", f"{side}_type")
            own = [one[name] for one in sources for name in names if name in one]
            given = [step.options[name] for step in planned.steps for name in names if name in step.options]
            found[side] = [str(kind) for kind in (*own[-1:], *given)] if own else []
        return found

    @property
    def capabilities(self) -> Sequence[str]:
        """What the target says that it can do."""
        return [str(one) for one in _items(self._header.target.get("capabilities"))]

    @property
    def grade(self) -> str:
        """How much of the state the target shows."""
        return str(self._header.target.get("observability"))

    def pairs(self, cell: str, check: CheckSpec) -> Sequence[tuple[Point, Point | None]]:
        """Each look of the candidate that a comparison speaks of, with the look of the reference beside it."""
        reference = [point for point in self.points(cell, check.reference) if point.phase is not Phase.OPENED]
        looks = [point for point in self.points(cell, check.candidate) if point.phase is not Phase.OPENED]
        if check.kind is CheckKind.UNCHANGED and not check.phases:
            return [(looks[-1], _last(reference))] if (looks := sorted(looks, key=_lateness)) else []
        return [(one, _beside(one, reference)) for one in looks if not check.phases or one.phase in check.phases]

    def unequal(self, one: Point, other: Point, fields: Sequence[str]) -> str:
        """Say in one phrase what differs between two looks; empty: nothing that was asked for."""
        paused = Phase.BOUNDARY in (one.phase, other.phase)
        if "parts" in fields and (differing := self._differing_parts(one, other, paused=paused)):
            return f"part {differing[0]} differs" + (f", and {len(differing) - 1} more" if differing[1:] else "")
        if "logits" in fields and one.logits != other.logits and not (paused and not (one.logits and other.logits)):
            return "the logits differ"
        if "tokens" in fields and one.phase is other.phase and tuple(one.tokens) != tuple(other.tokens):
            return "the tokens differ"
        return ""

    def too_far(self, cell: str, check: CheckSpec, one: Point, other: Point) -> str:
        """Say in one phrase what lies farther away than a check allows, or was not measured; empty: nothing."""
        paused = Phase.BOUNDARY in (one.phase, other.phase)
        here, there = self.parts(one), self.parts(other)
        names = self._differing_parts(one, other, paused=paused) if "parts" in check.fields else []
        apart = one.logits != other.logits and not (paused and not (one.logits and other.logits))
        if "logits" in check.fields and apart and "logits" not in names:
            names.append("logits")
        for name in names:
            found = self.distances.get((cell, check.id, one.phase, name))
            row = here.get(name)
            limits = check.limits.get(name) or check.limits.get(row.family if row else name) or {}
            if (
                not any(limits.values())
                or (name in here) != (name in there)
                or (row and _form(row) != _form(there[name]))
            ):
                return f"part {name} differs and has no limit"
            told = {found.ulp > 0, found.relative_ppb > 0, found.absolute_nano > 0} if found else set()
            if found is None or not found.finite or len(told) > 1 or (row and found.element_type != row.element_type):
                return f"how far {name} lies away was not measured"
            over = [word for word, most in limits.items() if int(getattr(found, word)) > most]
            if over:
                return f"{name} is {getattr(found, over[0])} {over[0]} away; allowed are {limits[over[0]]}"
        return self.unequal(one, other, [field for field in check.fields if field == "tokens"])

    def _differing_parts(self, one: Point, other: Point, *, paused: bool) -> list[str]:
        """Names of parts that differ. Logits that one side of a pause does not have are no state."""
        here, there = self.parts(one), self.parts(other)
        names = [*here, *(name for name in there if name not in here)]
        differing = [name for name in names if here.get(name) != there.get(name)]
        if not paused:
            return differing
        return [name for name in differing if not _only_one_has_logits(here.get(name), there.get(name))]


def _form(row: PartRow) -> tuple[object, ...]:
    return row.family, row.layer, row.element_type, tuple(row.shape), row.stream, row.bytes


def _only_one_has_logits(one: PartRow | None, other: PartRow | None) -> bool:
    return (one is None) != (other is None) and "logits" in (one.family if one else "", other.family if other else "")


def _beside(point: Point, reference: Sequence[Point]) -> Point | None:
    """The reference's look at the same place: after a restore one at that position, else the last of that phase."""
    if point.phase is Phase.RESTORED:
        here = [one for one in reference if one.position == point.position]
        return min(here, key=lambda one: _SAME_PLACE.index(one.phase), default=None)
    same = [one for one in reference if one.phase is point.phase]
    if same:
        return same[-1]
    return _last(reference) if point.phase is Phase.SEEN else None


def _lateness(look: Point) -> int:
    return _LATE.index(look.phase)


def _last(looks: Sequence[Point]) -> Point | None:
    return max(looks, key=_lateness, default=None)


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()
