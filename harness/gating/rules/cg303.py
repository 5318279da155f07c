"""CG303: element types are what the bytes say."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.gating.sight import Sight
from harness.model.evidence import PartRow, Point
from harness.wire.sha256 import NOTHING

_BITS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("f64", "i64", "u64"), (8, 1)),
    **dict.fromkeys(("f32", "i32", "u32"), (4, 1)),
    **dict.fromkeys(("f16", "bf16", "i16", "u16"), (2, 1)),
    **dict.fromkeys(("u8", "i8", "bool", "f8_e4m3", "f8_e5m2"), (1, 1)),
    "i4": (1, 2),
    "q8_0": (34, 32),
    "q8_1": (36, 32),
    "q5_0": (22, 32),
    "q5_1": (24, 32),
    "q4_0": (18, 32),
    "q4_1": (20, 32),
}
"""Bytes of a block, and elements in it. A name that is not here claims nothing about sizes."""


def check(subject: Subject) -> Problems:
    """Labels of a passing cell fit the bytes; a cell that honestly fails over a label may stand."""
    if subject.sight is None:
        return
    for index, cell in enumerate(subject.body["cells"]):
        if cell["outcome"] == "pass":
            for point, row, fault in _faults(subject.sight, cell["id"]):
                at = f"{point.arm}.{point.label} at {point.phase}"
                yield Problem(f"/body/cells/{index}", f"passes; in {at} part {row.name} {fault}")
                break


def _faults(sight: Sight, cell: str) -> Iterator[tuple[Point, PartRow, str]]:
    judged: set[tuple[str, str]] = set()
    told: dict[str, Mapping[str, Collection[str]]] = {}
    fitting: set[str] = set()
    """Roots of tables of which every row fits its bytes: looks share tables."""
    for point in sight.points_of_cell(cell):
        if (point.arm, point.root) in judged:
            continue
        judged.add((point.arm, point.root))
        if point.arm not in told:
            told[point.arm] = sight.row_types(cell, point.arm)
        fit = point.root in fitting
        for row in sight.parts(point).values():
            fault = ("" if fit else _fault(row)) or _other(row, told[point.arm])
            if fault:
                yield point, row, fault
                break
        else:
            fitting.add(point.root)


def _other(row: PartRow, told: Mapping[str, Collection[str]]) -> str:
    """K and V rows are of the types that the target tells of them, as far as these are types that are known here."""
    kinds = told.get(row.name.split(".")[-1], ()) if row.family == "kv" else ()
    if not kinds or row.element_type in kinds or not all(kind in _BITS for kind in kinds):
        return ""
    return f"is {row.element_type}; the target says {' or '.join(sorted(kinds))}"


def _fault(row: PartRow) -> str:
    if (row.sha256 == NOTHING) != (row.bytes == 0):
        return f"has {row.bytes} bytes and {'the' if row.bytes else 'not the'} digest of nothing"
    elements = math.prod(row.shape)
    if row.element_type not in _BITS:
        return ""
    size, block = _BITS[row.element_type]
    if elements * size == row.bytes * block:
        return ""
    return f"has {elements} elements of {row.element_type} in {row.bytes} bytes"


RULE = Rule(
    id="CG303",
    text="The element type of every part fits its elements and its bytes; of K and V rows it is what the target tells.",
    pain="f32 rows are labelled f16, or K and V labels are swapped, and a matrix row is claimed that never ran.",
    hint="mend the label in the adapter and run again; a label is never edited in a record",
    failing=(
        "label_of_another_type",
        "rows_of_another_type_than_told",
        "types_of_k_and_v_swapped",
        "digest_of_nothing",
    ),
    certificate=check,
)
