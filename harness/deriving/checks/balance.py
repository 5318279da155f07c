"""``FOOT.BALANCE``: two sums of a store's counters are equal, or one stays within the other.

Beside the counters, ``listed_bytes`` and ``listed_pending_bytes`` are the sums of the listing itself, so that an
engine's words are held against its own list.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.stores import listed, stores_at
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import StoreView
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None or not spec.terms or bool(spec.sum_is) is bool(spec.within):
        raise ValueError(f"check {spec.id} names no store step, or not two sums")
    stores = stores_at(view, spec.at)
    if not stores:
        return absent(view, spec, spec.at, {})
    result = answer(spec, Outcome.ERROR, "observation_missing")
    for store in stores:
        result = _judged(store, spec)
        if result.outcome is not Outcome.PASS:
            return result
    return result


def _judged(store: StoreView, spec: CheckSpec) -> CheckResult:
    ours, theirs = _sum(store, spec.terms), _sum(store, spec.sum_is or spec.within)
    missing = ours if isinstance(ours, str) else theirs
    if isinstance(ours, str) or isinstance(theirs, str):
        return answer(spec, Outcome.ERROR, "counter_missing", detail={"counter": missing})
    detail = {"of": " ".join(spec.terms), "against": " ".join(spec.sum_is or spec.within)}
    if spec.within and ours > theirs:
        return answer(spec, Outcome.FAIL, "too_large", observed=ours, limit=theirs, detail=detail)
    if spec.sum_is and ours != theirs:
        return answer(spec, Outcome.FAIL, "bytes_unaccounted", observed=ours, limit=theirs, detail=detail)
    return answer(spec, Outcome.PASS, observed=ours, limit=theirs, detail=detail)


def _sum(store: StoreView, names: Sequence[str]) -> int | str:
    """Return a sum of counters, or the name of the first that is missing."""
    counters = {**store.counters, **listed(store)}
    for name in names:
        if name not in counters:
            return name
    return sum(counters[name] for name in names)
