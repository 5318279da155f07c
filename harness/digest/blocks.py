"""Two byte strings side by side: opening them, dividing them into rows, walking unequal blocks.

Equal blocks are passed by ``memcmp`` at memory speed and never looked at; numpy, imported by the
functions that need it, looks at the others. Memory stays at a few blocks whatever the size.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.errors import NotComparableError, StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Bytes = NDArray[np.uint8]

BLOCK_BYTES: Final = 4 << 20
"""About how many bytes of each side are looked at together."""

ELEMENT_BYTES: Final[Mapping[str, int]] = {
    "f64": 8,
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "i64": 8,
    "i32": 4,
    "i16": 2,
    "i8": 1,
    "u64": 8,
    "u32": 4,
    "u16": 2,
    "u8": 1,
    "bool": 1,
}
"""Bytes of one element. A type that is not here is opaque: its shape alone gives the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the bytes of a part divide into rows and elements."""

    size: int
    """Bytes of the part."""
    rows: int
    """First number of the shape; 1 for a scalar."""
    row_bytes: int
    """Bytes of one row; zero only in an empty part."""
    element_bytes: int
    """Bytes of one element; 1 where a block format has no whole bytes per element."""
    element_type: str
    """Like ``bf16``."""


@dataclass(slots=True)
class Extent:
    """What a walk over the unequal blocks has counted. Empty where ``bytes`` is zero."""

    first_byte: int = -1
    first_mask: int = 0
    """Exclusive or of the two first differing bytes."""
    bytes: int = 0
    elements: int = 0
    rows: int = 0
    last_row: int = -1


def opened(side: Buffer | Path) -> Bytes:
    """Return the bytes of a buffer or file as an array that shares their memory.

    Raises:
        NotComparableError: The buffer is not C-contiguous.
        StorageError: The file cannot be read.
    """
    import numpy as np

    view = _mapped(side) if isinstance(side, Path) else memoryview(side)
    if not view.c_contiguous:
        raise NotComparableError("found a buffer with gaps; allowed are bytes in C order")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror})") from error


def layout_of(left: Bytes, right: Bytes, element_type: str, shape: Sequence[int]) -> Layout:
    """Return how both sides divide, after checking that they can be compared at all.

    Raises:
        NotComparableError: Sizes differ, or type and shape do not give the size.
    """
    if left.size != right.size:
        raise NotComparableError(
            f"found {left.size} bytes in the reference and {right.size} in the candidate; allowed are parts of one size"
        )
    count, rows = prod(shape), shape[0] if shape else 1
    width = ELEMENT_BYTES.get(element_type)
    if width is None:
        width = left.size // count if count and left.size % count == 0 else 1
    elif width * count != left.size:
        raise NotComparableError(
            f"found {left.size} bytes for {element_type} of shape {list(shape)}; allowed are {width * count}"
        )
    if left.size and (rows <= 0 or left.size % rows):
        raise NotComparableError(f"{left.size} bytes do not divide into {rows} rows")
    return Layout(
        size=left.size,
        rows=rows if left.size else 0,
        row_bytes=left.size // rows if left.size else 0,
        element_bytes=max(1, width),
        element_type=element_type,
    )


def equal(left: Bytes, right: Bytes) -> bool:
    """Tell whether two arrays hold the same bytes, at the speed of ``memcmp``."""
    if left.size != right.size:
        return False
    return left.size == 0 or _memcmp()(left.ctypes.data, right.ctypes.data, left.size) == 0


def address_of(view: memoryview) -> int:
    """Return where the bytes of a buffer lie; valid for as long as the buffer is held. 0 where there are none."""
    if not view.nbytes:
        return 0
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view))
    import numpy as np

    return np.frombuffer(view, np.uint8).ctypes.data


def same_bytes(left: int, right: int, size: int) -> bool:
    """Tell whether two places in memory hold the same bytes; many comparisons of one buffer take its address once."""
    return size == 0 or _memcmp()(left, right, size) == 0


def unequal_blocks(left: Bytes, right: Bytes, element_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and end, in bytes, of the blocks that differ; ends fall between elements."""
    step = max(1, BLOCK_BYTES // element_bytes) * element_bytes
    compare, at_left, at_right = _memcmp(), left.ctypes.data, right.ctypes.data
    for start in range(0, left.size, step):
        end = min(left.size, start + step)
        if compare(at_left + start, at_right + start, end - start):
            yield start, end


def extent_of(left: Bytes, right: Bytes, layout: Layout) -> Extent:
    """Count differing bytes, elements and rows."""
    extent = Extent()
    for start, end in unequal_blocks(left, right, layout.element_bytes):
        _count(extent, left[start:end] ^ right[start:end], start, layout)
    return extent


def as_elements(block: Bytes, element_bytes: int) -> NDArray[Any]:
    """Return a block as unsigned integers of the element's width, or as rows of bytes."""
    if element_bytes in {1, 2, 4, 8}:
        return block.view(f"<u{element_bytes}")
    return block.reshape(-1, element_bytes)


def _count(extent: Extent, mask: Bytes, start: int, layout: Layout) -> None:
    """Add one block to the counts; ``mask`` is the exclusive or of both sides."""
    import numpy as np

    changed = as_elements(mask, layout.element_bytes) != 0
    if changed.ndim > 1:
        changed = changed.any(axis=1)
    indices = np.flatnonzero(changed)
    if extent.first_byte < 0:
        at = int(indices[0]) * layout.element_bytes
        at += int(np.flatnonzero(mask[at : at + layout.element_bytes])[0])
        extent.first_byte, extent.first_mask = start + at, int(mask[at])
    rows = (indices * layout.element_bytes + start) // layout.row_bytes
    extent.bytes += int(np.count_nonzero(mask))
    extent.elements += indices.size
    extent.rows += int(np.count_nonzero(np.diff(rows))) + (int(rows[0]) != extent.last_row)
    extent.last_row = int(rows[-1])


def copy_bytes(target: int, source: int, size: int) -> None:
    """Copy bytes from one place in memory to another that does not overlap it; other threads go on meanwhile."""
    if size:
        _memcpy()(target, source, size)


@cache
def _memcpy() -> Callable[[int, int, int], object]:
    function = _library().memcpy
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    function.restype = ctypes.c_void_p
    copy: Callable[[int, int, int], object] = function
    return copy


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)


@cache
def _memcmp() -> Callable[[int, int, int], int]:
    function = _library().memcmp
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    function.restype = ctypes.c_int
    compare: Callable[[int, int, int], int] = function
    return compare
