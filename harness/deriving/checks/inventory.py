"""``STATE.INVENTORY``: nothing is unhashed, nothing is missing, and labels fit the bytes.

At every look: part 0 is the metadata, names are unique, the families that the scenario needs are there, sizes follow
from shapes. Over all looks of one session the same parts are listed; only logits and sampler may come and go.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.checks.answers import answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import PartRow, Point
from harness.model.scenario import CheckSpec, PointRef
from harness.model.values import Family, Outcome

WIDTHS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("f64", "i64", "u64"), 8),
    **dict.fromkeys(("f32", "i32", "u32"), 4),
    **dict.fromkeys(("f16", "bf16", "i16", "u16"), 2),
    **dict.fromkeys(("u8", "i8", "bool"), 1),
}
"""Bytes of one element, where elements have whole bytes."""
_COME_AND_GO: Final = frozenset({Family.LOGITS, Family.SAMPLER})
_NOTHING: Final = hashlib.sha256(b"").hexdigest()
_LEAST: Final = 2


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if not view.points:
        return answer(spec, Outcome.ERROR, "nothing_compared", observed=0)
    kinds: dict[tuple[str, int, str], tuple[tuple[str, str], ...]] = {}
    for point in view.points.values():
        rows = view.table(point).rows
        fault = table_fault(rows, view.cell.families)
        if not fault:
            session = _session(view, point)
            listed = tuple((row.name, row.family) for row in rows if row.family not in _COME_AND_GO)
            fault = "" if kinds.setdefault(session, listed) == listed else "parts_come_and_go:"
        if fault:
            return _failed(spec, point, fault)
    looks = len(view.points)
    return answer(spec, Outcome.PASS, observed=looks, detail={"looks": looks, "sessions": len(kinds)})


def table_fault(rows: Sequence[PartRow], families: Sequence[str] = ()) -> str:
    """Return ``reason:part`` of the first thing that is wrong with a part table; empty: nothing is."""
    if len(rows) < _LEAST:
        return "too_few_parts:"
    if rows[0].name != Family.META or rows[0].family != Family.META:
        return f"no_metadata:{rows[0].name}"
    names = [row.name for row in rows]
    if len(set(names)) != len(names):
        return f"name_twice:{next(name for name in names if names.count(name) > 1)}"
    lacking = sorted(set(map(str, families)) - {row.family for row in rows})
    if lacking:
        return f"family_missing:{lacking[0]}"
    return next((f"{fault}:{row.name}" for row in rows if (fault := _row_fault(row))), "")


def _row_fault(row: PartRow) -> str:
    elements = math.prod(row.shape)
    if elements and not row.bytes:
        return "no_bytes"
    if row.element_type in WIDTHS and elements * WIDTHS[row.element_type] != row.bytes:
        return "size_does_not_fit"
    if (row.sha256 == _NOTHING) != (row.bytes == 0):
        return "digest_of_nothing"
    return ""


def _session(view: CellView, point: Point) -> tuple[str, int, str]:
    return point.arm, point.rep, view.step(PointRef(arm=point.arm, label=point.label)).session


def _failed(spec: CheckSpec, point: Point, fault: str) -> CheckResult:
    reason, _, part = fault.partition(":")
    detail: dict[str, str | int] = {
        "arm": point.arm,
        "label": point.label,
        "phase": str(point.phase),
        "rep": point.rep,
        "part": part,
    }
    return answer(spec, Outcome.FAIL, reason, observed=part, detail=detail)
