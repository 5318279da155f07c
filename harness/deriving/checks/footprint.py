"""``FOOT.RATIO``: bytes held stay within a part of what whole copies at every boundary would take."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.sizes import boundaries, whole_bytes
from harness.deriving.checks.stores import bytes_agree, bytes_held, stores_at
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome, Phase

_PPM = 1_000_000


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None or spec.at_most is None or not spec.whole:
        raise ValueError(f"check {spec.id} names no store step, no limit or no whole copies")
    stores = stores_at(view, spec.at)
    if not stores:
        return absent(view, spec, spec.at, {})
    whole = 0
    for ref in spec.whole:
        tables = boundaries(view, ref)
        if not tables:
            return absent(view, spec, ref, {"phase": str(Phase.BOUNDARY)})
        whole += sum(whole_bytes(table) for table in tables.values())
    sizes = [bytes_held(store) for store in stores]
    size = max((size for size in sizes if size is not None), default=0)
    if None in sizes or size < 1 or whole < 1:
        return answer(spec, Outcome.ERROR, "nothing_compared", detail={"whole_bytes": whole})
    if not all(bytes_agree(store) for store in stores):
        return answer(spec, Outcome.FAIL, "bytes_unaccounted", observed=size)
    ratio = size * _PPM // whole
    detail = {"bytes": size, "whole_bytes": whole}
    # compared by integers, not by the floored ratio that is shown
    if size * _PPM > spec.at_most * whole:
        return answer(spec, Outcome.FAIL, "too_large", observed=ratio, limit=spec.at_most, detail=detail)
    return answer(spec, Outcome.PASS, observed=ratio, limit=spec.at_most, detail=detail)
