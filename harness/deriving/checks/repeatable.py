"""``REPEAT.COLD``: a reference arm is cold, and its two runs are equal at every look and in every count.

A reference that does not repeat itself makes the cell ``inconclusive``: a device that varies must not be blamed on a
restore, nor may it hide one. A reference that was itself served from a store is no reference: its cell is an ``error``.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.deriving.checks.answers import absent, answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import Point, Turn
from harness.model.scenario import CheckSpec, PointRef, StepKind
from harness.model.values import Outcome, Phase

_Look = tuple[str, Phase, int]
"""Label, phase, position."""


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if spec.at is None:
        raise ValueError(f"check {spec.id} names no arm")
    arm = spec.at.arm
    first, again = _looks(view, arm, 0), _looks(view, arm, 1)
    lost = [key for key in (*first, *again) if key not in first or key not in again]
    if lost:
        label, phase, position = lost[0]
        where: dict[str, str | int] = {"phase": str(phase), "position": position}
        if _only_positions_differ(first, again):
            return answer(spec, Outcome.INCONCLUSIVE, "not_repeatable", detail={"label": label, **where})
        return absent(view, spec, PointRef(arm=arm, label=label), where)
    if not any(_shows(view, point) for point in first.values()):
        return answer(spec, Outcome.ERROR, "nothing_compared", observed=0)
    for (label, phase, position), point in first.items():
        if _content(point) != _content(again[label, phase, position]):
            at: dict[str, str | int] = {"label": label, "phase": str(phase), "position": position}
            return answer(spec, Outcome.INCONCLUSIVE, "not_repeatable", detail=at)
    return _turns(view, spec, arm) or _warm(view, spec, arm) or answer(spec, Outcome.PASS, detail={"looks": len(first)})


def _looks(view: CellView, arm: str, rep: int) -> Mapping[_Look, Point]:
    return {(key[2], key[3], key[4]): point for key, point in view.points.items() if key[:2] == (arm, rep)}


def _turns(view: CellView, spec: CheckSpec, arm: str) -> CheckResult | None:
    first, again = ({key[2]: turn for key, turn in view.turns.items() if key[:2] == (arm, rep)} for rep in (0, 1))
    for label in (*first, *again):
        if label not in first or label not in again:
            return absent(view, spec, PointRef(arm=arm, label=label), {})
        if _counts(first[label]) != _counts(again[label]):
            return answer(spec, Outcome.INCONCLUSIVE, "not_repeatable", detail={"label": label})
    return None


def _warm(view: CellView, spec: CheckSpec, arm: str) -> CheckResult | None:
    """Return the answer where a turn that should have forwarded its whole prompt reused some of it."""
    for (name, rep, label), turn in view.turns.items():
        step = view.step(PointRef(arm=name, label=label))
        if name != arm or step.kind is not StepKind.RUN or step.cache:
            continue
        forwarded = turn.prompt_tokens if step.until is None else step.until
        if (turn.cached, turn.restored_bytes, turn.prefilled) != (0, 0, forwarded):
            detail: dict[str, str | int] = {"label": label, "rep": rep, "forwarded": turn.prefilled}
            return answer(spec, Outcome.ERROR, "reference_not_cold", observed=turn.cached, limit=0, detail=detail)
    return None


def _only_positions_differ(first: Mapping[_Look, Point], again: Mapping[_Look, Point]) -> bool:
    """Tell whether both runs made the same looks, at other positions."""
    return [key[:2] for key in first] == [key[:2] for key in again]


def _shows(view: CellView, point: Point) -> bool:
    return bool(view.table(point).rows or point.logits or point.tokens)


def _content(point: Point) -> tuple[object, ...]:
    return point.root, point.logits, point.logits_finite, tuple(point.tokens)


def _counts(turn: Turn) -> tuple[object, ...]:
    return turn.prompt_tokens, turn.prompt_digest, turn.cached, turn.prefilled, turn.decoded
