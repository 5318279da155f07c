"""Memory for copies that are kept, in blocks of large pages where the system has them.

Memory that is mapped anew is zeroed page by page while it is first written, and on small pages that takes several times
as long as copying. Where there are no large pages, the allocator's memory is better: it hands out again what forwards
and earlier copies have freed, so most of its pages are there already.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
from functools import cache
from pathlib import Path
from typing import Final

_BLOCK: Final = 16 << 20
"""Bytes of one block; what of it is not written to is not there."""
_ALIGNED: Final = 64
_LARGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class Room:
    """Hands out memory that nobody else writes to; it goes with the last view of it. Any thread may ask."""

    def __init__(self) -> None:
        self._block = memoryview(b"")
        self._asking = threading.Lock()

    def take(self, size: int) -> memoryview:
        """Return writable bytes, of no certain value.

        Raises:
            MemoryError: There is no more.
        """
        if not has_large_pages():
            import numpy as np

            return np.empty(size, np.uint8).data
        whole = -(-size // _ALIGNED) * _ALIGNED
        with self._asking:
            if whole > self._block.nbytes:
                self._block = _mapped(max(_BLOCK, whole))
            taken, self._block = self._block[:size], self._block[whole:]
        return taken


def _mapped(size: int) -> memoryview:
    try:
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes for copies cannot be mapped ({error.strerror})") from error
    with contextlib.suppress(OSError):  # it is a wish
        block.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(block)


@cache
def has_large_pages() -> bool:
    """Tell whether this system gives large pages to memory that asks for them."""
    try:
        return hasattr(mmap, "MADV_HUGEPAGE") and "[never]" not in _LARGE_PAGES.read_text()
    except OSError:
        return False
