"""K15: memory beside the published snapshots, what must stay, and a budget of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.arenas import Arenas
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Turn
from harness.torch_engine.cache_whole import Replaceable
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

_ALL = 1 << 40


class _NoSources(SessionCache):
    def sources(self, *, other_than: Turn | None = None) -> set[CacheKey]:  # noqa: ARG002 - that is the fault
        return set()


class EvictsSource(Mutant):
    """What an open turn was restored from is evicted like anything else."""

    mutant_id = "K15.evicts-source"
    stopped_by = Stop(scenario="E06", cell={"policy": "delta"}, check="no-victim-no-capture", reason="other_count")
    store = _NoSources


class _NoProtection(SessionCache):
    def protects(self, key: CacheKey) -> bool:  # noqa: ARG002 - that is the fault
        return False


class EvictsProtected(Mutant):
    """What is protected is evicted like anything else."""

    mutant_id = "K15.evicts-protected"
    stopped_by = Stop(scenario="E06", cell={"policy": "whole"}, check="protected-still-there", reason="other_count")
    store = _NoProtection


class _DeepestFirst(SessionCache):
    def replaceable(self, turn: Turn, ancestors: Sequence[CacheKey]) -> list[Replaceable]:
        return super().replaceable(turn, ancestors)[::-1]


class ReplacesDeepest(Mutant):
    """A conversation that grows gives up the copy that it goes on from and keeps the shallowest."""

    mutant_id = "K15.replaces-deepest"
    stopped_by = Stop(scenario="E06", cell={"policy": "whole"}, check="the-shallowest-went", reason="other_count")
    store = _DeepestFirst


class _CopiesFirst(SessionCache):
    def make_room(self, need: int) -> str | None:
        early = self.snapshotter.allocate(need, self.snapshotter.arenas_device)  # type: ignore[attr-defined]
        refused = super().make_room(need)
        del early
        return refused


class _Sizing(Snapshotter):
    def size(self, layout: StateLayout, starts: tuple[int, ...], meta: bytes) -> int:  # type: ignore[override]
        self.arenas_device = self.device(layout)
        return super().size(layout, starts, meta)


class CopiesBeforeRoom(Mutant):
    """A capture takes its memory before room is made for it, so more is held than the budget allows."""

    mutant_id = "K15.copies-before-room"
    stopped_by = Stop(scenario="E07", check="never-above", reason="too_large")
    store = _CopiesFirst
    snapshotter = _Sizing


class _SparesFree(Arenas):
    @property
    def spare_bytes(self) -> int:
        return 0

    def trim(self, limit: int, wanted: int = -1) -> None:
        """Spares are free, so none need go."""


class _WithFreeSpares(Snapshotter):
    def __init__(self) -> None:
        super().__init__()
        self.arenas = _SparesFree()


class SparesUncounted(Mutant):
    """Displaced memory that is kept to be used again counts nothing."""

    mutant_id = "K15.spares-uncounted"
    stopped_by = Stop(scenario="E07", check="spare-adds-up", reason="bytes_unaccounted")
    snapshotter = _WithFreeSpares


class _KeptFree(SessionCache):
    def memory_counters(self) -> dict[str, int]:
        return {**super().memory_counters(), "kept_bytes": 0}


class KeptUncounted(Mutant):
    """Copies that sessions keep beside the store are held and not told."""

    mutant_id = "K15.kept-uncounted"
    stopped_by = Stop(scenario="E07", check="kept-adds-up", reason="bytes_unaccounted")
    store = _KeptFree


class _Forgets(SessionCache):
    def retire(self, snapshot: Snapshot) -> None:
        self.__dict__.setdefault("_attic", []).append(snapshot)


class DisplacedKept(Mutant):
    """The memory of what is evicted stays held and never comes back."""

    mutant_id = "K15.displaced-kept"
    stopped_by = Stop(scenario="E10", check="evicted-returns", reason="bytes_unaccounted")
    store = _Forgets


class _KeepsDuplicates(SessionCache):
    def commit(self, turn: Turn) -> int:
        attic = self.__dict__.setdefault("_attic", [])
        attic += [entry.snapshot for entry in turn.pending.values() if entry.key in self._published]
        self._leaking = bool(attic)
        try:
            return super().commit(turn)
        finally:
            self._leaking = False

    def retire(self, snapshot: Snapshot) -> None:
        if not getattr(self, "_leaking", False):
            super().retire(snapshot)


class DuplicateKept(Mutant):
    """A capture that another turn has published meanwhile is dropped, and its memory is not."""

    mutant_id = "K15.duplicate-kept"
    stopped_by = Stop(scenario="E10", check="duplicate-returns", reason="bytes_unaccounted")
    store = _KeepsDuplicates


class _KeepsSpares(Arenas):
    def drop_one(self) -> bool:
        return False

    def trim(self, limit: int, wanted: int = -1) -> None:
        if limit >= 0:
            super().trim(limit, wanted)


class _WithKeptSpares(Snapshotter):
    def __init__(self) -> None:
        super().__init__()
        self.arenas = _KeepsSpares()


class SparesOutlivePressure(Mutant):
    """Displaced memory is kept to be used again also where memory is asked for."""

    mutant_id = "K15.spares-outlive-pressure"
    stopped_by = Stop(scenario="E10", check="all-of-it-returns", reason="other_count")
    snapshotter = _WithKeptSpares


class _Unlimited(TorchEngine):
    def __init__(self, options: EngineOptions | None = None, **named: object) -> None:
        super().__init__(options, **named)  # type: ignore[arg-type] # handed on as it came
        cache = self.cache
        cache.byte_budget, cache.entry_budget = cache.byte_budget or _ALL, cache.entry_budget or _ALL

    def identity(self) -> dict[str, str | int]:
        asked = {"cache_bytes": self.options.cache_bytes, "cache_entries": self.options.cache_entries}
        return super().identity() | asked


class ZeroIsUnlimited(Mutant):
    """A budget of 0 is read as no limit."""

    mutant_id = "K15.zero-is-unlimited"
    stopped_by = Stop(scenario="E17", cell={"budget": "bytes", "policy": "delta"}, check="nothing-captured")
    engine = _Unlimited


class _ArmedAnyway(TorchSession):
    def arm(self, tokens: npt.NDArray[np.int32], *, use_cache: bool) -> None:
        super().arm(tokens, use_cache=use_cache)
        self._armed = use_cache


class ZeroKeepsResident(Mutant):
    """With a budget of nothing sessions still keep the copy that takes them back to their last cut."""

    mutant_id = "K15.zero-keeps-resident"
    stopped_by = Stop(scenario="E17", cell={"budget": "entries", "policy": "delta"}, check="no-memory")
    session = _ArmedAnyway


class _TrimsUnderPressure(SessionCache):
    def trim(self, need: int = 0, wanted: int = -1) -> None:
        if need:
            super().trim(need, wanted)


class ZeroKeepsSpares(Mutant):
    """A budget that is set to nothing evicts what is published and keeps its memory."""

    mutant_id = "K15.zero-keeps-spares"
    stopped_by = Stop(scenario="E17", cell={"budget": "bytes", "policy": "whole"}, check="all-of-it-goes")
    store = _TrimsUnderPressure


class _SizeWithout(Snapshotter):
    family: ClassVar[str] = ""
    """Whose fixed parts are left out where room is made, and copied all the same."""

    def size(self, layout: StateLayout, starts: Sequence[int], meta: bytes) -> int:
        left_out = sum(part.nbytes for part in layout.fixed if part.family == self.family)
        return super().size(layout, starts, meta) - left_out


class _SizeWithoutDraft(_SizeWithout):
    family = "draft"


class SizeWithoutDraft(Mutant):
    """Room is made for a snapshot without what its draft head has beside its rows."""

    mutant_id = "K15.size-without-draft"
    stopped_by = Stop(scenario="E61", cell={"kind": "drafting"}, check="one-stays")
    snapshotter = _SizeWithoutDraft


class _SizeWithoutWindow(_SizeWithout):
    family = "window"


class SizeWithoutWindow(Mutant):
    """Room is made for the rows of a snapshot and not for its windows."""

    mutant_id = "K15.size-without-window"
    stopped_by = Stop(scenario="E61", cell={"kind": "sliding"}, check="one-stays")
    snapshotter = _SizeWithoutWindow
