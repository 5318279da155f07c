"""The memory guard: whether the host or device has room for one more capture.

The query is passed in, so a test or a caller decides what "available" means. A query that fails says
"unknown": that is a reason to skip a capture, never an error of the turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Room(Enum):
    """What the guard found; the value is the skip reason, where there is one."""

    ENOUGH = "enough"  # as much as was asked for and the headroom, or no query to ask
    SHORT = "memory_guard"  # less; freeing something may help
    UNKNOWN = "memory_query_failed"  # the query raised; freeing something cannot help


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryGuard:
    """Asks for available memory before a capture."""

    query: Callable[[], int] | None = None
    """Bytes available now, or None for no guard."""
    headroom: int = 0
    """Bytes that must stay available."""

    def room(self, need: int) -> Room:
        """Whether ``need`` bytes may be taken."""
        if self.query is None:
            return Room.ENOUGH
        try:
            available = self.query()
        except Exception:  # noqa: BLE001 - whatever the query raises means "unknown"
            return Room.UNKNOWN
        return Room.ENOUGH if available >= need + self.headroom else Room.SHORT


def out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, as the host or a device says it."""
    return isinstance(error, MemoryError) or "memory" in str(error).lower()
