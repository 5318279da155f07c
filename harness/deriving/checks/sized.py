"""``FOOT.SIZED``: each snapshot held has exactly the bytes that the state at its boundary must have.

The size follows from the part tables of a reference at the same boundaries: fixed parts whole, rows above the
parent's end. More is padding or a copy, less is a lost part. An engine that lets each part begin at an aligned address
tells the gaps between them (``gap_bytes``); as many as the scenario allows are left out, and only they.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.sizes import boundaries, fixed_bytes, row_bytes
from harness.deriving.checks.stores import bytes_agree, bytes_held, held, stores_at
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import Facts, PartTable
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome, Phase


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None or spec.reference is None:
        raise ValueError(f"check {spec.id} names no store step or no reference")
    stores = stores_at(view, spec.at)
    if not stores:
        return absent(view, spec, spec.at, {})
    tables = boundaries(view, spec.reference)
    if not tables:
        return absent(view, spec, spec.reference, {"phase": str(Phase.BOUNDARY)})
    for store in stores:
        if not held(store):
            return answer(spec, Outcome.ERROR, "nothing_compared", observed=0)
        if not bytes_agree(store):
            return answer(spec, Outcome.FAIL, "bytes_unaccounted", observed=bytes_held(store) or 0)
        fault = _first_fault(spec, held(store), tables)
        if fault is not None:
            return fault
    total = sum(_number(entry, "bytes") for entry in held(stores[0]))
    return answer(spec, Outcome.PASS, observed=total, limit=total, detail={"entries": len(held(stores[0]))})


def _first_fault(spec: CheckSpec, entries: Sequence[Facts], tables: Mapping[int, PartTable]) -> CheckResult | None:
    ends = {str(entry.get("key")): _number(entry, "boundary") for entry in entries}
    for entry in entries:
        boundary, parent = _number(entry, "boundary"), str(entry.get("parent", ""))
        begins = ends.get(parent) if parent else 0
        where: dict[str, str | int] = {"boundary": boundary}
        if begins is None or boundary not in tables or (begins and begins not in tables):
            return answer(spec, Outcome.ERROR, "observation_missing", detail=where)
        below = row_bytes(tables[begins]) if begins else 0
        wanted = fixed_bytes(tables[boundary]) + row_bytes(tables[boundary]) - below
        gaps = _number(entry, "gap_bytes") if spec.gaps_at_most and "gap_bytes" in entry else 0
        if not 0 <= gaps <= spec.gaps_at_most:
            return answer(spec, Outcome.FAIL, "too_large", observed=gaps, limit=spec.gaps_at_most, detail=where)
        if _number(entry, "bytes") - gaps != wanted:
            return answer(
                spec, Outcome.FAIL, "other_size", observed=_number(entry, "bytes") - gaps, limit=wanted, detail=where
            )
    return None


def _number(entry: Facts, name: str) -> int:
    value = entry.get(name, -1)
    return value if isinstance(value, int) else -1
