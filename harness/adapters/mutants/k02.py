"""K02: key, count and state position differ by a few tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import Continues, restore_fewer_rows
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import CachePlan, Restorable, Turn
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.models.ple import BEFORE, PleState
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _RowShort(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return restore_fewer_rows(self, chain, layout, lambda part, rows: rows - (part.family == "kv" and rows > 0))


class RowShort(Mutant):
    """The last K and V row of a chain is not copied back, one too few."""

    mutant_id = "K02.row-short"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="again", part="kv", phase="restored")
    snapshotter = _RowShort


class _HandlePositionHigh(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        self.position += 1


class HandlePositionHigh(Mutant):
    """A restored session counts the last sampled token twice and goes on one position too high."""

    mutant_id = "K02.handle-position-high"
    stopped_by = Stop(scenario="A16", cell={"at": "odd"}, check="came-back", part="meta", phase="seen")
    session = _HandlePositionHigh


class _RotatedOneOn(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._shift = 0

    def reset(self) -> None:
        super().reset()
        self._shift = 0

    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self._shift = 1

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        self.position += self._shift
        super().forward(tokens, last=last)
        self.position -= self._shift


class ForwardOneOn(Mutant):
    """After a restore the next tokens are forwarded at positions that are one too high; the counts stay right."""

    mutant_id = "K02.forward-one-on"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="recurrent", phase="prefilled")
    session = _RotatedOneOn


class _PlanWhole(SessionCache):
    def plan(self, turn: Turn, prompt: Tokens) -> CachePlan:
        return super().plan(turn, np.append(np.asarray(prompt, dtype=np.int32), np.int32(0)))


class _CapturesEnd(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        cached = super().begin(prompt, use_cache)
        self.logits_valid = self.logits_valid or cached == len(prompt)
        return cached

    def at_boundary(self, position: int) -> None:
        super().at_boundary(position)
        if self._armed and position == len(self._prompt) and position in self.boundaries():
            meta = replace(decode_metadata(self.metadata()), logits_valid=False).encode()
            self.cache.capture(self.turn, self._prompt, position, self.layout("prefix"), meta)


class PlanWholePrompt(Mutant):
    """A prompt that ends on a boundary is stored and served whole, and answered with the logits that lie there."""

    mutant_id = "K02.plan-whole-prompt"
    stopped_by = Stop(scenario="C02", check="cached-2")
    store = _PlanWhole
    session = _CapturesEnd


class _CapturesLate(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        self._owed: list[int] = []
        super().__init__(engine, options)

    def at_boundary(self, position: int) -> None:
        if self._armed and position < len(self._prompt):
            self._owed.append(position)

    def commit(self) -> int:
        present = decode_metadata(self.metadata())
        for position in self._owed:
            lengths = self.buffers.lengths_at(position)
            layout = self.buffers.layout("prefix", lengths)
            meta = replace(present, position=position, layers=lengths, logits_valid=False)
            self.cache.capture(self.turn, self._prompt, position, layout, meta.encode())
        self._owed.clear()
        return super().commit()

    def abandon(self) -> int:
        self._owed.clear()
        return super().abandon()


class TailFiledEarly(Mutant):
    """Captures are taken when the turn ends, so the recurrent state of the prompt's end lies under each boundary."""

    mutant_id = "K02.tail-filed-early"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="recurrent", phase="restored")
    session = _CapturesLate


class _PositionLow(TorchSession):
    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self.position -= 1
        self.buffers.history_rows = self.position
        self.buffers.set_lengths(self.buffers.lengths_at(self.position))


class PositionLow(Mutant):
    """A restored prefix is taken for one token shorter, so its last token is forwarded a second time."""

    mutant_id = "K02.position-low"
    stopped_by = Stop(scenario="A01", cell={"arch": "attention"}, check="again-cached", reason="tokens_unaccounted")
    session = _PositionLow


class _HistoryShort(TorchSession):
    def finish_restore(self, meta: bytes) -> None:
        decoded = decode_metadata(meta)
        self.buffers.history_rows = 0
        self.buffers.remember(self._prompt[: decoded.position - 1])
        self.take_over(decoded)


class HistoryShort(Mutant):
    """The token history of a restored prefix lacks its last token; its count is right."""

    mutant_id = "K02.history-short"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", part="sampler", phase="restored"
    )
    session = _HistoryShort


class _LinksShifted(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        for link in chain[1:]:
            for stream, span in zip(layout.rows, link.segments, strict=True):
                if stream.family == "kv" and span.nbytes:
                    stream.tensor[span.start - 1 : span.stop - 1] = stream.tensor[span.start : span.stop].clone()
        return copied


class LinkShifted(Mutant):
    """Rows of every link after the first land one row too low: the start of a delta is taken for a count."""

    mutant_id = "K02.link-shifted"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="again", part="kv", phase="restored")
    snapshotter = _LinksShifted


class _AnyParentLinesUp(Snapshotter):
    def lines_up(self, parent: Snapshot, layout: StateLayout) -> bool:  # noqa: ARG002 - that is the fault
        return True


class ParentUnchecked(Mutant):
    """A delta is hung on the nearest earlier snapshot, whether its rows end where these begin or not."""

    mutant_id = "K02.parent-unchecked"
    stopped_by = Stop(scenario="B03", check="two-roots")
    snapshotter = _AnyParentLinesUp


