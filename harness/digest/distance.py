"""How far two byte strings of one part lie apart, as numbers: for comparisons that allow a stated distance.

Everything is told in whole numbers, rounded up, so that a difference is never shown as none: places of the element type
(its representable numbers, counted from one value to the other), billionths of the reference's largest number, and
billionths of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite, prod
from typing import TYPE_CHECKING, Any, Final

from harness.digest.blocks import ELEMENT_BYTES, as_elements, layout_of, opened, unequal_blocks
from harness.errors import NotComparableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Bytes = NDArray[np.uint8]

MOST: Final = 2**53 - 1
"""What a distance stops at: the largest integer of a document."""
BILLION: Final = 10**9
_FLOATS: Final = {"f64": "<f8", "f32": "<f4", "f16": "<f2"}
_INTEGERS: Final = {
    **{name: f"<{name[0]}{int(name[1:]) // 8}" for name in ("i64", "i32", "i16", "u64", "u32", "u16")},
    "i8": "i1",
    "u8": "u1",
    "bool": "u1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a candidate's part is from the reference's. Each number is at most :data:`MOST`."""

    elements: int
    """Elements in the part."""
    differing_elements: int
    ulp: int
    """Most places of the element type between two elements; of integers, their difference."""
    relative_ppb: int
    """Largest difference, in billionths of the largest magnitude in the reference, rounded up."""
    absolute_nano: int
    """Largest difference in billionths, rounded up."""
    finite: bool
    """Whether all elements that differ are numbers on both sides. If not, the distances say nothing."""


def distance(reference: Buffer, candidate: Buffer, *, element_type: str, shape: Sequence[int]) -> Distance:
    """Return how far two byte strings lie apart.

    Args:
        reference: All valid bytes of the part, C order, little-endian.
        candidate: The same of the other side.
        element_type: Like ``bf16``; one whose elements are numbers of whole bytes.
        shape: Valid extent.

    Raises:
        NotComparableError: Sizes differ, the shape does not give them, or the element type is opaque.
    """
    if element_type not in ELEMENT_BYTES:
        raise NotComparableError(
            f"found element type {element_type}; its bytes are no numbers that could be subtracted"
        )
    left, right = opened(reference), opened(candidate)
    width = layout_of(left, right, element_type, shape).element_bytes
    differing, places, apart, finite = 0, 0, Fraction(0), True
    for start, end in unequal_blocks(left, right, width):
        one, other = as_elements(left[start:end], width), as_elements(right[start:end], width)
        at = (one != other).nonzero()[0]
        differing += int(at.size)
        places = max(places, _places(one[at], other[at], element_type))
        values, others = _values(one[at], element_type), _values(other[at], element_type)
        finite = finite and _all_finite(values) and _all_finite(others)
        apart = max(apart, _apart(values, others)) if finite else apart
    largest = _largest(left, width, element_type) if differing else Fraction(0)
    return Distance(
        elements=prod(shape),
        differing_elements=differing,
        ulp=min(places, MOST),
        relative_ppb=_relative(apart, largest),
        absolute_nano=min(ceil(apart * BILLION), MOST),
        finite=finite,
    )


def _relative(apart: Fraction, largest: Fraction) -> int:
    if not apart:
        return 0
    return min(ceil(apart / largest * BILLION), MOST) if largest else MOST


def _places(one: NDArray[Any], other: NDArray[Any], element_type: str) -> int:
    """Return the most representable numbers between two elements; both zeros of a float are one number."""
    if not one.size:
        return 0
    if element_type in _INTEGERS:
        kind = _INTEGERS[element_type]
        low, high = (side.view(kind) for side in (one, other))
        return max(abs(int(a) - int(b)) for a, b in _extremes(low, high))
    a, b = _ordered(one), _ordered(other)
    return max(abs(int(x) - int(y)) for x, y in _extremes(a, b))


def _extremes(a: NDArray[Any], b: NDArray[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs among which the two that lie farthest apart must be, without an overflow."""
    import numpy as np

    if a.dtype.itemsize < 8:
        at = int(np.abs(a.astype(np.int64) - b.astype(np.int64)).argmax())
        return [(a[at], b[at])]
    apart = np.abs(a.astype(np.longdouble) - b.astype(np.longdouble))
    return [(a[at], b[at]) for at in np.flatnonzero(apart == apart.max())[:1024]]


def _ordered(bits: NDArray[Any]) -> NDArray[Any]:
    """Return the bits of floats as signed integers in the order of the numbers."""
    import numpy as np

    width = bits.dtype.itemsize
    signed = np.dtype(f"<i{width}")
    magnitude = (bits & bits.dtype.type((1 << (8 * width - 1)) - 1)).view(signed)
    found: NDArray[Any] = np.where(bits >> bits.dtype.type(8 * width - 1) != 0, -magnitude, magnitude)
    return found


def _values(bits: NDArray[Any], element_type: str) -> NDArray[Any]:
    """Return elements as numbers: 64-bit integers stay what they are, all others become doubles, exactly."""
    import numpy as np

    if element_type == "bf16":
        return (bits.astype("<u4") << 16).view("<f4").astype(np.float64)
    if element_type in ("i64", "u64"):
        return bits.view(_INTEGERS[element_type])
    with np.errstate(invalid="ignore"):
        return bits.view(_FLOATS.get(element_type) or _INTEGERS[element_type]).astype(np.float64)


def _all_finite(values: NDArray[Any]) -> bool:
    import numpy as np

    return values.dtype.kind in "iu" or bool(np.isfinite(values).all())


def _apart(values: NDArray[Any], others: NDArray[Any]) -> Fraction:
    """Return the largest difference, exactly for the pair that doubles say lies farthest apart."""
    import numpy as np

    if not values.size:
        return Fraction(0)
    with np.errstate(over="ignore"):
        rough = np.abs(values.astype(np.float64) - others.astype(np.float64))
    at = int(rough.argmax())
    return abs(Fraction(values[at].item()) - Fraction(others[at].item()))


def _largest(side: Bytes, width: int, element_type: str) -> Fraction:
    """Return the largest finite magnitude of a part."""
    import numpy as np

    found = Fraction(0)
    step = (4 << 20) // width * width
    for start in range(0, side.size, step):
        values = _values(as_elements(side[start : start + step], width), element_type)
        if values.dtype.kind in "iu":
            found = max(found, abs(Fraction(int(values.min()))), abs(Fraction(int(values.max()))))
            continue
        most = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        found = max(found, Fraction(most) if isfinite(most) else Fraction(0))
    return found
