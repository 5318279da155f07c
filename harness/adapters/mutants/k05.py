"""K05: an abandoned turn, a capture or a restore leaves traces where it must not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import Continues, ResetKeeps, recurrent_states
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Turn
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.errors import MissingError
from harness.torch_engine.handles import SavedSession, SessionHandle
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.state import StateLayout


class _PendingVisible(SessionCache):
    def visible(self, key: CacheKey) -> bool:
        return self._anywhere(key) is not None

    def chain(self, key: CacheKey) -> list[Entry]:
        links: list[Entry] = []
        at: CacheKey | None = key
        while at is not None:
            entry = self._anywhere(at)
            if entry is None:
                raise MissingError(f"no link at {at.boundary} tokens")
            links.insert(0, entry)
            at = entry.parent
        return links

    def _anywhere(self, key: CacheKey) -> Entry | None:
        shelves = [self._published, *(turn.pending for turn in self._turns)]
        return next((shelf[key] for shelf in shelves if key in shelf), None)


class PendingVisible(Mutant):
    """Snapshots of a turn that is still open are offered to other sessions."""

    mutant_id = "K05.pending-visible"
    stopped_by = Stop(scenario="D01", check="open-not-offered", reason="other_count")
    store = _PendingVisible


class _AbandonPublishes(SessionCache):
    def abandon(self, turn: Turn) -> int:
        return self.commit(turn)


class AbandonPublishes(Mutant):
    """A turn that is given up publishes its snapshots like one that ended well."""

    mutant_id = "K05.abandon-publishes"
    stopped_by = Stop(scenario="D02", check="failed-not-offered", reason="other_count")
    store = _AbandonPublishes


def _narrow(session: TorchSession) -> None:
    """Bring the live recurrent states to half precision and back."""
    for state in recurrent_states(session):
        state.recurrent.copy_(state.recurrent.bfloat16())


class _CaptureNarrows(TorchSession):
    def at_boundary(self, position: int) -> None:
        super().at_boundary(position)
        if self._armed and position < len(self._prompt):
            _narrow(self)


class CaptureTouchesLive(Mutant):
    """A capture at a boundary re-types the live recurrent state that it reads."""

    mutant_id = "K05.capture-touches-live"
    stopped_by = Stop(
        scenario="A07", cell={"arch": "hybrid"}, check="captured-prefill", part="recurrent", phase="prefilled"
    )
    session = _CaptureNarrows


class _SnapshotNarrows(TorchSession):
    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        _narrow(self)
        return handle


class SnapshotTouchesLive(Mutant):
    """Saving a session re-types the live recurrent state that it reads."""

    mutant_id = "K05.snapshot-touches-live"
    stopped_by = Stop(
        scenario="A07", cell={"arch": "recurrent"}, check="untouched-once", part="recurrent", phase="seen"
    )
    session = _SnapshotNarrows


class _RestoreSwaps(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        pairs = self.snapshotter.fixed_pairs(saved.snapshot, layout)
        before = [live.clone() for live, _ in pairs]
        super().restore_parts(saved, layout)
        self.snapshotter.copy([(stored, was) for (_, stored), was in zip(pairs, before, strict=True)])


class RestoreConsumesHandle(Mutant):
    """A restore swaps buffers with the saved session, so that what it displaced is what comes back next time."""

    mutant_id = "K05.restore-consumes-handle"
    stopped_by = Stop(scenario="A05", check="back-2", part="recurrent", phase="seen")
    session = _RestoreSwaps


class _KeepsGenerator(ResetKeeps):
    kept = "sampler.rng"


class ResetKeepsGenerator(Mutant):
    """A new prompt in a used session draws on from where the prompt before stopped."""

    mutant_id = "K05.reset-keeps-generator"
    stopped_by = Stop(
        scenario="A09", cell={"sampler": "plain"}, check="away-from-its-own-seed", part="meta", phase="prefilled"
    )
    buffers = _KeepsGenerator


class _KeepsLogits(ResetKeeps):
    kept = "logits"


class ResetKeepsLogits(Mutant):
    """A session that was reset still has the logits of its last prompt."""

    mutant_id = "K05.reset-keeps-logits"
    stopped_by = Stop(scenario="B07", cell={"damage": "gap"}, check="reset", part="logits", phase="seen")
    buffers = _KeepsLogits


class _LiveCaptures(Continuation):
    def begin_live(self, prompt: npt.NDArray[np.int32]) -> int:
        found = super().begin_live(prompt)
        self.session.arm(prompt, use_cache=True)
        return found


class _LiveArmed(Continues):
    continuation = _LiveCaptures


class LiveCaptures(Mutant):
    """A turn that goes on from live state is stored like one that began from nothing."""

    mutant_id = "K05.live-captures"
    stopped_by = Stop(scenario="D04", check="captures-nothing", reason="other_count")
    session = _LiveArmed


class _ResidentOverReset(Continues):
    def reset(self) -> None:
        kept = self.continuing.resident if not self._prompt.size or self.position >= self._prompt.size else None
        super().reset()
        self.continuing.resident = kept

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        tokens = np.asarray(prompt, dtype=np.int32)
        if self.continuing.resident is not None and not self.continuing.resident_start(tokens):
            self.continuing.resident = None
        return super().begin(prompt, use_cache)


class ResidentOutlivesReset(Mutant):
    """A reset leaves the resident prefix on offer, though it has declared its rows invalid."""

    mutant_id = "K05.resident-outlives-reset"
    stopped_by = Stop(scenario="D06", check="dropped-by-reset", reason="other_count")
    session = _ResidentOverReset


class _ResidentOverRows(Continues):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        kept = self.continuing.resident
        cached = super().begin(prompt, use_cache)
        self.continuing.resident = self.continuing.resident or kept
        return cached


class ResidentOutlivesRows(Mutant):
    """A prompt that leaves no resident prefix of its own leaves the one before on offer, over its own rows."""

    mutant_id = "K05.resident-outlives-rows"
    stopped_by = Stop(scenario="D06", check="dropped-by-uncached", reason="other_count")
    session = _ResidentOverRows


class _MadeTooLate(Continuation):
    def leave(self) -> None:
        s = self.session
        if s.turn.deferred is not None and self.resident is not None:
            s.buffers.layout("prefix").rows[0].tensor.zero_()
        super().leave()


class _MakesTooLate(Continues):
    continuation = _MadeTooLate


class DeferredMadeTooLate(Mutant):
    """A save that was put off is made when its rows have been overwritten."""

    mutant_id = "K05.deferred-made-too-late"
    stopped_by = Stop(scenario="D07", cell={"route": "ar"}, check="exact", part="kv", phase="restored")
    session = _MakesTooLate


class _ExportSettles(Imager):
    def export(self, session: TorchSession, capacity: int) -> bytearray:
        made = super().export(session, capacity)
        for state in recurrent_states(session):
            state.recurrent.copy_(state.recurrent.bfloat16())
        return made


class ExportTouchesLive(Mutant):
    """An export re-types the live recurrent state that it reads."""

    mutant_id = "K05.export-touches-live"
    stopped_by = Stop(
        scenario="A17",
        cell={"arch": "hybrid", "sampler": "greedy"},
        check="export-changes-nothing",
        part="recurrent",
        phase="seen",
    )
    imager = _ExportSettles


class _TakesOrphans(SessionCache):
    def admissible(self, entry: Entry) -> bool:  # noqa: ARG002 - that is the fault
        return True


class OrphansPublished(Mutant):
    """A capture is published though the snapshot that it rests on is gone."""

    mutant_id = "K05.orphans-published"
    stopped_by = Stop(scenario="B09", check="two-refused")
    store = _TakesOrphans


class _ImportsInDecode(TorchSession):
    def idle(self, what: str) -> None:
        if what != "adopt" or self.doing != "decode":
            super().idle(what)


class ImportInDecode(Mutant):
    """An image may be taken in while a token is being forwarded: the call in progress goes on in another state."""

    mutant_id = "K05.import-in-decode"
    stopped_by = Stop(scenario="D10", cell={"route": "ar"}, check="decode-import", reason="not_refused")
    session = _ImportsInDecode


class _CommitsAll(SessionCache):
    def commit(self, turn: Turn) -> int:
        return sum(super(_CommitsAll, self).commit(one) for one in (turn, *(t for t in self._turns if t is not turn)))


class CommitPublishesAll(Mutant):
    """A turn that ends well publishes what all open turns have captured so far."""

    mutant_id = "K05.commit-publishes-all"
    stopped_by = Stop(scenario="D01", check="others-commit", reason="other_count")
    store = _CommitsAll


class _EvictsOpenTurns(SessionCache):
    def evict_lru(self) -> CacheKey | None:
        for turn in self._turns:
            self.abandon(turn)
        return super().evict_lru()


class EvictDropsPending(Mutant):
    """An eviction takes the captures of open turns along, which are not published yet and nobody's to evict."""

    mutant_id = "K05.evict-drops-pending"
    stopped_by = Stop(scenario="D01", check="open-turn-not-evicted", reason="other_count")
    store = _EvictsOpenTurns


class _ResizeDropsOpenTurns(SessionCache):
    def resize(self, *, byte_budget: int, entry_budget: int) -> int:
        for turn in self._turns:
            self.abandon(turn)
        return super().resize(byte_budget=byte_budget, entry_budget=entry_budget)


class ResizeDropsPending(Mutant):
    """Another budget, a larger one too, begins with nothing pending: captures of open turns are gone."""

    mutant_id = "K05.resize-drops-pending"
    stopped_by = Stop(scenario="D01", check="open-turn-not-evicted", reason="other_count")
    store = _ResizeDropsOpenTurns
