"""``COUNT.ENDED``: why a decode ended, and after how many tokens."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec, PointRef
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None:
        raise ValueError(f"check {spec.id} names no step")
    result = answer(spec, Outcome.ERROR, "observation_missing")
    for rep in view.reps(spec.at.arm):
        found = _ended(view, spec.at, rep)
        if found is None:
            return absent(view, spec, spec.at, {"rep": rep})
        reason, tokens = found
        detail = {"tokens": tokens}
        if reason != spec.reason:
            return answer(spec, Outcome.FAIL, "other_finish", observed=reason, limit=spec.reason, detail=detail)
        if spec.equals is not None and tokens != spec.equals:
            return answer(spec, Outcome.FAIL, "other_count", observed=tokens, limit=spec.equals, detail=detail)
        result = answer(spec, Outcome.PASS, observed=reason, limit=spec.reason, detail=detail)
    return result


def _ended(view: CellView, ref: PointRef, rep: int) -> tuple[str, int] | None:
    """Return why a step's decode ended, and the tokens that it gave; None: nothing was written down."""
    turn, record = view.turn(ref, rep), view.record(ref, rep)
    if turn is not None:
        return (turn.finish, turn.decoded) if turn.finish else None
    if record is None or record.ended != "done":
        return None
    finish, tokens = record.detail.get("finish"), record.detail.get("decoded")
    return (finish, tokens) if isinstance(finish, str) and isinstance(tokens, int) else None
