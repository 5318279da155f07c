"""K15: what is held grows past its budget, is counted wrongly, or the wrong thing goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Restorable, Turn
from harness.torch_engine.cache_whole import Replaceable
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.snapshot import PART_ALIGN, Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

_PAGE = 1 << 20


class _AbandonKeeps(SessionCache):
    def abandon(self, turn: Turn) -> int:
        return len(turn.pending)


class AbandonKeepsPending(Mutant):
    """A turn that is given up keeps its captures, invisible and never freed."""

    mutant_id = "K15.abandon-keeps-pending"
    stopped_by = Stop(scenario="D01", check="dropped-pending")
    store = _AbandonKeeps


class _EvictsRoot(SessionCache):
    def victim(self) -> Entry | None:
        return min(self._published.values(), key=lambda entry: entry.stamp, default=None)

    def visible(self, key: CacheKey) -> bool:
        entry = self._published.get(key)
        return entry is not None and (entry.parent is None or self.visible(entry.parent))


class EvictRoot(Mutant):
    """The oldest snapshot goes, also where others rest on it; they stay held and serve nobody."""

    mutant_id = "K15.evict-root"
    stopped_by = Stop(scenario="E02", check="a-two-links", reason="other_count")
    store = _EvictsRoot


class _ByInsertion(SessionCache):
    def chain(self, key: CacheKey) -> list[Entry]:
        before = {entry.key: entry.stamp for entry in self._published.values()}
        links = super().chain(key)
        for entry in links:
            entry.stamp = before[entry.key]
        return links


class LruByInsertion(Mutant):
    """The oldest capture goes first, however recently it was used."""

    mutant_id = "K15.lru-by-insertion"
    stopped_by = Stop(scenario="E01", check="used-stays", reason="other_count")
    store = _ByInsertion


class _EvictsNewest(SessionCache):
    def victim(self) -> Entry | None:
        leaves = (entry for entry in self._published.values() if entry.children == 0)
        return max(leaves, key=lambda entry: entry.stamp, default=None)


class EvictsNewest(Mutant):
    """The most recently used snapshot goes first."""

    mutant_id = "K15.evicts-newest"
    stopped_by = Stop(scenario="E01", check="used-stays", reason="other_count")
    store = _EvictsNewest


@dataclass(frozen=True, kw_only=True, slots=True)
class _RowsCounted(Snapshot):
    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments) + len(self.meta)


class _Underreports(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        return _RowsCounted(fixed=made.fixed, segments=made.segments, meta=made.meta, arena=made.arena)


class SizeUnderreported(Mutant):
    """Only the rows of a snapshot are counted against the budget, not its recurrent state."""

    mutant_id = "K15.size-underreported"
    stopped_by = Stop(scenario="E13", check="sizes")
    snapshotter = _Underreports


class _WholeCopies(SessionCache):
    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:  # noqa: ARG002
        return None


class WholeCopies(Mutant):
    """Every boundary stores the whole state instead of the rows above its parent."""

    mutant_id = "K15.whole-copies"
    stopped_by = Stop(scenario="E15", check="held", reason="too_large")
    store = _WholeCopies


class _NoBudget(SessionCache):
    def _fits(self, need: int, entries: int = 1) -> bool:  # noqa: ARG002 - that is the fault
        return True


class BudgetIgnored(Mutant):
    """Captures are taken past the byte budget."""

    mutant_id = "K15.budget-ignored"
    stopped_by = Stop(scenario="E01", check="full")
    store = _NoBudget


class _CopyPerRestore(SessionCache):
    def restore(self, key: CacheKey, destination: Restorable) -> None:
        super().restore(key, destination)
        leaf = self._published[key]
        private = replace(key, domain=key.domain + b"+" * self._counts["restores"])
        self._published[private] = Entry(key=private, snapshot=leaf.snapshot, parent=None, stamp=self._tick())


class CopyPerRestore(Mutant):
    """Every restore leaves a private copy of its leaf in the store."""

    mutant_id = "K15.copy-per-restore"
    stopped_by = Stop(scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="nothing-added")
    store = _CopyPerRestore


class _RestorePins(SessionCache):
    def chain(self, key: CacheKey) -> list[Entry]:
        links = super().chain(key)
        links[-1].children += 1
        return links


class RestorePins(Mutant):
    """A restore pins the snapshot that it reads and never lets go of it."""

    mutant_id = "K15.restore-pins"
    stopped_by = Stop(scenario="D01", check="nothing-pinned")
    store = _RestorePins


class _PinsLeak(SessionCache):
    def _unlink(self, turn: Turn | None, entry: Entry) -> None:
        """Forget that the parent has one child fewer."""


class PinLeaks(Mutant):
    """A snapshot that goes leaves its pin on its parent, which can then never go."""

    mutant_id = "K15.pin-leaks"
    stopped_by = Stop(scenario="E03", check="one-pinned")
    store = _PinsLeak


class _EvictsForOversize(SessionCache):
    def make_room(self, need: int) -> str | None:
        while not self._fits(need) and self.evict_lru() is not None:
            continue
        return super().make_room(need)


class OversizeEvicts(Mutant):
    """A capture that can never fit empties the store before it is skipped."""

    mutant_id = "K15.oversize-evicts"
    stopped_by = Stop(scenario="E04", check="oversize-leaves-the-rest")
    store = _EvictsForOversize


class _EntriesFree(SessionCache):
    def _fits(self, need: int, entries: int = 1) -> bool:  # noqa: ARG002 - that is the fault
        return self.stored_bytes + self.pending_bytes + need <= self.byte_budget


class EntryBudgetIgnored(Mutant):
    """Bytes are kept to, the number of entries is not."""

    mutant_id = "K15.entry-budget-ignored"
    stopped_by = Stop(scenario="E01", check="two-entries", reason="other_count")
    store = _EntriesFree


class _PendingFree(SessionCache):
    def _fits(self, need: int, entries: int = 1) -> bool:
        within = self.stored_bytes + need <= self.byte_budget
        return within and len(self._published) + self._pending_count() + entries <= self.entry_budget


class PendingBytesFree(Mutant):
    """Captures of a turn that is still open are not counted against the byte budget."""

    mutant_id = "K15.pending-bytes-free"
    stopped_by = Stop(scenario="E04", check="pending-counts")
    store = _PendingFree


class _PendingEntriesFree(SessionCache):
    def _fits(self, need: int, entries: int = 1) -> bool:
        within = self.stored_bytes + self.pending_bytes + need <= self.byte_budget
        return within and len(self._published) + entries <= self.entry_budget


class PendingEntriesFree(Mutant):
    """Captures of a turn that is still open are not counted against the entry budget."""

    mutant_id = "K15.pending-entries-free"
    stopped_by = Stop(scenario="E04", check="pending-entries-count", reason="other_count")
    store = _PendingEntriesFree


class _BelowBudget(SessionCache):
    def _fits(self, need: int, entries: int = 1) -> bool:
        return super()._fits(need + 1, entries)


class BudgetNeverReached(Mutant):
    """A capture that would fill the budget to the last byte is skipped."""

    mutant_id = "K15.budget-never-reached"
    stopped_by = Stop(scenario="E04", check="one-link-held")
    store = _BelowBudget


class _SkipsPin(SessionCache):
    def _store(
        self, turn: Turn, key: CacheKey, parent: Entry | None, layout: StateLayout, meta: bytes, above: list[CacheKey]
    ) -> str:
        reason = super()._store(turn, key, parent, layout, meta, above)
        if reason != "captured" and parent is not None:
            parent.children += 1
        return reason


class SkipKeepsPin(Mutant):
    """A capture that is skipped leaves the snapshot that it would have rested on pinned."""

    mutant_id = "K15.skip-keeps-pin"
    stopped_by = Stop(scenario="E04", check="parent-not-pinned")
    store = _SkipsPin


class _AbandonKeepsPins(SessionCache):
    def abandon(self, turn: Turn) -> int:
        dropped = len(turn.pending)
        turn.pending.clear()
        return dropped


class AbandonKeepsPins(Mutant):
    """A turn that is given up drops its captures and leaves what they rested on pinned."""

    mutant_id = "K15.abandon-keeps-pins"
    stopped_by = Stop(scenario="E03", check="abandon-unpins")
    store = _AbandonKeepsPins


class _CommitUnpins(SessionCache):
    def commit(self, turn: Turn) -> int:
        for entry in turn.pending.values():
            entry.children = 0
        return super().commit(turn)


class CommitUnpins(Mutant):
    """Snapshots are published without the pins of those that rest on them."""

    mutant_id = "K15.commit-unpins"
    stopped_by = Stop(scenario="E03", check="two-pinned")
    store = _CommitUnpins


class _OwnParents(SessionCache):
    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:
        parent = super().find_parent(turn, prompt, boundary, layout)
        return parent if parent is not None and parent.key in turn.pending else None


class ParentOfOwnTurnOnly(Mutant):
    """A delta rests only on captures of its own turn; the first one of every turn holds all rows again."""

    mutant_id = "K15.parent-of-own-turn-only"
    stopped_by = Stop(scenario="B02", cell={"route": "ar"}, check="four-units")
    store = _OwnParents


class _PublishedParents(SessionCache):
    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:
        parent = super().find_parent(turn, prompt, boundary, layout)
        return parent if parent is not None and parent.key in self._published else None


class ParentPublishedOnly(Mutant):
    """A delta rests only on what was published before its turn; a long first prompt stores whole states."""

    mutant_id = "K15.parent-published-only"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="three-links")
    store = _PublishedParents


class _OneMore(SessionCache):
    def make_room(self, need: int) -> str | None:
        full = not self._fits(need)
        refused = super().make_room(need)
        if full and refused is None:
            self.evict_lru()
        return refused


class EvictsOneMore(Mutant):
    """One snapshot more goes than is needed to make room."""

    mutant_id = "K15.evicts-one-more"
    stopped_by = Stop(scenario="E01", check="one-went")
    store = _OneMore


class _NeverEvicts(SessionCache):
    def make_room(self, need: int) -> str | None:
        return super().make_room(need) if self._fits(need) or need > self.byte_budget else "budget"


class FullStoreTakesNothing(Mutant):
    """A store that is full keeps what it has and takes nothing new."""

    mutant_id = "K15.full-store-takes-nothing"
    stopped_by = Stop(scenario="E01", check="s-stays", reason="other_count")
    store = _NeverEvicts


class _SizeShort(Snapshotter):
    def size(self, layout: StateLayout, starts: Sequence[int], meta: bytes) -> int:
        return super().size(layout, starts, meta) - len(meta)


class SizeWithoutMetadata(Mutant):
    """Room is made for the parts of a snapshot and not for its metadata."""

    mutant_id = "K15.size-without-metadata"
    stopped_by = Stop(scenario="E04", check="nothing-stored")
    snapshotter = _SizeShort


class _Padded(Snapshotter):
    def allocate(self, size: int, device: torch.device) -> Tensor:
        return super().allocate(-(-size // _PAGE) * _PAGE, device)


class ArenaPadded(Mutant):
    """Each snapshot takes whole pages of memory, however small it is."""

    mutant_id = "K15.arena-padded"
    stopped_by = Stop(scenario="E13", check="sizes")
    snapshotter = _Padded


class _Tailed(Snapshotter):
    def allocate(self, size: int, device: torch.device) -> Tensor:
        return super().allocate(size + 4 * PART_ALIGN, device)


class ArenaTailed(Mutant):
    """Each snapshot keeps a little more memory than its parts need, and calls it the gaps between them."""

    mutant_id = "K15.arena-tailed"
    stopped_by = Stop(scenario="A13", cell={"arch": "drafting"}, check="sizes")
    snapshotter = _Tailed


class _PromisesFree(SessionCache):
    @property
    def deferred_bytes(self) -> int:
        return 0


class PromisesFree(Mutant):
    """A save that was put off counts nothing against the budget until it is made."""

    mutant_id = "K15.promises-free"
    stopped_by = Stop(scenario="D07", cell={"route": "ar"}, check="counted")
    store = _PromisesFree


class _ReplacesStrangers(SessionCache):
    def replaceable(self, turn: Turn, ancestors: Sequence[CacheKey]) -> list[Replaceable]:
        own = super().replaceable(turn, ancestors)
        return own + [Replaceable(entry, None) for entry in self._published.values() if entry.key not in ancestors]


class ReplacesStrangers(Mutant):
    """Under pressure a whole copy takes the place of any other, also of another conversation's."""

    mutant_id = "K15.replaces-strangers"
    stopped_by = Stop(scenario="E05", check="nothing-more-went")
    store = _ReplacesStrangers


