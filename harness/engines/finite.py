"""Whether float bytes hold an infinity or a not-a-number, told from the bits without a number library.

A float is not finite when all bits of its exponent are one. All elements are tested at once as one large integer:
mask the exponents, add one unit of the lowest exponent bit to each, and a carry into the place of the sign tells.
No carry leaves its element, since the mask keeps the sign bit free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class _Layout:
    width: int
    """Bytes of one element."""
    exponent: int
    """Mask of the exponent bits."""
    unit: int
    """Lowest exponent bit."""


_FLOATS: Final = {
    "f64": _Layout(8, 0x7FF0_0000_0000_0000, 0x0010_0000_0000_0000),
    "f32": _Layout(4, 0x7F80_0000, 0x0080_0000),
    "bf16": _Layout(2, 0x7F80, 0x0080),
    "f16": _Layout(2, 0x7C00, 0x0400),
}


def all_finite(data: Buffer, element_type: str) -> bool:
    """Tell whether every element is a finite number; true for element types that are not floats.

    Raises:
        ValueError: The bytes are not a whole number of elements.
    """
    layout = _FLOATS.get(element_type)
    if layout is None:
        return True
    raw = memoryview(data)
    if raw.nbytes % layout.width:
        raise ValueError(f"found {raw.nbytes} bytes; {element_type} elements have {layout.width} each")
    count = raw.nbytes // layout.width
    bits = int.from_bytes(raw.cast("B") if count else b"", "little")
    carried = (bits & _repeated(layout.exponent, layout, count)) + _repeated(layout.unit, layout, count)
    return not carried & _repeated(1 << (8 * layout.width - 1), layout, count)


@lru_cache(maxsize=64)
def _repeated(lane: int, layout: _Layout, count: int) -> int:
    return int.from_bytes(lane.to_bytes(layout.width, "little") * count, "little")
