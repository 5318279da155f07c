"""Faults in saving sessions that are not at the end of their first turn: of several kinds, for A67 to A69 and D13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SavedSession, SessionHandle
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.metadata import Metadata
from harness.torch_engine.sampling import Sampler, SamplerState, Sampling
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot
from harness.torch_engine.state import StateLayout, bytes_view


class _SavesShort(TorchSession):
    """Saves the last row of keys as zeros; a subclass says when."""

    def short(self) -> bool:
        """Whether it does now."""
        raise NotImplementedError

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        span = handle.open().snapshot.segments[0]
        if self.short() and span.nbytes:
            handle.open().snapshot.held(span.name)[-span.row_bytes :].zero_()
        return handle


class _ShortInPrompt(_SavesShort):
    def short(self) -> bool:
        return 0 < self.position < len(self.prompt)


class SavedInPromptShort(Mutant):
    """A session that is saved in the middle of its prompt lacks the last row that was forwarded."""

    mutant_id = "K02.saved-in-prompt-short"
    stopped_by = Stop(scenario="A67", cell={"arch": "hybrid"}, check="in-prompt", part="kv", phase="seen")
    session = _ShortInPrompt


class _ShortAfterTurn(_SavesShort):
    def short(self) -> bool:
        return self._extended


class SavedAfterTurnShort(Mutant):
    """A session that is saved after its second turn lacks the last row: rows are counted from its first prompt on."""

    mutant_id = "K02.saved-after-turn-short"
    stopped_by = Stop(scenario="A67", cell={"arch": "hybrid"}, check="after-turn", part="recurrent", phase="end")
    session = _ShortAfterTurn


class _ShortAgain(_SavesShort):
    came_back = False

    def short(self) -> bool:
        return self.came_back

    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        self.came_back = True

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        self.came_back = False
        return super().begin(prompt, use_cache)


class SavedAgainShort(Mutant):
    """A session that came back and is saved again lacks the last row."""

    mutant_id = "K02.saved-again-short"
    stopped_by = Stop(scenario="A67", cell={"arch": "hybrid"}, check="again", part="recurrent", phase="end")
    session = _ShortAgain


class _ShortAfterHit(_SavesShort):
    hit = False

    def short(self) -> bool:
        return self.hit

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        cached = super().begin(prompt, use_cache)
        self.hit = cached > 0
        return cached


class SavedAfterHitShort(Mutant):
    """A session that was served from the store and is saved then lacks the last row."""

    mutant_id = "K02.saved-after-hit-short"
    stopped_by = Stop(scenario="A68", check="hit", part="recurrent", phase="end")
    session = _ShortAfterHit


class _TurnShort(TorchSession):
    hit = False

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        cached = super().begin(prompt, use_cache)
        self.hit = cached > 0
        return cached

    def extend(self, tokens: Sequence[int]) -> None:
        super().extend(tokens)
        stream = self.layout("prefix").rows[0]
        if self.hit and stream.rows:
            bytes_view(stream.tensor[stream.rows - 1 : stream.rows]).zero_()


class TurnAfterHitShort(Mutant):
    """The turn after a hit leaves the last row of its keys unwritten."""

    mutant_id = "K02.turn-after-hit-short"
    stopped_by = Stop(scenario="A68", check="turn", part="kv", phase="prefilled")
    session = _TurnShort


class _BackTwice(TorchSession):
    back = False

    def become(self, meta: Metadata, prompt: npt.NDArray[np.int32]) -> None:
        super().become(meta, prompt)
        self.back = True

    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        super().restore_parts(saved, layout)
        for part in layout.fixed if self.back else ():
            if part.family == "window":
                part.tensor.copy_(torch.roll(part.tensor, 1, 0))

    def settle(self) -> None:
        self.back = False
        super().settle()

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        self.back = False
        return super().begin(prompt, use_cache)


class RingBackTwice(Mutant):
    """Put back twice with nothing forwarded in between, a window is turned by one row."""

    mutant_id = "K09.ring-back-twice"
    stopped_by = Stop(scenario="A67", cell={"arch": "sliding"}, check="twice-in", part="window", phase="restored")
    session = _BackTwice


class _Family(TorchEngine):
    """Knows which session each fork comes from."""

    saved: Sequence[tuple[SessionHandle, _Trunk]] = ()
    forks: Sequence[tuple[_Trunk, _Trunk]] = ()


class _Trunk(TorchSession):
    """Its forks have its first row of keys, as long as it does; a subclass says when it goes."""

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        if isinstance(self.engine, _Family):
            self.engine.saved = (*self.engine.saved, (handle, self))
        return handle

    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        if isinstance(self.engine, _Family):
            mine = [(trunk, self) for saved, trunk in self.engine.saved if saved is handle and trunk is not self]
            self.engine.forks = (*self.engine.forks, *mine)

    def gone(self) -> None:
        """Its rows are somebody else's from here on."""
        if isinstance(self.engine, _Family):
            for trunk, fork in self.engine.forks:
                stream = fork.layout("prefix").rows[0]
                if trunk is self and stream.rows:
                    bytes_view(stream.tensor[:1]).zero_()
            self.engine.forks = [pair for pair in self.engine.forks if self not in pair]


