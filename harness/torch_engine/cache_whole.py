"""Policy ``whole``: every snapshot stands alone, and what a capture may push out is its own prefix.

Rules, besides those of the cache:

1. a snapshot holds all rows and has no parent;
2. it is kept beside what is there if both fit; else it replaces strict ancestors of itself, the shallowest
   first and the one that its turn was restored from last; no bytes are taken from any other. Where only a
   place is missing, the entry budget, the oldest leaf goes;
3. what an open turn was restored from, and what is protected, is never evicted for anything else; no victim
   means that a capture is refused;
4. a deferred save counts as if it had been copied; it is copied when its session leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.torch_engine.cache_disk import CacheDisk
from harness.torch_engine.cache_types import Deferred, Entry, Turn
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.memory_guard import MemoryGuard, Room, out_of_memory
from harness.torch_engine.snapshot import Snapshot
from harness.torch_engine.state import StateLayout


@dataclass(frozen=True, slots=True)
class Replaceable:
    """A strict ancestor that a capture may replace."""

    entry: Entry
    turn: Turn | None
    """The turn whose pending capture it is; None for a published one."""


class CacheWhole(CacheDisk):
    """What a cache does otherwise under the policy ``whole``."""

    byte_budget: int
    guard: MemoryGuard
    whole: bool = False
    """Whether the policy holds; deltas are stored if not."""

    def _fits(self, need: int, entries: int = 1) -> bool:
        """Whether so many more bytes and entries may be held; see `SessionCache`."""
        raise NotImplementedError

    def make_way(self) -> CacheKey | None:
        """Drop one entry for a capture; see `SessionCache`."""
        raise NotImplementedError

    def trim(self, need: int = 0, wanted: int = -1) -> None:
        """Let spares go that do not fit; see `SessionCache`."""
        raise NotImplementedError

    def _drop_spare(self) -> bool:
        """Let one spare go; whether there was one."""
        return self.snapshotter.arenas.drop_one()

    def above(self, turn: Turn, prompt: Tokens, boundary: int) -> list[CacheKey]:
        """Keys of all cuts of a prompt below a boundary, under this policy; else none."""
        cuts = turn.schedule.boundaries(prompt, 0, boundary - 1) if self.whole else ()
        return self.keys(turn, prompt, cuts)

    @property
    def allowance(self) -> int:
        """Bytes that captures may still take, deferred saves counted as taken."""
        return max(0, self.byte_budget - self.stored_bytes - self.pending_bytes - self.deferred_bytes)

    # -- replacing and evicting ----------------------------------------------------------------

    def make_room_above(self, turn: Turn, ancestors: Sequence[CacheKey], need: int) -> str | None:
        """Replace strict ancestors until ``need`` bytes fit; the reason if they cannot.

        Nothing is replaced unless all of it helps: a capture that is refused leaves everything as it was.
        """
        if need > self.byte_budget:
            return "exceeds_budget"
        old = self.replaceable(turn, ancestors)
        enough = next((n for n in range(len(old) + 1) if self._fits_without(need, old[:n])), None)
        while enough is None and self._fits(need, entries=0) and self.make_way() is not None:
            enough = 0 if self._fits(need) else None  # bytes are there, a place is not
        if enough is None:
            return "budget"
        while (room := self.guard.room(need - _bytes(old[:enough]))) is Room.SHORT and self._drop_spare():
            continue
        if room is not Room.ENOUGH:
            return str(room.value)
        for item in old[:enough]:
            self.replace(item)
        return None

    def replaceable(self, turn: Turn, ancestors: Sequence[CacheKey]) -> list[Replaceable]:
        """Held strict ancestors that may go: the shallowest first, the turn's own source last."""
        found: list[Replaceable] = []
        kept = self.sources(other_than=turn)
        for key in sorted(ancestors, key=lambda key: (key == turn.source, key.boundary)):
            pending, published = turn.pending.get(key), self._published.get(key)
            if pending is not None and not self.protects(key):
                found.append(Replaceable(pending, turn))
            elif published is not None and not self.protects(key) and key not in kept:
                found.append(Replaceable(published, None))
        return found

    def replace(self, item: Replaceable) -> None:
        """Drop an entry for the sake of one that extends it."""
        if item.turn is None:
            self.demote(item.entry)
        del (self._published if item.turn is None else item.turn.pending)[item.entry.key]
        self.retire(item.entry.snapshot)
        self.count({"replaced": 1, "replaced_bytes": item.entry.snapshot.nbytes})

    def _fits_without(self, need: int, gone: Sequence[Replaceable]) -> bool:
        return self._fits(need - _bytes(gone), 1 - len(gone))

    def whole_victim(self) -> Entry | None:
        """What an eviction takes: the oldest entry that is no other's ancestor, else the shallowest one.

        Protected entries and sources of open turns are not taken.
        """
        kept = self.sources()
        free = [e for e in self._published.values() if e.key not in kept and not self.protects(e.key)]
        above = {key for entry in self._published.values() for key in entry.ancestors}
        leaves = [entry for entry in free if entry.key not in above]
        if leaves:
            return min(leaves, key=lambda entry: entry.stamp)
        return min(free, key=lambda entry: entry.key.boundary, default=None)

    # -- deferred saves ------------------------------------------------------------------------

    def defer(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout, meta: bytes) -> str:
        """Promise room for a snapshot that is copied later; pending until the turn commits.

        Returns:
            ``deferred``, ``exists``, or the reason why it was skipped.
        """
        key, ancestors = self.key(turn, prompt, boundary), self.above(turn, prompt, boundary)
        promised = turn.deferred is not None and turn.deferred.key == key
        if promised or key in self._published or key in turn.pending:
            return "exists"
        need = self.snapshotter.size(layout, self.snapshotter.starts(layout, None), meta)
        reason = self.make_room_above(turn, ancestors, need)
        if reason == "budget" and turn.deferred is not None and turn.deferred.key in ancestors:
            reason = self._make_room_of(turn, turn.deferred, ancestors, need)
        if reason is not None:
            self.count({f"skip_{reason}": 1})
            return reason
        turn.deferring = Deferred(key=key, nbytes=need, ancestors=frozenset(ancestors))
        self.trim()
        self.count({"deferred": 1})
        return "deferred"

    def _make_room_of(self, turn: Turn, promise: Deferred, ancestors: Sequence[CacheKey], need: int) -> str | None:
        """Give up the turn's own earlier promise for the sake of one that extends it, if that is enough."""
        turn.deferred = None
        reason = self.make_room_above(turn, ancestors, need)
        if reason is not None:
            turn.deferred = promise
        else:
            self.count({"replaced": 1, "replaced_bytes": promise.nbytes})
        return reason

    def materialize(self, turn: Turn, capture: Callable[[], Snapshot]) -> str:
        """Copy what was deferred, now that its session leaves it, and publish it.

        Returns:
            ``published``, ``exists``, or ``allocation``.
        """
        promise, turn.deferred = turn.deferred, None
        if promise is None or promise.key in self._published:
            return "exists"
        try:
            snapshot = capture()
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            self.count({"skip_allocation": 1})
            return "allocation"
        self._published[promise.key] = Entry(
            key=promise.key, snapshot=snapshot, parent=None, stamp=self._tick(), ancestors=promise.ancestors
        )
        self.count({"materialized": 1, "published": 1})
        return "published"

    def whole_counters(self) -> dict[str, int]:
        """What is promised, and what may still be taken."""
        return {
            "deferred_bytes": self.deferred_bytes,
            "deferred_entries": len(self._promises()),
            "allowance_bytes": self.allowance,
        }


def _bytes(items: Sequence[Replaceable]) -> int:
    return sum(item.entry.snapshot.nbytes for item in items)
