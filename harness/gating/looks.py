"""What a passing cell must have looked at: the whole inventory, every step, and a reference that repeats itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.gating.sight import Sight
from harness.model.evidence import Point
from harness.model.scenario import CellPlan, PointRef, Step, StepKind
from harness.model.values import ArmRole, Observability, Phase

_COME_AND_GO: Final = ("logits", "sampler")
_TURNS: Final = (StepKind.RUN, StepKind.RESUME, StepKind.EXTEND)

_Look = tuple[str, str, Phase, int]
"""Arm, label, phase, position."""


def faults(sight: Sight, plan: CellPlan) -> Iterator[str]:
    """Return what keeps a cell from passing, in words; nothing where all is there."""
    if sight.grade == "parts" and plan.observability is Observability.PARTS:
        yield from _inventory(sight, plan)
    yield from _left_out(sight, plan)
    if "boundaries" in sight.capabilities:
        yield from _unpaused(sight, plan)
    yield from _varying(sight, plan)


def due(step: Step) -> Iterator[Phase]:
    """Return the looks that a step must leave behind, whatever it reused."""
    if step.kind in _TURNS and step.until is None:
        yield Phase.PREFILLED
    if step.decode and step.until is None:
        yield Phase.END
    if step.kind in (StepKind.OBSERVE, StepKind.ENCODE) or (step.kind is StepKind.BRING and not step.unseen):
        yield Phase.SEEN
    if step.kind in (StepKind.RESTORE, StepKind.IMPORT, StepKind.ROLLBACK) and not step.unseen:
        yield Phase.RESTORED


def _inventory(sight: Sight, plan: CellPlan) -> Iterator[str]:
    """Every look lists the same parts as the others of its session, the metadata first, every needed family."""
    sessions = dict(_sessions(plan))
    listed: dict[tuple[str, int, int, str], list[str]] = {}
    for point in sight.points_of_cell(plan.id):
        rows = sight.tables.get(point.root, ())
        at = f"{point.arm}.{point.label} at {point.phase}"
        lacking = sorted(set(map(str, plan.families)) - {row.family for row in rows})
        if not rows or rows[0].family != "meta":
            yield f"{at} does not list the metadata first"
        if lacking:
            yield f"{at} lists no part of family {lacking[0]}"
        ran = point.phase in (Phase.PREFILLED, Phase.END) and point.position > 0
        hollow = [row.name for row in rows if row.family == "kv" and not row.bytes] if ran else []
        if hollow:
            yield f"{at} lists {hollow[0]} without a row"
        names = [row.name for row in rows if row.family not in _COME_AND_GO]
        if len(set(names)) != len(names):
            yield f"{at} lists a part twice"
        lives, session = sessions.get((point.arm, point.label), (0, point.label))
        if listed.setdefault((point.arm, point.rep, lives, session), names) != names:
            yield f"{at} lists other parts than its session before"


def _sessions(plan: CellPlan) -> Iterator[tuple[tuple[str, str], tuple[int, str]]]:
    """The session of each step; a name behind a restart is another session, since the process is."""
    for arm in plan.arms:
        kinds = [step.kind for step in arm.steps]
        for number, step in enumerate(arm.steps):
            yield (arm.id, step.label), (kinds[: number + 1].count(StepKind.RESTART), step.session)


def _left_out(sight: Sight, plan: CellPlan) -> Iterator[str]:
    """Every step ran and was looked at, or was refused where the scenario allows it."""
    for arm in plan.arms:
        for step in arm.steps:
            key = (plan.id, arm.id, step.label)
            record = sight.steps.get(key)
            if record is not None and record.ended == "refused":
                if not step.may_refuse:
                    yield f"{arm.id}.{step.label} was refused"
                continue
            if step.kind in _TURNS and key not in sight.turns:
                yield f"{arm.id}.{step.label} left no record of its turn"
            phases = [point.phase for point in sight.points(plan.id, PointRef(arm=arm.id, label=step.label))]
            for phase in due(step):
                if phase not in phases:
                    yield f"{arm.id}.{step.label} was not looked at at {phase}"


def _unpaused(sight: Sight, plan: CellPlan) -> Iterator[str]:
    """A cold turn of a reference whose engine can pause was looked at at the end of each whole chunk within it."""
    for arm in plan.arms:
        if arm.role is not ArmRole.REFERENCE:
            continue
        chunk = {**plan.engine, **arm.engine}.get("chunk")
        for step in arm.steps:
            if step.kind is StepKind.RESTART:
                chunk = step.options.get("chunk", chunk)
            turn = sight.turns.get((plan.id, arm.id, step.label))
            if turn is None or step.kind is not StepKind.RUN or step.cache or not isinstance(chunk, int):
                continue
            within = turn.prompt_tokens if step.until is None else min(step.until + 1, turn.prompt_tokens)
            looks = sight.points(plan.id, PointRef(arm=arm.id, label=step.label))
            seen = [point.position for point in looks if point.phase is Phase.BOUNDARY]
            for end in range(chunk, within, chunk):
                if end not in seen:
                    yield f"{arm.id}.{step.label} was not looked at at {end} tokens, where its prefill pauses"


def _varying(sight: Sight, plan: CellPlan) -> Iterator[str]:
    """The two runs of a reference arm made the same looks and saw the same."""
    references = {arm.id for arm in plan.arms if arm.role is ArmRole.REFERENCE}
    runs: tuple[dict[_Look, Point], dict[_Look, Point]] = ({}, {})
    for point in sight.points_of_cell(plan.id):
        if point.arm in references:
            runs[point.rep][point.arm, point.label, point.phase, point.position] = point
    for look in sorted({*runs[0], *runs[1]}):
        first, again = runs[0].get(look), runs[1].get(look)
        at = f"{look[0]}.{look[1]} at {look[2]}"
        if first is None or again is None:
            yield f"{at} was looked at in one of two runs"
        elif (first.root, first.logits, tuple(first.tokens)) != (again.root, again.logits, tuple(again.tokens)):
            yield f"{at} differs between the two runs"
