"""Many small pieces of one block of host memory into many buffers, in few calls.

Where a piece is a few kibibytes, a call for each takes longer than its bytes. numpy assigns to any number of places at
once, if what is assigned are elements of one array: here an element is a whole piece, and the array has one at every
byte from the first buffer to the end of the last. Only those that are named are ever touched.

Nothing here looks whether a piece fits its buffer: `Scatter.put` is for places that were checked. Pieces are small,
since numpy counts such an array as if its elements lay side by side, and a whole address space of large ones is more
than it can count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Pieces = npt.NDArray[np.void]


class Places:
    """Buffers of the host that pieces are put into.

    Args:
        addresses: of the first byte of each; the memory, as far as pieces belong there, is the caller's.
    """

    def __init__(self, addresses: Sequence[int]) -> None:
        at = np.array(addresses, np.int64)
        self._first = int(at.min()) if addresses else 0
        self._last = int(at.max()) if addresses else 0
        self.offsets: Numbers = at - self._first
        """Of each from the first one in memory."""
        self._arrays: dict[int, tuple[int, Pieces]] = {}

    def array(self, size: int, furthest: int) -> Pieces:
        """An array that has a piece of ``size`` bytes at every byte, to ``furthest`` bytes into the last buffer."""
        known = self._arrays.get(size)
        if known is None or known[0] < furthest:
            memory = _Memory(self._first, self._last - self._first + furthest + 1, size)
            known = self._arrays[size] = furthest, np.asarray(memory)
        return known[1]


@dataclass(frozen=True, slots=True)
class _Group:
    """Pieces of one size."""

    size: int
    """Bytes of each piece."""
    buffers: Numbers | None
    """Which buffer each belongs to; None: each has its own, in their order."""
    starts: Numbers
    """Its first byte there."""
    furthest: int
    """The greatest of these."""
    source: Pieces
    """The pieces, live; or a piece at every byte of the block, if some have to be chosen."""
    chosen: Numbers | None
    """Which of them; None: all."""


class Scatter:
    """Where the pieces of one block belong, at most one piece in a buffer.

    Args:
        block: (bytes,) u8; it is read when pieces are put, not before.
        offsets: first byte of each piece in the block.
        sizes: bytes of each piece; it may be none.
        starts: first byte of each in its own buffer.

    Raises:
        ValueError: a piece does not lie in the block.
    """

    def __init__(
        self, block: npt.NDArray[np.uint8], offsets: Sequence[int], sizes: Sequence[int], starts: Sequence[int]
    ) -> None:
        self._groups: list[_Group] = []
        for size in sorted({size for size in sizes if size}):
            numbers = [number for number, other in enumerate(sizes) if other == size]
            own, begins = [offsets[number] for number in numbers], [starts[number] for number in numbers]
            if min(own) < 0 or max(own) + size > block.size:
                raise ValueError(f"pieces of {size} bytes: expected offsets in a block of {block.size}, found {own}")
            everywhere: Pieces = np.ndarray((block.size - size + 1,), f"V{size}", block.data, strides=(1,))
            even = _evenly(own)
            self._groups.append(
                _Group(
                    size=size,
                    buffers=None if len(numbers) == len(sizes) else np.array(numbers, np.int64),
                    starts=np.array(begins, np.int64),
                    furthest=max(begins),
                    source=everywhere if even is None else everywhere[even],
                    chosen=np.array(own, np.int64) if even is None else None,
                )
            )

    def put(self, places: Places) -> None:
        """Copy every piece into its buffer."""
        for group in self._groups:
            offsets = places.offsets if group.buffers is None else places.offsets[group.buffers]
            pieces = group.source if group.chosen is None else group.source[group.chosen]
            places.array(group.size, group.furthest)[offsets + group.starts] = pieces


def _evenly(offsets: Sequence[int]) -> slice | None:
    """Offsets as a slice where they rise by equal distances, which saves a copy."""
    step = offsets[1] - offsets[0] if len(offsets) > 1 else 1
    whole = range(offsets[0], offsets[-1] + 1, max(step, 1))
    return slice(whole.start, whole.stop, whole.step) if list(whole) == list(offsets) else None


class _Memory:
    """Addresses as an array that has a piece at each."""

    def __init__(self, base: int, count: int, size: int) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (base, False),
            "typestr": f"|V{size}",
            "shape": (count,),
            "strides": (1,),
        }
