"""What a difference looks like: the commonest shapes, each of which hints at a cause.

The shapes are tried in a fixed order, the most telling first, and one word is the answer. A word
is a hint for a person and for a mutant's expectation; it never decides whether bytes are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.digest.blocks import (
    BLOCK_BYTES,
    Extent,
    Layout,
    as_elements,
    equal,
    extent_of,
    layout_of,
    opened,
    unequal_blocks,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Bytes = NDArray[np.uint8]

_FARTHEST_SHIFT: Final = 4096
_MOST_SHIFTS_TRIED: Final = 16
_KEY_BYTES: Final = 16
_EXPONENTS: Final = {
    "f64": (8, 0x7FF0000000000000),
    "f32": (4, 0x7F800000),
    "f16": (2, 0x7C00),
    "bf16": (2, 0x7F80),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """Everything that a shape may look at."""

    left: Bytes
    right: Bytes
    layout: Layout
    extent: Extent
    earlier: Bytes | None
    others: Mapping[str, Bytes]

    @property
    def first_row(self) -> int:
        return self.extent.first_byte // self.layout.row_bytes


def classify(
    reference: Buffer | Path,
    candidate: Buffer | Path,
    *,
    element_type: str,
    shape: Sequence[int],
    earlier: Buffer | Path | None = None,
    others: Mapping[str, Buffer | Path] | None = None,
) -> str:
    """Return the shape of the difference between two byte strings of one part.

    ``single_bit``; ``all_zero`` (the whole candidate); ``stale_rows`` (what differs is what
    ``earlier`` holds there); ``other_part:<name>`` (the candidate is that part);
    ``shifted_by_<k>_rows`` (candidate row r is reference row r - k, k may be negative);
    ``element_type_or_byte_order`` (swapped bytes, or the same numbers in another type of the same
    width); ``nan_payload`` (both are NaN wherever they differ); ``tail_rows`` and ``head_rows``
    (one run of rows that reaches the end or the start); else ``scattered``. Equal bytes give
    ``equal``.

    Args:
        reference: Bytes of the part in the reference arm: a C-contiguous buffer or a file.
        candidate: Bytes of the same part in the other arm.
        element_type: Like ``bf16``.
        shape: Valid extent of the part; its first number is the rows.
        earlier: The part as it was at an earlier point; may hold fewer rows.
        others: Further parts of the reference state by name.

    Raises:
        NotComparableError: Sizes differ, or the shape does not divide the bytes.
        StorageError: A file cannot be read.
    """
    left, right = opened(reference), opened(candidate)
    layout = layout_of(left, right, element_type, shape)
    case = _Case(
        left=left,
        right=right,
        layout=layout,
        extent=extent_of(left, right, layout),
        earlier=None if earlier is None else opened(earlier),
        others={name: opened(part) for name, part in (others or {}).items()},
    )
    if case.extent.bytes == 0:
        return "equal"
    return next((word for shape_of in _SHAPES if (word := shape_of(case))), "scattered")


def _single_bit(case: _Case) -> str:
    one = case.extent.bytes == 1 and case.extent.first_mask.bit_count() == 1
    return "single_bit" if one else ""


def _all_zero(case: _Case) -> str:
    return "" if any(block.any() for block in _blocks(case.right)) else "all_zero"


def _stale_rows(case: _Case) -> str:
    """Wherever the sides differ the candidate equals the earlier state, whole rows at both ends."""
    earlier, width = case.earlier, case.layout.row_bytes
    if earlier is None or earlier.size < (case.extent.last_row + 1) * width:
        return ""
    for start, end in unequal_blocks(case.left, case.right, 1):
        now = case.right[start:end]
        foreign = earlier[start : min(end, earlier.size)] != now[: max(0, earlier.size - start)]
        changed = case.left[start:end] != now
        if (foreign & changed[: foreign.size]).any():
            return ""
    ends = (slice(row * width, (row + 1) * width) for row in (case.first_row, case.extent.last_row))
    return "stale_rows" if all(equal(case.right[end], earlier[end]) for end in ends) else ""


def _other_part(case: _Case) -> str:
    names = (name for name, part in case.others.items() if equal(part, case.right))
    return f"other_part:{name}" if (name := next(names, "")) else ""


def _shifted(case: _Case) -> str:
    for row in (case.first_row, case.extent.last_row):
        for shift in _shifts(case, row):
            if _holds_shifted(case, shift):
                return f"shifted_by_{shift}_rows"
    return ""


def _shifts(case: _Case, row: int) -> list[int]:
    """Return by how many rows the candidate's ``row`` may have moved, nearest first."""
    import numpy as np

    layout = case.layout
    moved = case.right[row * layout.row_bytes : (row + 1) * layout.row_bytes]
    if layout.rows < 2 or not moved.any():  # rows of zeros are anybody's
        return []
    lowest = max(0, row - _FARTHEST_SHIFT)
    window = case.left.reshape(layout.rows, -1)[lowest : row + _FARTHEST_SHIFT + 1]
    at = slice(0, _KEY_BYTES)
    places = np.flatnonzero((window[:, at] == moved[at]).all(axis=1)) + lowest
    shifts = sorted((row - int(place) for place in places), key=abs)
    return [shift for shift in shifts if shift != 0][:_MOST_SHIFTS_TRIED]


