"""K07: sessions and snapshots share memory that they must not share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import ViewFixed, ViewRows, viewing
from harness.adapters.torch_session import TorchAdapterSession
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SavedSession, SessionHandle
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.models.delta import DeltaState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _FixedViews(ViewFixed):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        return viewing(super().capture(layout, meta, starts), layout)


class SnapshotViews(Mutant):
    """Snapshots refer to the live recurrent state and conv window instead of copying them."""

    mutant_id = "K07.snapshot-views"
    stopped_by = Stop(scenario="A10", check="x-first", part="recurrent", phase="restored")
    snapshotter = _FixedViews


class _RowViews(ViewRows):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        return viewing(super().capture(layout, meta, starts), layout)


class RowViews(Mutant):
    """Snapshots refer to the live rows, since rows are append-only: until the session begins another prompt."""

    mutant_id = "K07.row-views"
    stopped_by = Stop(scenario="B02", cell={"route": "ar"}, check="a-again", part="kv", phase="restored")
    snapshotter = _RowViews


class _OneRecurrent(TorchEngine):
    _shared: SessionBuffers | None = None

    def new_buffers(self) -> SessionBuffers:
        made = super().new_buffers()
        if self._shared is None:
            self._shared = made
        for mine, first in zip(made.layers, self._shared.layers, strict=True):
            if isinstance(mine, DeltaState) and isinstance(first, DeltaState):
                mine.recurrent = first.recurrent
        return made


class SharedRecurrent(Mutant):
    """All sessions of an engine use one buffer for the recurrent state."""

    mutant_id = "K07.shared-recurrent"
    stopped_by = Stop(scenario="A10", check="x-untouched", part="recurrent", phase="seen")
    engine = _OneRecurrent


class _HandleViews(ViewFixed):
    """Brings saved sessions back from live buffers."""


class _SavesViews(TorchSession):
    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        saved = handle.open()
        handle.saved = replace(saved, snapshot=viewing(saved.snapshot, self.layout("session")))
        return handle


class HandleViews(Mutant):
    """A saved session refers to the live buffers; it follows the session that it should have kept."""

    mutant_id = "K07.handle-views"
    stopped_by = Stop(scenario="A05", check="back-1", part="recurrent", phase="seen")
    session = _SavesViews
    snapshotter = _HandleViews


class _RestoreAliases(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        super().restore_parts(saved, layout)
        pairs = self.snapshotter.fixed_pairs(saved.snapshot, layout)
        for part, (_, stored) in zip(layout.fixed, pairs, strict=True):
            state = self.buffers.layers[part.layer]
            if part.family == "recurrent" and isinstance(state, DeltaState):
                state.recurrent = stored.view_as(state.recurrent)


class ForkSharesRecurrent(Mutant):
    """A fork works on the saved recurrent state itself, so the next fork begins where this one got to."""

    mutant_id = "K07.fork-shares-recurrent"
    stopped_by = Stop(scenario="A04", check="leaf-starts-alike", part="recurrent", phase="seen")
    session = _RestoreAliases


class _ArenaReused(Snapshotter):
    def __init__(self) -> None:
        super().__init__()
        self._arenas: dict[int, Tensor] = {}

    def allocate(self, size: int, device: torch.device) -> Tensor:
        return self._arenas.setdefault(size, super().allocate(size, device))


class ArenaReused(Mutant):
    """Captures of one size are staged in one arena, and the last one to use it wins."""

    mutant_id = "K07.arena-reused"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="again", part="kv", phase="restored")
    snapshotter = _ArenaReused


class _StaleKeys(SessionCache):
    def visible(self, key: CacheKey) -> bool:
        return super().visible(key) or (key in self._evicted and self._reused(key) is not None)

    def chain(self, key: CacheKey) -> list[Entry]:
        entry = None if key in self._published else self._reused(key)
        return super().chain(key) if entry is None else [entry]

    def _reused(self, key: CacheKey) -> Entry | None:
        same = [e for e in self._published.values() if e.parent is None and e.key.boundary == key.boundary]
        return max(same, key=lambda entry: entry.stamp, default=None)


class StaleKey(Mutant):
    """The slot of an evicted snapshot is used again while its old key still leads to it."""

    mutant_id = "K07.stale-key"
    stopped_by = Stop(scenario="E01", check="q-went", reason="other_count")
    store = _StaleKeys


class _OneOfAll(TorchEngine):
    _first: SessionBuffers | None = None

    def new_buffers(self) -> SessionBuffers:
        made = super().new_buffers()
        if self._first is None:
            self._first = made
        self.join(made, self._first)
        return made

    def join(self, made: SessionBuffers, first: SessionBuffers) -> None:
        """Let new buffers use memory of the first ones."""
        raise NotImplementedError


class _OneLogits(_OneOfAll):
    def join(self, made: SessionBuffers, first: SessionBuffers) -> None:
        made.logits = first.logits


class SharedLogits(Mutant):
    """All sessions of an engine use one buffer for the pending logits."""

    mutant_id = "K07.shared-logits"
    stopped_by = Stop(scenario="A10", check="x-untouched", part="logits", phase="seen")
    engine = _OneLogits


class _OneGenerator(_OneOfAll):
    def join(self, made: SessionBuffers, first: SessionBuffers) -> None:
        made.rng = first.rng


class SharedGenerator(Mutant):
    """All sessions of an engine draw from one generator."""

    mutant_id = "K07.shared-generator"
    stopped_by = Stop(
        scenario="A09",
        cell={"sampler": "plain"},
        check="another-session-leaves-it",
        part="sampler.rng",
        phase="seen",
    )
    engine = _OneGenerator


class _OneHistory(_OneOfAll):
    def join(self, made: SessionBuffers, first: SessionBuffers) -> None:
        made.history = first.history


class SharedHistory(Mutant):
    """All sessions of an engine write their tokens into one history."""

    mutant_id = "K07.shared-history"
    stopped_by = Stop(scenario="A10", check="x-untouched", part="sampler.history", phase="seen")
    engine = _OneHistory


class _OneRows(_OneOfAll):
    def join(self, made: SessionBuffers, first: SessionBuffers) -> None:
        for mine, shared in zip(made.layers, first.layers, strict=True):
            if isinstance(mine, AttentionState) and isinstance(shared, AttentionState):
                mine.k, mine.v = shared.k, shared.v


class SharedRows(Mutant):
    """All sessions of an engine write keys and values into one buffer, each from its own row count on."""

    mutant_id = "K07.shared-rows"
    stopped_by = Stop(scenario="A10", check="x-untouched", part="kv", phase="seen")
    engine = _OneRows


class _KnowsAll(TorchEngine):
    def __init__(self, *args: Any, **named: Any) -> None:
        self.made: list[SessionBuffers] = []
        super().__init__(*args, **named)

    def new_buffers(self) -> SessionBuffers:
        self.made.append(super().new_buffers())
        return self.made[-1]


class _RestoresOverAll(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        assert isinstance(self.engine, _KnowsAll)  # noqa: S101 - planted together
        for other in self.engine.made:
            for mine, theirs in zip(self.buffers.layers, other.layers, strict=True):
                if isinstance(mine, AttentionState) and isinstance(theirs, AttentionState):
                    theirs.k.put(slice(1), mine.k[:1])


class RestoreOverNeighbour(Mutant):
    """A restore writes its first row into the cells of every session, as if all had one beginning."""

    mutant_id = "K07.restore-over-neighbour"
    stopped_by = Stop(scenario="R06", cell={"arch": "attention"}, check="neighbour-untouched", part="kv", phase="seen")
    engine = _KnowsAll
    session = _RestoresOverAll


class _Pages(TorchEngine):
    _first_forks: dict[int, SessionBuffers] | None = None

    def first_fork(self, saved: SavedSession, own: SessionBuffers) -> SessionBuffers:
        """Buffers of the session that a saved one was put back into first."""
        self._first_forks = self._first_forks or {}
        return self._first_forks.setdefault(id(saved.snapshot), own)


class _ForksShareRows(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        super().restore_parts(saved, layout)
        if not isinstance(self.engine, _Pages):
            return
        first = self.engine.first_fork(saved, self.buffers)
        for mine, other in zip(self.buffers.layers, first.layers, strict=True):
            if isinstance(mine, AttentionState) and isinstance(other, AttentionState):
                mine.k, mine.v = other.k, other.v


class ForksShareRows(Mutant):
    """Forks of one saved session go on writing into one page, each behind its own last row."""

    mutant_id = "K07.forks-share-rows"
    stopped_by = Stop(scenario="A06", cell={"arch": "hybrid"}, check="fork-apart", part="recurrent", phase="end")
    session = _ForksShareRows
    engine = _Pages


_SLOTS = 3


class _SlotsUsedAgain(TorchEngine):
    slots = _SLOTS
    _opened: list[SessionBuffers] | None = None

    def new_buffers(self) -> SessionBuffers:
        made = super().new_buffers()
        self._opened = [*(self._opened or ()), made]
        first = self._opened[(len(self._opened) - 1) % self.slots]
        for mine, other in zip(made.layers, first.layers, strict=True):
            if isinstance(mine, DeltaState) and isinstance(other, DeltaState):
                mine.recurrent = other.recurrent
        return made


class SlotUsedAgain(Mutant):
    """There are slots for the recurrent states of three sessions; a fourth one gets the first slot, in use or not."""

    mutant_id = "K07.slot-used-again"
    stopped_by = Stop(scenario="A10", check="p-beside-five", part="recurrent", phase="seen")
    engine = _SlotsUsedAgain


class _SlotsWrap(_SlotsUsedAgain):
    slots = 16


class SlotsWrap(Mutant):
    """There are slots for the recurrent states of sixteen sessions; the seventeenth gets the first one."""

    mutant_id = "K07.slots-wrap"
    stopped_by = Stop(scenario="A65", cell={"kind": "hybrid"}, check="kept-1", part="recurrent", phase="seen")
    engine = _SlotsWrap


class _HandleNamesAgain(TorchAdapterSession):
    def snapshot(self) -> str:
        name, handles = super().snapshot(), self._engine.__dict__["_handles"]
        place = f"h{(int(name[1:]) - 1) % _SLOTS + 1}"
        handles[place] = handles.pop(name)
        return place


class HandleNameAgain(Mutant):
    """Saved sessions lie in three places; the fourth takes the place, and the name, of the first."""

    mutant_id = "K07.handle-name-again"
    stopped_by = Stop(scenario="A05", check="several-1", part="meta", phase="restored")
    adapter_session = _HandleNamesAgain
