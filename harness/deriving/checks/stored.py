"""``FOOT.STORED``: bytes held equal a whole number of unit snapshots, and the listing sums up to them."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.stores import bytes_agree, bytes_held, stores_at
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None or spec.equals is None:
        raise ValueError(f"check {spec.id} names no store step or no number")
    unit = _unit(view, spec)
    if isinstance(unit, CheckResult):
        return unit
    stores = stores_at(view, spec.at)
    if not stores:
        return absent(view, spec, spec.at, {})
    for store in stores:
        size = bytes_held(store)
        if size is None:
            return answer(spec, Outcome.ERROR, "counter_missing")
        detail = {"bytes": size, "unit_bytes": unit, "entries": len(store.entries)}
        if not bytes_agree(store):
            return answer(spec, Outcome.FAIL, "bytes_unaccounted", observed=size, detail=detail)
        if size != spec.equals * unit:
            shown = size // unit
            return answer(spec, Outcome.FAIL, "other_size", observed=shown, limit=spec.equals, detail=detail)
    return answer(spec, Outcome.PASS, observed=spec.equals, limit=spec.equals, detail=detail)


def _unit(view: CellView, spec: CheckSpec) -> int | CheckResult:
    """Return the bytes of one unit, the same in every run of its arm; or why there is none."""
    if spec.unit is None:
        return 1
    sizes = {bytes_held(store) for store in stores_at(view, spec.unit)}
    if not sizes:
        return absent(view, spec, spec.unit, {})
    size = sizes.pop()
    if sizes or size is None or size < 1:
        return answer(spec, Outcome.ERROR, "no_unit", detail={"unit": str(spec.unit)})
    return size
