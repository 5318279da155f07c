"""``COUNT.STORE``: a counter of the store keeps its limit."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.bounds import limit_text, within
from harness.deriving.checks.stores import stores_at
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None:
        raise ValueError(f"check {spec.id} names no store step")
    stores = stores_at(view, spec.at)
    if not stores:
        return absent(view, spec, spec.at, {})
    detail = {"counter": spec.counter}
    value = -1
    for store in stores:
        if spec.counter not in store.counters:
            return answer(spec, Outcome.ERROR, "counter_missing", limit=limit_text(spec), detail=detail)
        value = store.counters[spec.counter]
        if not within(spec, value):
            return answer(spec, Outcome.FAIL, "other_count", observed=value, limit=limit_text(spec), detail=detail)
    return answer(spec, Outcome.PASS, observed=value, limit=limit_text(spec), detail=detail)
