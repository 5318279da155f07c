"""``FOOT.RATIO``: bytes held stay within a part of what whole copies at every boundary would take.

With ``beyond_fixed`` the fixed parts are left out on both sides: a snapshot must hold them whole, and what they weigh
beside a row is the model's affair. What is left says whether rows are shared.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.sizes import boundaries, fixed_bytes, row_bytes, whole_bytes
from harness.deriving.checks.stores import bytes_agree, bytes_held, held, stores_at
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import PartTable, StoreView
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
    known: dict[int, PartTable] = {}
    measure = row_bytes if spec.beyond_fixed else whole_bytes
    for ref in spec.whole:
        tables = boundaries(view, ref)
        if not tables:
            return absent(view, spec, ref, {"phase": str(Phase.BOUNDARY)})
        whole += sum(measure(table) for table in tables.values())
        known |= tables
    sizes = [bytes_held(store) for store in stores]
    size = max((size for size in sizes if size is not None), default=0)
    if None in sizes or size < 1 or whole < 1:
        return answer(spec, Outcome.ERROR, "nothing_compared", detail={"whole_bytes": whole})
    if not all(bytes_agree(store) for store in stores):
        return answer(spec, Outcome.FAIL, "bytes_unaccounted", observed=size)
    if spec.beyond_fixed:
        must = [_fixed(store, known) for store in stores]
        if None in must:
            return answer(spec, Outcome.ERROR, "observation_missing", detail={"whole_bytes": whole})
        size = max((bytes_held(store) or 0) - (fixed or 0) for store, fixed in zip(stores, must, strict=True))
        if size < 1:
            return answer(spec, Outcome.FAIL, "other_size", observed=size, detail={"whole_bytes": whole})
    ratio = size * _PPM // whole
    detail = {"bytes": size, "whole_bytes": whole}
    # compared by integers, not by the floored ratio that is shown
    if size * _PPM > spec.at_most * whole:
        return answer(spec, Outcome.FAIL, "too_large", observed=ratio, limit=spec.at_most, detail=detail)
    return answer(spec, Outcome.PASS, observed=ratio, limit=spec.at_most, detail=detail)


def _fixed(store: StoreView, tables: Mapping[int, PartTable]) -> int | None:
    """Return the bytes of the fixed parts that the snapshots held must have; None: a boundary was not looked at."""
    found = [entry.get("boundary") for entry in held(store)]
    if not all(isinstance(boundary, int) and boundary in tables for boundary in found):
        return None
    return sum(fixed_bytes(tables[boundary]) for boundary in found if isinstance(boundary, int))
