"""Snapshots that the adapter holds for its sessions: prefixes under a budget, and explicit ones by handle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.adapters.llama_image import Saved
from harness.errors import RefusedError
from harness.model.values import RefusalCode


class Prefixes:
    """Prefixes of prompts, the least recently used one first.

    Args:
        entries: How many may be held.
    """

    def __init__(self, entries: int) -> None:
        self._held: dict[str, Saved] = {}
        self._budget = {"bytes": 1 << 34, "entries": entries}

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def used(self, key: str) -> Saved:
        """Return a prefix, from now on the most recently used one."""
        saved = self._held[key] = self._held.pop(key)
        return saved

    def publish(self, more: Mapping[str, Saved]) -> None:
        """Take prefixes in."""
        self._held.update(more)

    def evict(self, count: int) -> int:
        """Evict the least recently used prefixes; -1: all."""
        going: Sequence[str] = list(self._held)[: count if count >= 0 else None]
        for key in going:
            del self._held[key]
        return len(going)

    def release(self, need: int) -> int:
        """Give bytes of prefixes back."""
        before = self._bytes()
        while self._held and before - self._bytes() < need:
            self.evict(1)
        return before - self._bytes()

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change the budget; what does not fit goes."""
        self._budget.update(budget)
        while self._held and not self.fits(0, 0):
            self.evict(1)

    def fits(self, more_bytes: int, more_entries: int) -> bool:
        """Tell whether so much more may be held."""
        held, entries = self._bytes() + more_bytes, len(self._held) + more_entries
        return held <= self._budget["bytes"] and entries <= self._budget["entries"]

    def clear(self) -> None:
        """Forget all of them."""
        self._held.clear()

    def _bytes(self) -> int:
        return sum(len(one.blob) for one in self._held.values())


class Handles:
    """Explicit snapshots."""

    def __init__(self) -> None:
        self._held: dict[str, Saved] = {}

    def keep(self, saved: Saved) -> str:
        """Keep a session; return its handle."""
        handle = f"h{len(self._held) + 1}"
        self._held[handle] = saved
        return handle

    def saved(self, handle: str) -> Saved:
        """Return a snapshot.

        Raises:
            RefusedError: There is none (``missing``).
        """
        if handle not in self._held:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle!r}")
        return self._held[handle]

    def replace(self, handle: str, saved: Saved) -> None:
        """Put another state in the place of one."""
        self._held[handle] = saved

    def clear(self) -> None:
        """Forget all of them."""
        self._held.clear()
