"""K05: an abandoned turn, a capture or a restore leaves traces where it must not."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import recurrent_states
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Turn
from harness.torch_engine.errors import MissingError
from harness.torch_engine.handles import SavedSession, SessionHandle
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.session import TorchSession
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
    cache = _PendingVisible


class _AbandonPublishes(SessionCache):
    def abandon(self, turn: Turn) -> int:
        return self.commit(turn)


class AbandonPublishes(Mutant):
    """A turn that is given up publishes its snapshots like one that ended well."""

    mutant_id = "K05.abandon-publishes"
    stopped_by = Stop(scenario="D02", check="failed-not-offered", reason="other_count")
    cache = _AbandonPublishes


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
