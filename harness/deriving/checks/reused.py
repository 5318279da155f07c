"""``COUNT.REUSED``: a turn reused tokens, and forwarded at most a part of what a cold turn forwarded.

Both sides are the engine's own counts, so this can be asked where a template hides how many tokens of a prompt are the
scenario's. The counts of either side must make up its prompt, and the cold turn must have reused nothing.
"""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.witness import Account, account
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome

_MILLION = 1_000_000


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None or spec.reference is None or spec.at_most is None:
        raise ValueError(f"check {spec.id} names no turns, or no limit")
    cold = account(view, spec.reference)
    if cold is None:
        return absent(view, spec, spec.reference, {})
    if cold.cached or not cold.forwarded:
        detail = {"cached": cold.cached, "forwarded": cold.forwarded}
        return answer(spec, Outcome.ERROR, "reference_not_cold", detail=detail)
    result = answer(spec, Outcome.ERROR, "observation_missing")
    for rep in view.reps(spec.at.arm):
        warm = account(view, spec.at, rep)
        if warm is None:
            return absent(view, spec, spec.at, {"rep": rep})
        result = _judged(spec, warm, cold, spec.at_most)
        if result.outcome is not Outcome.PASS:
            return result
    return result


def _judged(spec: CheckSpec, warm: Account, cold: Account, limit: int) -> CheckResult:
    share = -(-warm.forwarded * _MILLION // cold.forwarded)
    detail: dict[str, str | int] = {
        "cached": warm.cached,
        "forwarded": warm.forwarded,
        "prompt_tokens": warm.demanded,
        "cold_forwarded": cold.forwarded,
    }
    if not (warm.adds_up and cold.adds_up):
        return answer(spec, Outcome.FAIL, "tokens_unaccounted", observed=share, limit=limit, detail=detail)
    if not warm.cached or share > limit:
        return answer(spec, Outcome.FAIL, "nothing_spared", observed=share, limit=limit, detail=detail)
    return answer(spec, Outcome.PASS, observed=share, limit=limit, detail=detail)
