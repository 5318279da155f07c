"""K05: what was refused, cancelled or broke off leaves traces where it must not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import recurrent_states
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import Begun
from harness.errors import RefusedError
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import BudgetError, SessionStateError, TorchEngineError, TransferError
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.image import ImageError
from harness.torch_engine.image_wire import flat
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.state import bytes_view

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _CopiesThenChecks(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        saved = handle.open()
        self.snapshotter.copy(self.snapshotter.fixed_pairs(saved.snapshot, self.layout("session")))
        super().restore(handle)


class RefusalLeavesState(Mutant):
    """A saved session is checked after its first parts have been copied."""

    mutant_id = "K05.refusal-leaves-state"
    stopped_by = Stop(scenario="F01", check="foreign-untouched", part="recurrent", phase="seen")
    session = _CopiesThenChecks


class _KeepsAfterRefusal(TorchSession):
    _refused = False

    def restore(self, handle: SessionHandle) -> None:
        before = [one.recurrent.clone() for one in recurrent_states(self)]
        super().restore(handle)
        for one, old in zip(recurrent_states(self), before if self._refused else (), strict=False):
            one.recurrent.copy_(old)
        self._refused = False

    def refused(self) -> None:
        """Remember that a restore was refused."""
        self._refused = True


class _TellsOfRefusals(TorchAdapterSession):
    def restore(self, handle: str) -> Begun:
        try:
            return super().restore(handle)
        except RefusedError:
            if isinstance(self._session, _KeepsAfterRefusal):
                self._session.refused()
            raise


class RefusalSpoilsNext(Mutant):
    """A restore that is refused leaves the session as it was; the next one leaves the recurrent state so too."""

    mutant_id = "K05.refusal-spoils-next"
    stopped_by = Stop(scenario="F07", check="afterwards-goes-on", part="recurrent")
    session = _KeepsAfterRefusal
    adapter_session = _TellsOfRefusals


class _CutsThenRefuses(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        saved = handle.open()
        layout = self.layout("session")
        for stream, segment in zip(layout.rows, saved.snapshot.segments, strict=True):
            count = min(stream.rows, segment.stop)
            stored = saved.snapshot.held(segment.name)[: count * segment.row_bytes]
            bytes_view(stream.tensor[:count]).copy_(stored)
        super().restore(handle)


class RefusalLeavesRows(Mutant):
    """Rows are copied as far as there is room before it is seen that there is not enough."""

    mutant_id = "K05.refusal-leaves-rows"
    stopped_by = Stop(scenario="F03", check="untouched", part="kv", phase="seen")
    session = _CutsThenRefuses


class _HitLeavesState(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        try:
            return super().begin(prompt, use_cache)
        except TorchEngineError:
            plan = self.cache.plan(self.turn, np.asarray(prompt, dtype=np.int32))
            if plan.key is not None:
                leaf = self.cache.chain(plan.key)[-1].snapshot
                self.snapshotter.copy(self.snapshotter.fixed_pairs(leaf, self.layout("prefix")))
            raise


class RefusedHitLeavesState(Mutant):
    """A hit whose chain is refused half way leaves the recurrent state of that chain in the session."""

    mutant_id = "K05.refused-hit-leaves-state"
    stopped_by = Stop(scenario="B07", cell={"damage": "gap"}, check="reset", part="recurrent", phase="seen")
    session = _HitLeavesState


class _ResetsFirst(TorchAdapterSession):
    def restore(self, handle: str) -> Begun:
        try:
            return super().restore(handle)
        except RefusedError:
            self.reset()
            raise


class MissingHandleResets(Mutant):
    """Asked for a saved session that does not exist, an engine refuses and clears the live one."""

    mutant_id = "K05.missing-handle-resets"
    stopped_by = Stop(scenario="F07", check="after-handle", part="meta", phase="seen")
    adapter_session = _ResetsFirst


class _QueryAborts(SessionCache):
    def make_room(self, need: int) -> str | None:
        refused = super().make_room(need)
        if refused == "memory_query_failed":
            raise BudgetError("capture: expected to know the free memory, found a query that failed")
        return refused


class FailedQueryAborts(Mutant):
    """A capture for which free memory cannot be told ends the prompt that it belongs to."""

    mutant_id = "K05.failed-query-aborts"
    stopped_by = Stop(scenario="E08", cell={"memory": "fails"}, check="prefill-goes-on", reason="refused")
    store = _QueryAborts


class _HalfTransferred(TorchSession):
    @contextlib.contextmanager
    def transferring(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TransferError(f"copy: {error}") from error


class TransferLeavesHalf(Mutant):
    """A copy that breaks off leaves what it had copied in the session."""

    mutant_id = "K05.transfer-leaves-half"
    stopped_by = Stop(scenario="F13", check="reset-after-image", part="meta", phase="seen")
    session = _HalfTransferred


class _ReadsThenChecks(Imager):
    def bring(self, session: TorchSession, data: Buffer) -> int:
        try:
            return super().bring(session, data)
        except ImageError:
            state = recurrent_states(session)[0].recurrent
            tail = torch.frombuffer(bytearray(flat(data)[-state.nbytes :]), dtype=torch.uint8)
            bytes_view(state).flatten()[: tail.numel()].copy_(tail)
            raise


class ImageReadThenChecked(Mutant):
    """An image is read into the session before its digests are checked."""

    mutant_id = "K05.image-read-then-checked"
    stopped_by = Stop(scenario="F04", cell={"damage": "middle"}, check="untouched", part="recurrent", phase="seen")
    imager = _ReadsThenChecks


class _EmptyKeeps(Imager):
    def bring(self, session: TorchSession, data: Buffer) -> int:
        before = session.buffers.logits.clone()
        copied = super().bring(session, data)
        if session.position == 0:
            session.buffers.logits.copy_(before)
        return copied


class EmptyImageKeepsLogits(Mutant):
    """An empty image leaves the logits of the conversation before in the session."""

    mutant_id = "K05.empty-image-keeps-logits"
    stopped_by = Stop(scenario="A11", check="emptied-like-fresh", part="logits", phase="seen")
    imager = _EmptyKeeps


class _BusyAbandons(TorchSession):
    def idle(self, what: str) -> None:
        try:
            super().idle(what)
        except SessionStateError:
            if self.doing:
                self.abandon()
            raise


class BusyRefusalDropsCaptures(Mutant):
    """Turning a request away from a busy session drops what the turn in progress has captured."""

    mutant_id = "K05.busy-refusal-drops-captures"
    stopped_by = Stop(scenario="D10", cell={"route": "ar"}, check="captures-kept", reason="other_count")
    session = _BusyAbandons


class _BusyVoids(TorchSession):
    def idle(self, what: str) -> None:
        try:
            super().idle(what)
        except SessionStateError:
            if self.doing == "verify" and self.buffers.draft is not None:
                self.buffers.draft.set_drafts(())
            raise


class BusyRefusalVoidsDrafts(Mutant):
    """Turning a request away inside a verify throws the drafts away that are being verified."""

    mutant_id = "K05.busy-refusal-voids-drafts"
    stopped_by = Stop(scenario="D10", cell={"route": "mtp"}, check="to-the-end", part="meta", phase="end")
    session = _BusyVoids


class _RefusedVoids(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        try:
            super().restore(handle)
        except TorchEngineError:
            if self.buffers.draft is not None:
                self.buffers.draft.void()
            raise


class DraftVoidedOnRefusal(Mutant):
    """A refused restore leaves the target alone and empties the draft head's seed and drafts."""

    mutant_id = "K05.draft-voided-on-refusal"
    stopped_by = Stop(scenario="F12", cell={"other": "depth"}, check="handle-leaves-it", part="meta", phase="seen")
    session = _RefusedVoids


