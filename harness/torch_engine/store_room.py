"""How much the disk tier may hold, and why a link is not stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """A byte budget and a reserve of the file system."""

    budget_bytes: int
    """Most bytes of all links together; 0 turns storing off."""
    min_free_bytes: int
    """Bytes that the file system must have left after a link is stored."""
    free_query: Callable[[], int]
    """Bytes that the file system has left now; `OSError` means unknown."""

    def refusal(self, size: int) -> str | None:
        """Why ``size`` bytes cannot be stored whatever is evicted, or None."""
        if self.budget_bytes == 0:
            return "disabled"
        if size > self.budget_bytes:
            return "exceeds_budget"
        try:
            free = self.free_query()
        except OSError:
            return "space_query_failed"
        return "low_space" if free - size < self.min_free_bytes else None

    def read_only(self) -> bool:
        """Whether not even an empty link could be stored; unknown counts as yes."""
        try:
            return self.free_query() < self.min_free_bytes
        except OSError:
            return True

    def counters(self) -> dict[str, int]:
        """The budget in bytes, and whether the tier is read-only now."""
        return {"budget_bytes": self.budget_bytes, "read_only": int(self.read_only())}