class _ReplacesNothing(SessionCache):
    def replaceable(self, turn: Turn, ancestors: Sequence[CacheKey]) -> list[Replaceable]:  # noqa: ARG002
        return []


class ReplacesNothing(Mutant):
    """Under pressure the shallowest copy of a conversation stays and all deeper ones are skipped."""

    mutant_id = "K15.replaces-nothing"
    stopped_by = Stop(scenario="E05", check="its-own-prefixes-went")
    store = _ReplacesNothing


class _ReplacesAlways(SessionCache):
    def make_room_above(self, turn: Turn, ancestors: Sequence[CacheKey], need: int) -> str | None:
        for item in self.replaceable(turn, ancestors):
            self.replace(item)
        return super().make_room_above(turn, ancestors, need)


class ReplacesAlways(Mutant):
    """A deeper copy takes the place of the shallower ones also where there is room for all."""

    mutant_id = "K15.replaces-always"
    stopped_by = Stop(scenario="E05", check="none-replaced")
    store = _ReplacesAlways


class _RestsOnOpenTurns(SessionCache):
    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:
        earlier = self.keys(turn, prompt, self.boundaries(turn, prompt, 0, boundary - 1))
        pending = [one.pending[key] for key in reversed(earlier) for one in self._turns if key in one.pending]
        fitting = (one for one in pending if self.snapshotter.lines_up(one.snapshot, layout))
        return next(fitting, None) or super().find_parent(turn, prompt, boundary, layout)


class ParentOfOpenTurn(Mutant):
    """A capture pins what another turn, still open, has captured of the same text, and not what it will rest on."""

    mutant_id = "K15.parent-of-open-turn"
    stopped_by = Stop(scenario="D01", check="other-rests-on-its-own", reason="refused")
    store = _RestsOnOpenTurns
