"""K07: memory of a snapshot is handed on while something still answers for it."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Turn
from harness.torch_engine.keys import CacheKey


class _StaleEntries(SessionCache):
    def _evict(self, victim: Entry | None) -> CacheKey | None:
        gone = super()._evict(victim)
        if victim is not None and gone is not None:
            self._stale[gone] = victim
        return gone

    @property
    def _stale(self) -> dict[CacheKey, Entry]:
        return self.__dict__.setdefault("_old", {})  # type: ignore[no-any-return]

    def visible(self, key: CacheKey) -> bool:
        return super().visible(key) or key in self._stale

    def chain(self, key: CacheKey) -> list[Entry]:
        return [self._stale[key]] if key in self._stale and not super().visible(key) else super().chain(key)


class StaleEntry(Mutant):
    """An evicted entry still answers, from memory that another snapshot was copied into."""

    mutant_id = "K07.stale-entry"
    stopped_by = Stop(scenario="E14", check="the-old-one-is-gone", reason="other_count")
    store = _StaleEntries


class _AbandonsLate(SessionCache):
    def abandon(self, turn: Turn) -> int:
        for entry in turn.pending.values():
            self.retire(entry.snapshot)
        if turn.pending:
            turn.source = None
            return len(turn.pending)
        return super().abandon(turn)


class GivenUpPublished(Mutant):
    """A turn that is given up returns its captures' memory and keeps their entries; the next one publishes them."""

    mutant_id = "K07.given-up-published"
    stopped_by = Stop(scenario="E14", check="given-up-is-gone", reason="other_count")
    store = _AbandonsLate
