"""Where two byte strings of one state part first differ, and how far the difference goes.

The caller has both arms' bytes of a part whose digests differ: buffers or files, of any size. The
answer is in the part's own terms (row, element, value), so that a person can say which token of
which layer went wrong. :func:`classify` puts a word to what the whole difference looks like.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.digest.blocks import ELEMENT_BYTES, Extent, Layout, extent_of, layout_of, opened
from harness.digest.shapes import classify

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Bytes = NDArray[np.uint8]

__all__ = ["ELEMENT_BYTES", "Difference", "classify", "first_difference"]

_FORMATS: Final = {
    "f64": "<d",
    "f32": "<f",
    "f16": "<e",
    "i64": "<q",
    "i32": "<i",
    "i16": "<h",
    "i8": "<b",
    "u64": "<Q",
    "u32": "<I",
    "u16": "<H",
    "u8": "<B",
    "bool": "<B",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference of two buffers, and the extent of all."""

    byte: int
    """Offset of the first differing byte."""
    index: int
    """Number of the first differing element in the whole part, C order."""
    row: int
    """Its row, the index along the first dimension; the first of the differing rows."""
    element: int
    """Its index within the row."""
    element_bytes: int
    """Bytes of one element; 1 where a block format has no whole bytes per element."""
    reference: str
    """Bytes of the reference's element, hex, as stored (little-endian)."""
    candidate: str
    """Bytes of the candidate's element, hex, as stored."""
    reference_value: str
    """The same as a number in text; empty where the element type is opaque."""
    candidate_value: str
    """The same for the candidate."""
    differing_elements: int
    """Elements with any differing byte."""
    differing_rows: int
    """Rows with any differing element."""
    last_row: int
    """Last of the differing rows."""


def first_difference(
    reference: Buffer | Path, candidate: Buffer | Path, *, element_type: str, shape: Sequence[int]
) -> Difference | None:
    """Return the first difference and the extent of all; ``None`` where the bytes are equal.

    Args:
        reference: Bytes of the part in the reference arm: a C-contiguous buffer or a file.
        candidate: Bytes of the same part in the other arm.
        element_type: Like ``bf16``; an unknown one is compared but not decoded.
        shape: Valid extent of the part; its first number is the rows.

    Raises:
        NotComparableError: Sizes differ, or the shape does not divide the bytes.
        StorageError: A file cannot be read.
    """
    left, right = opened(reference), opened(candidate)
    layout = layout_of(left, right, element_type, shape)
    extent = extent_of(left, right, layout)
    return _difference(left, right, layout, extent) if extent.bytes else None


def _difference(left: Bytes, right: Bytes, layout: Layout, extent: Extent) -> Difference:
    width = layout.element_bytes
    index = extent.first_byte // width
    row = extent.first_byte // layout.row_bytes
    one, other = (side[index * width : (index + 1) * width].tobytes() for side in (left, right))
    return Difference(
        byte=extent.first_byte,
        index=index,
        row=row,
        element=index - row * layout.row_bytes // width,
        element_bytes=width,
        reference=one.hex(),
        candidate=other.hex(),
        reference_value=element_text(layout.element_type, one),
        candidate_value=element_text(layout.element_type, other),
        differing_elements=extent.elements,
        differing_rows=extent.rows,
        last_row=extent.last_row,
    )


def element_text(element_type: str, raw: bytes) -> str:
    """Return the number in the bytes of one element as text; empty for an opaque type."""
    if element_type == "bf16":
        return repr(struct.unpack("<f", bytes(2) + raw)[0])
    form = _FORMATS.get(element_type)
    return "" if form is None else repr(struct.unpack(form, raw)[0])
