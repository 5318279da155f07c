"""``COUNT.ENTRIES``: snapshots held, pending ones not counted; the counter agrees with the listing."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.bounds import limit_text, within
from harness.deriving.checks.stores import entries_agree, held, stores_at
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
    for store in stores:
        count = len(held(store))
        detail = {"pending": len(store.entries) - count}
        if not entries_agree(store):
            return answer(
                spec, Outcome.FAIL, "entries_unaccounted", observed=count, limit=limit_text(spec), detail=detail
            )
        if not within(spec, count):
            return answer(spec, Outcome.FAIL, "other_count", observed=count, limit=limit_text(spec), detail=detail)
    return answer(spec, Outcome.PASS, observed=count, limit=limit_text(spec), detail=detail)
