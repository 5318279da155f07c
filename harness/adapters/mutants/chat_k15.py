"""K15: what was kept for a chat is kept for good."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.keys import CacheKey


class _ProtectsForGood(SessionCache):
    def release_head(self, key: CacheKey) -> None:
        """Keep the protection."""


class HeadPinnedForGood(Mutant):
    """The head's protection outlives the turn that it was meant for."""

    mutant_id = "K15.head-pinned-for-good"
    stopped_by = Stop(scenario="C06", check="head-may-go-then", reason="other_count")
    store = _ProtectsForGood