class _ResetOfCancelled(SessionBuffers):
    keep = False

    def reset(self) -> None:
        parts = [part for part in self.layout("session").fixed if part.family in ("recurrent", "conv") and self.keep]
        before = [(part.tensor, part.tensor.clone()) for part in parts]
        super().reset()
        for live, was in before:
            live.copy_(was)
        self.keep = False


class _CancelHidesReset(TorchSession):
    def cancel(self) -> int:
        published = super().cancel()
        if isinstance(self.buffers, _ResetOfCancelled):
            self.buffers.keep = True
        return published


class CancelHidesReset(Mutant):
    """A cancelled session counts as empty already: the next conversation's reset leaves its fixed parts as they are."""

    mutant_id = "K05.cancel-hides-reset"
    stopped_by = Stop(
        scenario="D03", cell={"at": "on", "route": "ar"}, check="cancel-unnoticed", part="recurrent", phase="prefilled"
    )
    buffers = _ResetOfCancelled
    session = _CancelHidesReset


class _SamplesThenRefuses(TorchSession):
    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        room = self.buffers.capacity - self.position - self.owed
        if count > room > 0:
            super().decode(1, sampler)
        return super().decode(count, sampler)


class RefusedDecodeSamples(Mutant):
    """A decode for which there is no room is refused after its first token has been sampled and forwarded."""

    mutant_id = "K05.refused-decode-samples"
    stopped_by = Stop(
        scenario="D03", cell={"at": "after", "route": "ar"}, check="error-goes-on", part="meta", phase="seen"
    )
    session = _SamplesThenRefuses


class _TakesHalf(TorchEngine):
    def open_session(self, **overrides: object) -> TorchSession:
        asked = overrides.get("cache_entries")
        if isinstance(asked, int):
            self.cache.entry_budget = asked
        return super().open_session(**overrides)


class RefusedOverrideSticks(Mutant):
    """A request may not change the server's budget: it is refused, and the budget is changed all the same."""

    mutant_id = "K05.refused-override-sticks"
    stopped_by = Stop(scenario="G12", cell={"override": "namespace"}, check="entries-flag-kept", reason="other_count")
    engine = _TakesHalf


class _CancelledDrawsOn(TorchSession):
    def reset(self) -> None:
        kept = self.buffers.rng.clone() if self.cancelled else None
        super().reset()
        if kept is not None:
            self.buffers.rng.copy_(kept)


class CancelKeepsGenerator(Mutant):
    """The prompt after a cancelled one draws on from where the cancelled one stopped."""

    mutant_id = "K05.cancel-keeps-generator"
    stopped_by = Stop(
        scenario="D03", cell={"at": "on", "route": "ar"}, check="drawn-again-exact", part="meta", phase="restored"
    )
    session = _CancelledDrawsOn