class _OwedForgotten(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        if self.owed:
            self.owed, self.logits_valid = False, True
            self.buffers.history_rows -= 1


class OwedForwardForgotten(Mutant):
    """A session that is saved before its last token was forwarded comes back without that token."""

    mutant_id = "K02.owed-forward-forgotten"
    stopped_by = Stop(scenario="A08", cell={"sampler": "greedy"}, check="fork-starts-alike", part="meta", phase="seen")
    session = _OwedForgotten


class _OwedTwice(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        if self.owed:
            token = self.buffers.history[self.position : self.position + 1].numpy().copy()
            self.buffers.history_rows -= 1
            self.owed = False
            self.forward(token, last=True)
            self.buffers.remember(token)
            self.owed, self.logits_valid = True, False


class OwedForwardTwice(Mutant):
    """A restore forwards the owed token, and the next call forwards it again."""

    mutant_id = "K02.owed-forward-twice"
    stopped_by = Stop(scenario="A08", cell={"sampler": "seeded"}, check="fork-starts-alike", part="meta", phase="seen")
    session = _OwedTwice


class _SnapshotSettles(TorchSession):
    def snapshot(self) -> SessionHandle:
        self.settle()
        return super().snapshot()


class SnapshotSettles(Mutant):
    """To save a session, the forward that it owes is done first: in the session itself."""

    mutant_id = "K02.snapshot-settles"
    stopped_by = Stop(scenario="A08", cell={"sampler": "greedy"}, check="fork-starts-alike", part="meta", phase="seen")
    session = _SnapshotSettles


class _LiveWithoutLast(Continuation):
    def begin_live(self, prompt: npt.NDArray[np.int32]) -> int:
        found = super().begin_live(prompt)
        s = self.session
        s.position -= 1
        s.buffers.history_rows -= 1
        s.buffers.set_lengths(s.buffers.lengths_at(s.position))
        return found - 1


class _ContinuesShort(Continues):
    continuation = _LiveWithoutLast


class LiveOneShort(Mutant):
    """A live continuation forwards the last token of the present state a second time."""

    mutant_id = "K02.live-one-short"
    stopped_by = Stop(scenario="D04", check="all-of-it-reused", reason="other_count")
    session = _ContinuesShort


class _PleOneEarly(TorchSession):
    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        for state in self.buffers.layers:
            if isinstance(state, PleState):
                before = self.prompt[self.position - BEFORE - 1 : self.position - 1].astype(np.int64)
                state.tokens.copy_(torch.from_numpy(before))


class PleOneEarly(Mutant):
    """The tokens that the next per-layer embedding is looked up with are those one position before the cut."""

    mutant_id = "K02.ple-one-early"
    stopped_by = Stop(
        scenario="A01", cell={"arch": "ple", "route": "ar"}, check="again", part="ple.tokens", phase="restored"
    )
    session = _PleOneEarly


class _ExportsInDecode(TorchSession):
    def idle(self, what: str) -> None:
        if what != "export" or self.doing != "decode":
            super().idle(what)


class ExportInDecode(Mutant):
    """An image may be taken while a token is being forwarded, of rows that the position does not count yet."""

    mutant_id = "K02.export-in-decode"
    stopped_by = Stop(scenario="D10", cell={"route": "ar"}, check="decode-export", reason="not_refused")
    session = _ExportsInDecode


class _CancelFilesRest(TorchSession):
    def cancel(self) -> int:
        if self.position < len(self.prompt) or self.decoded:
            cut = self.position // self.options.chunk * self.options.chunk
            key = self.cache.key(self.turn, self.history(), cut + 1)
            layout, meta = self.layout("prefix"), self.metadata()
            snapshot = self.snapshotter.capture(layout, meta, self.snapshotter.starts(layout, None))
            self.cache.put(key, None, snapshot)
        return super().cancel()


class CancelFilesRest(Mutant):
    """What a cancelled turn was doing is published too, under the cut that it had just passed."""

    mutant_id = "K02.cancel-files-rest"
    stopped_by = Stop(scenario="D03", cell={"at": "on", "route": "ar"}, check="cancel-held", reason="other_count")
    session = _CancelFilesRest


class _StopFilesToken(TorchSession):
    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        tokens = super().decode(count, sampler)
        cut = len(self.prompt)
        if self.decoded == 1 and cut % self.options.chunk == 0 and self.cache.enabled:
            key = self.cache.key(self.turn, self.history(), cut)
            layout = self.buffers.layout("prefix")
            bare = replace(decode_metadata(self.metadata()), logits_valid=False, decoded=0, sampler_valid=False)
            snapshot = self.snapshotter.capture(layout, bare.encode(), self.snapshotter.starts(layout, None))
            self.cache.put(key, None, snapshot)
        return tokens


class StopFilesToken(Mutant):
    """The state after the first decoded token is filed under the prompt's own length, where that is a cut."""

    mutant_id = "K02.state-past-key"
    stopped_by = Stop(scenario="D03", cell={"at": "on", "route": "ar"}, check="stop-held", reason="other_count")
    session = _StopFilesToken


class _SecondBranchShort(SessionCache):
    def restore(self, key: CacheKey, destination: Restorable) -> None:
        super().restore(key, destination)
        leaf = self._published.get(key)
        link = None if leaf is None or leaf.parent is None else self._published.get(leaf.parent)
        if leaf is None or link is None or link.parent is None or not isinstance(destination, TorchSession):
            return
        first = next(entry for entry in self._published.values() if entry.parent == leaf.parent)
        for state in destination.buffers.layers if first is not leaf else ():
            if isinstance(state, AttentionState):
                state.k.put(slice(state.kv_rows - 1, state.kv_rows), state.k[:1])


class BranchOfBranchShort(Mutant):
    """A second branch of a link that is no root comes back without its last K row; the first one is whole."""

    mutant_id = "K02.branch-of-branch-short"
    stopped_by = Stop(scenario="B02", cell={"route": "ar"}, check="c-again", part="kv", phase="restored")
    store = _SecondBranchShort
