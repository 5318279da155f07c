"""``COUNT.CACHED``: tokens that a turn reused; and reused plus forwarded make up the prompt."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.bounds import limit_text, within
from harness.deriving.checks.witness import account
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None:
        raise ValueError(f"check {spec.id} names no turn")
    result = answer(spec, Outcome.ERROR, "observation_missing")
    for rep in view.reps(spec.at.arm):
        turn, found = view.turn(spec.at, rep), account(view, spec.at, rep)
        if turn is None or found is None:
            return absent(view, spec, spec.at, {"rep": rep})
        detail = {"forwarded": found.forwarded, "prompt_tokens": found.demanded}
        if not found.adds_up:
            return answer(
                spec, Outcome.FAIL, "tokens_unaccounted", observed=found.cached, limit=limit_text(spec), detail=detail
            )
        if not within(spec, found.cached):
            return answer(
                spec, Outcome.FAIL, "other_count", observed=found.cached, limit=limit_text(spec), detail=detail
            )
        result = answer(spec, Outcome.PASS, observed=found.cached, limit=limit_text(spec), detail=detail)
    return result
