"""Which of some numbers are the largest, told from their bytes without a number library."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CODES: Final = {"f64": "d", "f32": "f", "f16": "e", "u32": "I", "i32": "i", "u16": "H"}
"""Element type to the letter that :mod:`struct` has for it."""


def largest(data: Buffer, element_type: str) -> Sequence[int]:
    """Return the places of the largest element, ascending; of element types that cannot be read: none.

    Raises:
        ValueError: The bytes are not a whole number of elements.
    """
    raw = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    if element_type == "bf16":  # the upper half of an f32
        wide = bytearray(2 * raw.nbytes)
        wide[2::4], wide[3::4] = raw[0::2], raw[1::2]
        raw, element_type = memoryview(wide), "f32"
    code = _CODES.get(element_type)
    if code is None or not raw.nbytes:
        return ()
    width = struct.calcsize(f"<{code}")
    if raw.nbytes % width:
        raise ValueError(f"found {raw.nbytes} bytes; {element_type} elements have {width} each")
    values = struct.unpack(f"<{raw.nbytes // width}{code}", raw)
    most = max(values)
    return [place for place, value in enumerate(values) if value == most]