def _holds_shifted(case: _Case, shift: int) -> bool:
    """Tell whether most of the differing run of rows, and two rows at least, is the reference moved.

    Rows came in from outside at one end of the run, where it touches an end of the part or not.
    """
    width, rows = case.layout.row_bytes, case.layout.rows
    first, end = case.first_row, case.extent.last_row + 1
    spans = (
        (max(first, shift), min(end, rows + shift)),
        (first + max(shift, 0), end + min(shift, 0)),
    )
    for low, high in spans:
        if high - low >= max(2, (end - first) // 2):
            moved = case.left[(low - shift) * width : (high - shift) * width]
            if equal(case.right[low * width : high * width], moved):
                return True
    return False


def _element_type(case: _Case) -> str:
    import numpy as np

    with np.errstate(all="ignore"):  # numbers beyond the other type's range become infinities
        for change in _changes(case.layout):
            pairs = zip(_blocks(case.left), _blocks(case.right), strict=True)
            if all(equal(np.ascontiguousarray(change(one)), other) for one, other in pairs):
                return "element_type_or_byte_order"
    return ""


def _changes(layout: Layout) -> list[Callable[[Bytes], Bytes]]:
    """Return what may have been done to every element of the reference."""
    width = layout.element_bytes
    changes: list[Callable[[Bytes], Bytes]] = []
    if width in {2, 4, 8}:
        changes.append(lambda block: block.reshape(-1, width)[:, ::-1].reshape(-1))
    if layout.element_type == "bf16":
        changes.append(lambda block: _raw(_from_bf16(block).astype("<f2")))
    if layout.element_type == "f16":
        changes.append(lambda block: _to_bf16(block.view("<f2").astype("<f4")))
    if layout.element_type in {"i32", "u32"}:
        kind = "<i4" if layout.element_type == "i32" else "<u4"
        changes.append(lambda block: _raw(block.view(kind).astype("<f4")))
    return changes


def _raw(block: NDArray[Any]) -> Bytes:
    found: Bytes = block.view("u1")
    return found


def _from_bf16(block: Bytes) -> NDArray[Any]:
    widened = block.view("<u2").astype("<u4") << 16
    found: NDArray[Any] = widened.view("<f4")
    return found


def _to_bf16(values: NDArray[Any]) -> Bytes:
    """Round to nearest even, as every converter does."""
    bits = values.view("<u4")
    return _raw(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2"))


def _nan_payload(case: _Case) -> str:
    known = _EXPONENTS.get(case.layout.element_type)
    if known is None:
        return ""
    width, exponent = known
    for start, end in unequal_blocks(case.left, case.right, width):
        one, other = (as_elements(side[start:end], width) for side in (case.left, case.right))
        largest = one.dtype.type((1 << (8 * width - 1)) - 1)
        both = ((one & largest) > exponent) & ((other & largest) > exponent)
        if ((one != other) & ~both).any():
            return ""
    return "nan_payload"


def _run_of_rows(case: _Case) -> str:
    first, last = case.first_row, case.extent.last_row
    if case.extent.rows != last + 1 - first or case.extent.rows == case.layout.rows:
        return ""
    if last == case.layout.rows - 1:
        return "tail_rows"
    return "head_rows" if first == 0 else ""


def _blocks(side: Bytes) -> Iterator[Bytes]:
    return (side[start : start + BLOCK_BYTES] for start in range(0, side.size, BLOCK_BYTES))


_SHAPES: Final[tuple[Callable[[_Case], str], ...]] = (
    _single_bit,
    _all_zero,
    _stale_rows,
    _other_part,
    _shifted,
    _element_type,
    _nan_payload,
    _run_of_rows,
)