class _TrunkCloses(_Trunk):
    def close(self) -> None:
        self.gone()
        super().close()


class _TrunkBegins(_Trunk):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        self.gone()
        return super().begin(prompt, use_cache)


class ForkOfClosed(Mutant):
    """A fork shares its first page with the session that it came from, which frees it when it is closed."""

    mutant_id = "K07.fork-of-closed"
    stopped_by = Stop(scenario="A67", cell={"arch": "hybrid"}, check="closed-stands", part="kv", phase="seen")
    engine = _Family
    session = _TrunkCloses


class ForkOfMovedOn(Mutant):
    """A fork shares its first page with the session that it came from, which frees it when it begins something else."""

    mutant_id = "K07.fork-of-moved-on"
    stopped_by = Stop(scenario="A67", cell={"arch": "hybrid"}, check="moved-on-stands", part="kv", phase="seen")
    engine = _Family
    session = _TrunkBegins


class _Lends(SessionCache):
    """What is evicted takes its first row along from the saved sessions that were served from it, or made it."""

    lent: Sequence[tuple[CacheKey, Snapshot]] = ()

    def lend(self, keys: Sequence[CacheKey], snapshot: Snapshot) -> None:
        """A saved session has rows of these entries."""
        self.lent = (*self.lent, *((key, snapshot) for key in keys if self.visible(key)))

    def _evict(self, victim: Entry | None) -> CacheKey | None:
        key = super()._evict(victim)
        for lent, snapshot in self.lent:
            if lent == key:
                span = snapshot.segments[0]
                snapshot.held(span.name)[: span.row_bytes].zero_()
        return key


class _Borrows(TorchSession):
    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        cuts = [cut for cut in self.boundaries() if cut < len(self.prompt)]
        if isinstance(self.cache, _Lends) and cuts:
            self.cache.lend(self.cache.keys(self.turn, self.prompt, tuple(cuts)), handle.open().snapshot)
        return handle


class SavedSharesWithStore(Mutant):
    """A saved session shares pages with the store and does not hold them there: an eviction takes them."""

    mutant_id = "K07.saved-shares-with-store"
    stopped_by = Stop(scenario="A68", check="saved-stays", part="kv", phase="restored")
    store = _Lends
    session = _Borrows


class _LendsItsTurn(TorchSession):
    lent: Sequence[Snapshot] = ()

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        if self.turn.pending:
            self.lent = (*self.lent, handle.open().snapshot)
        return handle

    def abandon(self) -> int:
        dropped = super().abandon()
        if dropped:
            for snapshot in self.lent:
                span = snapshot.segments[0]
                snapshot.held(span.name)[: span.row_bytes].zero_()
            self.lent = ()
        return dropped


class SavedSharesWithTurn(Mutant):
    """A session that is saved in an open turn shares pages with the captures of that turn, and loses them with it."""

    mutant_id = "K07.saved-shares-with-turn"
    stopped_by = Stop(scenario="A68", check="given-up", part="kv", phase="seen")
    session = _LendsItsTurn


class _StaysResident(TorchSession):
    def become(self, meta: Metadata, prompt: npt.NDArray[np.int32]) -> None:
        resident = self.continuing.resident
        super().become(meta, prompt)
        self.continuing.resident = resident


class ResidentOutlivesRestore(Mutant):
    """A restore leaves the resident prefix on offer, over the rows that it has brought."""

    mutant_id = "K05.resident-outlives-restore"
    stopped_by = Stop(scenario="D13", check="dropped-by-a-restore", reason="other_count")
    session = _StaysResident


class _KeepsSeeded(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        live = self.buffers.rng.clone()
        super().restore_parts(saved, layout)
        if not SamplerState(self.buffers.rng).seeded:
            self.buffers.rng.copy_(live)


class UnseededNotRestored(Mutant):
    """A generator that had not begun is no state: after a restore the one that is there draws on."""

    mutant_id = "K05.unseeded-not-restored"
    stopped_by = Stop(scenario="A69", check="not-begun-in", part="meta", phase="restored")
    session = _KeepsSeeded


class _BySeed(TorchEngine):
    """Keeps generators by their seeds."""

    streams: Mapping[int, Tensor] = {}


class _DrawsBySeed(TorchSession):
    def sample(self, sampler: Sampler) -> int:
        if not isinstance(sampler, Sampling) or not isinstance(self.engine, _BySeed):
            return super().sample(sampler)
        rng, streams = self.buffers.rng, self.engine.streams
        if SamplerState(rng).seeded and sampler.seed in streams:
            rng.copy_(streams[sampler.seed])
        token = super().sample(sampler)
        self.engine.streams = {**streams, sampler.seed: rng.clone()}
        return token


class GeneratorBySeed(Mutant):
    """Sessions that draw with one seed go on in one stream, whoever drew last."""

    mutant_id = "K07.generator-by-seed"
    stopped_by = Stop(scenario="A69", check="one-seed", part="recurrent", phase="end")
    engine = _BySeed
    session = _DrawsBySeed
