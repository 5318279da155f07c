"""The session cache: which snapshots exist, which one serves a prompt, and which one must go.

Rules:

1. a capture is pending and invisible until its turn commits; an abandoned turn leaves nothing;
2. a snapshot with children, published or pending, is pinned; only leaves are evicted, oldest first;
3. stored, pending and promised bytes and entries never exceed the budgets, nor do the bytes with the spares
   (displaced memory that is kept to be used again); 0 in either means no capture, and nothing is held;
4. a capture that cannot be had is skipped and counted, never an error, and leaves no pin behind;
5. what is protected, and what an open turn was restored from, is never evicted for a capture: without another
   victim the capture is skipped. `release` and `evict_lru` take the latter, of deltas, where nothing else is left.

The cache knows layouts and snapshots, not models. Every number it reports is counted where the
thing happens or summed over what is really held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness.torch_engine.cache_types import COUNTERS, CachePlan, Entry, Restorable, Spans, Turn, spans_below
from harness.torch_engine.cache_whole import CacheWhole
from harness.torch_engine.errors import MissingError, OptionError, SessionStateError, TorchEngineError
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.memory_guard import MemoryGuard, Room
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

EVICTED_KEYS_KEPT = 65_536
"""How many evicted keys are remembered to explain a miss."""


class SessionCache(CacheWhole):
    """Delta snapshots by prefix, under a byte budget and an entry budget.

    Args:
        byte_budget: most bytes held, pending ones included; 0 turns captures off.
        entry_budget: most entries held, pending ones included; 0 turns captures off.
        snapshotter: the copy primitives.
        memory_query: bytes of memory available now, or None for no guard; an exception that it
            raises means "unknown", and the capture is skipped.
        headroom: bytes that must stay available after a capture.
        whole: whether every snapshot holds all rows; see `cache_whole`.
    """

    def __init__(
        self,
        *,
        byte_budget: int,
        entry_budget: int,
        snapshotter: Snapshotter | None = None,
        memory_query: Callable[[], int] | None = None,
        headroom: int = 0,
        whole: bool = False,
    ) -> None:
        super().__init__()
        if min(byte_budget, entry_budget, headroom) < 0:
            raise OptionError("cache budgets: expected numbers from 0 on, found a negative one")
        self.byte_budget = byte_budget
        self.entry_budget = entry_budget
        self.snapshotter = snapshotter or Snapshotter()
        self.guard = MemoryGuard(query=memory_query, headroom=headroom)
        self.whole = whole
        self._evicted: dict[CacheKey, None] = {}

    @property
    def enabled(self) -> bool:
        """Whether captures can happen at all."""
        return self.byte_budget > 0 and self.entry_budget > 0

    def close_turn(self, turn: Turn) -> None:
        """Abandon what is pending and forget the session."""
        self.abandon(turn)
        if turn in self._turns:
            self._turns.remove(turn)

    def boundaries(self, turn: Turn, prompt: Tokens, after: int, up_to: int) -> tuple[int, ...]:
        """Cut points in (after, up_to]; see `Schedule.boundaries`."""
        return turn.schedule.boundaries(prompt, after, up_to)

    def plan(self, turn: Turn, prompt: Tokens) -> CachePlan:
        """The deepest published boundary strictly inside the prompt. Changes nothing."""
        if not self.enabled:
            return CachePlan(boundary=0, key=None, reason="disabled")
        if len(prompt) < 2:
            return CachePlan(boundary=0, key=None, reason="too_short")
        cuts = self.boundaries(turn, prompt, 0, len(prompt) - 1)
        keys = self.offered(turn, prompt, cuts)
        for key in keys:
            if self.visible(key) or self.on_disk(key):
                return CachePlan(boundary=key.boundary, key=key, reason="hit")
        if not keys:
            return CachePlan(boundary=0, key=None, reason="no_boundary")
        evicted = any(key in self._evicted for key in keys)
        return CachePlan(boundary=0, key=None, reason="evicted" if evicted else "never_captured")

    def visible(self, key: CacheKey) -> bool:
        """Whether a plan may offer this key: published only."""
        return key in self._published

    def note_miss(self, reason: str) -> None:
        """Count a turn that asked and was not served."""
        self._counts["misses"] += 1
        self._counts[f"miss_{reason}"] += 1

    def chain(self, key: CacheKey) -> list[Entry]:
        """The links root → leaf, each one's age refreshed.

        Raises:
            MissingError: a link is gone.
        """
        links: list[Entry] = []
        at: CacheKey | None = key
        while at is not None:
            entry = self._published.get(at)
            if entry is None:
                raise MissingError(
                    f"planned {key.boundary}-token snapshot is no longer present (link at {at.boundary} tokens)"
                )
            entry.stamp = self._tick()
            links.append(entry)
            at = entry.parent
        links.reverse()
        return links

    def links(self, key: CacheKey) -> list[Snapshot]:
        """The snapshots root → leaf, those that only the disk has read and verified.

        Raises:
            MissingError: a link is gone.
            LinkCorruptError, ChainError: a link on the disk is wrong.
        """
        fetched = self.fetched(key)
        for link in fetched:  # measured while they are staged, too
            self.snapshotter.arenas.hold(link.snapshot.arena, link.snapshot.nbytes)
        at = fetched[0].parent if fetched else key
        held = [entry.snapshot for entry in self.chain(at)] if at is not None else []
        self.promote(fetched)
        return held + [link.snapshot for link in fetched]

    def restore(self, key: CacheKey, destination: Restorable) -> None:
        """Put a planned snapshot back: check all, copy once, then hand over the metadata.

        Raises:
            MissingError: a link is gone.
            LayoutError, MetadataError, StoreError: it does not fit or is damaged; nothing was touched.
        """
        try:
            links = self.links(key)
            layout = destination.expect(key.boundary, links[-1].meta)
            copied = self.snapshotter.restore(links, layout)
            destination.finish_restore(links[-1].meta)
        except TorchEngineError:
            self._counts["restore_failures"] += 1
            raise
        self._counts["restores"] += 1
        self._counts["hits"] += 1
        self._counts["restored_tokens"] += key.boundary
        self._counts["restored_bytes"] += copied
        self._counts["restored_links"] += len(links)

    def capture(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout, meta: bytes) -> str:
        """Take a pending snapshot of the state at a boundary.

        Args:
            turn: whose capture it is.
            prompt: the tokens; only the first ``boundary`` count.
            boundary: tokens forwarded so far.
            layout: the live state at the boundary, only read.
            meta: part 0 at the boundary.

        Returns:
            ``captured``, ``exists``, or the reason why it was skipped: ``disabled``,
            ``exceeds_budget``, ``budget``, ``memory_guard``, ``memory_query_failed``, ``allocation``.

        Raises:
            SessionStateError: the position is no cut of this prompt's schedule.
        """
        if not self.enabled:
            return "disabled"
        if boundary not in self.boundaries(turn, prompt, boundary - 1, boundary):
            raise SessionStateError(f"capture: expected a cut of the schedule, found position {boundary}")
        key = self.key(turn, prompt, boundary)
        if self.visible(key) or key in turn.pending:
            return "exists"
        parent = self.find_parent(turn, prompt, boundary, layout)
        if parent is not None:
            parent.children += 1  # pinned before anything is evicted
        reason = self._store(turn, key, parent, layout, meta, self.above(turn, prompt, boundary))
        if reason != "captured" and parent is not None:
            parent.children -= 1
        self._counts["captures" if reason == "captured" else f"skip_{reason}"] += 1
        return reason

    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:
        """The deepest earlier snapshot of the same prefix, published or pending, that lines up."""
        if self.whole:
            return None
        cuts = self.boundaries(turn, prompt, 0, boundary - 1)
        for key in reversed(self.keys(turn, prompt, cuts)):
            entry = self._published.get(key) or turn.pending.get(key)
            if entry is None or not self.descends(turn.spans, entry):
                continue
            if self.snapshotter.lines_up(entry.snapshot, layout):
                return entry
        return None

    def descends(self, spans: Spans, entry: Entry) -> bool:
        """Whether an entry was made the way in which a state with these spans was made up to there."""
        return entry.spans == spans_below(spans, entry.key.boundary)

    def lineage(self, key: CacheKey) -> Spans:
        """The spans of a published entry; see `Turn.spans`."""
        entry = self._published.get(key)
        return () if entry is None else entry.spans

    def _store(
        self, turn: Turn, key: CacheKey, parent: Entry | None, layout: StateLayout, meta: bytes, above: list[CacheKey]
    ) -> str:
        """Make room, copy, keep as pending."""
        starts = self.snapshotter.starts(layout, parent.snapshot if parent else None)
        need = self.snapshotter.size(layout, starts, meta)
        refused = self.make_room_above(turn, above, need) if self.whole else self.make_room(need)
        if refused is not None:
            return refused
        self.trim(need, wanted=need - len(meta))
        try:
            snapshot = self.snapshotter.capture(layout, meta, starts)
        except MemoryError:
            return "allocation"
        except RuntimeError as error:
            if "memory" not in str(error).lower():
                raise
            return "allocation"
        turn.pending[key] = Entry(
            key=key,
            snapshot=snapshot,
            parent=parent.key if parent else None,
            stamp=self._tick(),
            ancestors=frozenset(above),
            spans=spans_below(turn.spans, key.boundary),
        )
        return "captured"

    def make_room(self, need: int) -> str | None:
        """Evict leaves until ``need`` bytes fit; the reason if they cannot."""
        if need > self.byte_budget:
            return "exceeds_budget"
        while not self._fits(need):
            if self.make_way() is None:
                return "budget"
        while (room := self.guard.room(need)) is Room.SHORT and (self._drop_spare() or self.make_way() is not None):
            continue
        return None if room is Room.ENOUGH else room.value

    def trim(self, need: int = 0, wanted: int = -1) -> None:
        """Let spares go that would not fit beside what is held and ``need`` more bytes; see `Arenas.trim`."""
        room = self.byte_budget - self.stored_bytes - self.pending_bytes - self.deferred_bytes - need
        self.snapshotter.arenas.trim(room if self.enabled else -1, wanted)

    def _fits(self, need: int, entries: int = 1) -> bool:
        held = self.stored_bytes + self.pending_bytes + self.deferred_bytes + need
        count = len(self._published) + self._pending_count() + len(self._promises()) + entries
        return held <= self.byte_budget and count <= self.entry_budget

    def commit(self, turn: Turn) -> int:
        """Publish what is pending, parents before children; the number published.

        A capture whose parent is not published is refused with its children. One whose key another
        turn has published meanwhile is dropped; its children hang on the published one.
        """
        published, turn.source = 0, None
        turn.deferred, turn.deferring = turn.deferring or turn.deferred, None
        for key, entry in sorted(turn.pending.items(), key=lambda item: item[0].boundary):
            del turn.pending[key]
            if not self.admissible(entry):
                self._unlink(turn, entry)
                self.retire(entry.snapshot)
                self._counts["refused"] += 1
            elif key in self._published:
                self._published[key].children += entry.children
                self._unlink(turn, entry)
                self.retire(entry.snapshot)
                self._counts["duplicates"] += 1
            else:
                self._published[key] = entry
                self._evicted.pop(key, None)
                published += 1
        self._counts["published"] += published
        self.trim()
        return published

    def admissible(self, entry: Entry) -> bool:
        """Whether a pending entry may be published: its parent must be, and must have been made the same way."""
        parent = None if entry.parent is None else self._published.get(entry.parent)
        return entry.parent is None or (parent is not None and self.descends(entry.spans, parent))

    def abandon(self, turn: Turn) -> int:
        """Drop what is pending, deepest first, with its parent links; the number dropped."""
        dropped, turn.source, turn.deferring = 0, None, None
        for key in sorted(turn.pending, key=lambda key: -key.boundary):
            entry = turn.pending.pop(key)
            self._unlink(turn, entry)
            self.retire(entry.snapshot)
            dropped += 1
        self._counts["abandoned"] += dropped
        if dropped:
            self.trim()
        return dropped

    def evict_lru(self) -> CacheKey | None:
        """Drop the oldest leaf that may go, an open turn's source only if there is no other; its key, or None."""
        return self.make_way() or (None if self.whole else self._evict(self._oldest_leaf(())))

    def make_way(self) -> CacheKey | None:
        """Drop what `victim` says, for a capture; its key, or None if there is none."""
        return self._evict(self.victim())

    def _evict(self, victim: Entry | None) -> CacheKey | None:
        if victim is None:
            return None
        self.demote(victim)
        del self._published[victim.key]
        self._unlink(None, victim)
        self.retire(victim.snapshot)
        self._evicted[victim.key] = None
        while len(self._evicted) > EVICTED_KEYS_KEPT:
            del self._evicted[next(iter(self._evicted))]
        self._counts["evictions"] += 1
        self._counts["evicted_bytes"] += victim.snapshot.nbytes
        return victim.key

    def victim(self) -> Entry | None:
        """The entry that goes for a capture: the oldest leaf, neither protected nor an open turn's source."""
        if self.whole:
            return self.whole_victim()
        return self._oldest_leaf(self.sources())

    def _oldest_leaf(self, kept: Collection[CacheKey]) -> Entry | None:
        """The oldest entry without children that is neither protected nor to be kept."""
        entries = self._published.values()
        leaves = (e for e in entries if e.children == 0 and not self.protects(e.key) and e.key not in kept)
        return min(leaves, key=lambda entry: entry.stamp, default=None)

    def clear(self) -> None:
        """Drop everything, pending captures included; what is published goes to the disk; counters stay."""
        self.demote_all()
        for turn in self._turns:
            self._counts["abandoned"] += len(turn.pending)
            turn.pending.clear()
            turn.deferring = turn.deferred = None
        self._counts["cleared"] += len(self._published)
        self._published.clear()
        self.snapshotter.arenas.trim(-1)

    def resize(self, *, byte_budget: int, entry_budget: int) -> int:
        """Change both budgets and evict leaves until the published entries fit; the number evicted.

        Pinned and pending entries stay; until they leave there is no room for captures.

        Raises:
            OptionError: a budget below 0.
        """
        if min(byte_budget, entry_budget) < 0:
            raise OptionError(f"cache budgets: expected numbers from 0 on, found {byte_budget}, {entry_budget}")
        self.byte_budget, self.entry_budget = byte_budget, entry_budget
        evicted = 0
        while not self._fits(0, entries=0) and self.evict_lru() is not None:
            evicted += 1
        self.trim()
        return evicted

    def put(self, key: CacheKey, parent: CacheKey | None, snapshot: Snapshot) -> str:
        """Publish a link that was made elsewhere, like one read from a disk; it is kept, not copied.

        Returns:
            ``published``, ``exists``, or why not: ``disabled``, ``refused`` (the parent is not
            published, or its rows do not end where these begin), or a reason of `make_room`.
        """
        if not self.enabled:
            return "disabled"
        if key in self._published:
            return "exists"
        above = None if parent is None else self._published.get(parent)
        if parent is not None and above is None:
            return "refused"
        ends = (0,) * len(snapshot.segments) if above is None else above.snapshot.ends()
        if ends != tuple(segment.start for segment in snapshot.segments):
            return "refused"
        if above is not None:
            above.children += 1
        refused = self.make_room(snapshot.nbytes)
        if refused is not None:
            if above is not None:
                above.children -= 1
            return refused
        self._published[key] = Entry(key=key, snapshot=snapshot, parent=parent, stamp=self._tick())
        self.snapshotter.arenas.hold(snapshot.arena, snapshot.nbytes)
        self.trim()
        self._evicted.pop(key, None)
        self._counts["published"] += 1
        return "published"

    def release(self, need: int) -> int:
        """Give memory back: spares, oldest leaves, pending captures from the deepest on; at last open turns' sources.

        Args:
            need: bytes wanted.

        Returns:
            Bytes given back, less than ``need`` if there was no more to give.
        """
        before, freed = self._in_memory(), 0
        while freed < need and self._drop_spare():
            freed = before - self._in_memory()
        while freed < need and self._give_one():
            self.snapshotter.arenas.trim(-1)
            freed = before - self._in_memory()
        return freed

    def _in_memory(self) -> int:
        return self.stored_bytes + self.pending_bytes + self.spare_bytes

    def _give_one(self) -> bool:
        """One step of `release`; whether there was one."""
        return self.make_way() is not None or self._drop_deepest_pending() or self.evict_lru() is not None

    def _drop_deepest_pending(self) -> bool:
        """Drop one pending capture without children; whether there was one."""
        leaves = [(e, t) for t in self._turns for e in t.pending.values() if e.children == 0]
        if not leaves:
            return False
        entry, turn = max(leaves, key=lambda pair: pair[0].key.boundary)
        del turn.pending[entry.key]
        self._unlink(turn, entry)
        self.retire(entry.snapshot)
        self._counts["abandoned"] += 1
        return True

    def counters(self) -> dict[str, int]:
        """What happened since the cache was made, and what is held now."""
        zero = dict.fromkeys(COUNTERS, 0)
        now = {
            "stored_bytes": self.stored_bytes,
            "pending_bytes": self.pending_bytes,
            "entries": len(self._published),
            "pending_entries": self._pending_count(),
            "byte_budget": self.byte_budget,
            "entry_budget": self.entry_budget,
        }
        return zero | dict(self._counts) | now | self.memory_counters() | self.whole_counters() | self.disk_counters()
