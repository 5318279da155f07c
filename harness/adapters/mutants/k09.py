"""K09: windows, shifts and blocks: state at the edge of a grid is lost or has wrong positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import names, restore_fewer_rows, restore_without
from harness.torch_engine.buffers import Lengths, SessionBuffers
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.models.config import TILE
from harness.torch_engine.models.sliding import SlidingState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _WindowKept(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return restore_without(self, chain, layout, names(layout, "window"))


class WindowNotRestored(Mutant):
    """A restore brings back the rows of full attention and leaves the sliding windows as they are."""

    mutant_id = "K09.window-not-restored"
    stopped_by = Stop(scenario="A01", cell={"arch": "sliding"}, check="again", part="window", phase="restored")
    snapshotter = _WindowKept


class _RingUnrolled(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        super().restore_parts(saved, layout)
        position = decode_metadata(saved.snapshot.meta).position
        for part in layout.fixed:
            if part.family == "window":
                part.tensor.copy_(torch.roll(part.tensor, -position, 0))


class RingUnrolled(Mutant):
    """A restored window lies oldest row first, while the ring goes on at position modulo window."""

    mutant_id = "K09.ring-unrolled"
    stopped_by = Stop(scenario="A03", cell={"arch": "sliding"}, check="came-back", part="window", phase="seen")
    session = _RingUnrolled


class _SeenSaturates(SessionBuffers):
    def set_lengths(self, lengths: Lengths) -> None:
        super().set_lengths(lengths)
        for state in self.layers:
            if isinstance(state, SlidingState):
                state.seen = min(state.seen, self.config.window)


class RingOffsetAfterWrap(Mutant):
    """After a restore a full window counts as just filled, so the next row goes into slot 0."""

    mutant_id = "K09.ring-offset-after-wrap"
    stopped_by = Stop(scenario="A06", cell={"arch": "sliding"}, check="second-turn", part="meta", phase="prefilled")
    buffers = _SeenSaturates


class _PartialBlockLost(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        pool = self.buffers.config.pool
        restore_fewer_rows(
            self.snapshotter,
            [saved.snapshot],
            layout,
            lambda part, rows: rows // pool * pool if part.name.endswith(".index_raw") else rows,
        )


class PartialBlockLost(Mutant):
    """Index keys of a block that is not full yet are not brought back."""

    mutant_id = "K09.partial-block-lost"
    stopped_by = Stop(scenario="A16", cell={"at": "end+1"}, check="came-back", part="index", phase="seen")
    session = _PartialBlockLost


class _ShortWindowLost(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        full = decode_metadata(saved.snapshot.meta).position >= self.buffers.config.window
        left_out = frozenset[str]() if full else names(layout, "window")
        restore_without(self.snapshotter, [saved.snapshot], layout, left_out)


class ShortWindowLost(Mutant):
    """A sliding window comes back only if it was full."""

    mutant_id = "K09.short-window-lost"
    stopped_by = Stop(scenario="A24", cell={"at": "window-1"}, check="came-back", part="window", phase="seen")
    session = _ShortWindowLost


class _CursorLost(SessionBuffers):
    _lost = 0

    def set_lengths(self, lengths: Lengths) -> None:
        super().set_lengths(lengths)
        for state in self.layers:
            if isinstance(state, SlidingState):
                self._lost = max(0, state.seen - self.config.window)
                state.seen -= self._lost

    def lengths(self) -> Lengths:
        pairs = zip(super().lengths(), self.layers, strict=True)
        return tuple((k, a + self._lost * isinstance(s, SlidingState), b, c) for (k, a, b, c), s in pairs)


class RingCursorLost(Mutant):
    """The place where a ring goes on is not saved: after a restore the next row goes into slot 0; counts are right."""

    mutant_id = "K09.ring-cursor-lost"
    stopped_by = Stop(scenario="A24", cell={"at": "window+1"}, check="rest", part="window", phase="prefilled")
    buffers = _CursorLost


class _PooledOnGrid(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        position, pool = decode_metadata(saved.snapshot.meta).position, self.buffers.config.pool
        restore_fewer_rows(
            self.snapshotter,
            [saved.snapshot],
            layout,
            lambda part, rows: rows - (part.name.endswith(".index_pooled") and position % pool == 0),
        )


class PooledOnGridLost(Mutant):
    """The newest pooled row is not brought back if its block is full exactly there."""

    mutant_id = "K09.pooled-on-grid-lost"
    stopped_by = Stop(scenario="A16", cell={"at": "block"}, check="came-back", part="index", phase="seen")
    session = _PooledOnGrid


class _WholeTilesOnly(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        restore_fewer_rows(
            self.snapshotter,
            [saved.snapshot],
            layout,
            lambda part, rows: rows // TILE * TILE if part.family == "kv" else rows,
        )


class PartialTileLost(Mutant):
    """Keys and values of a tile that is not full yet are not brought back."""

    mutant_id = "K09.partial-tile-lost"
    stopped_by = Stop(scenario="A16", cell={"at": "tile+1"}, check="came-back", part="kv", phase="seen")
    session = _WholeTilesOnly


class _ShortConvLost(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        full = decode_metadata(saved.snapshot.meta).position >= self.buffers.config.conv_kernel
        left_out = frozenset[str]() if full else names(layout, "conv")
        restore_without(self.snapshotter, [saved.snapshot], layout, left_out)


class ShortConvLost(Mutant):
    """A convolution window comes back only if a prompt has filled it."""

    mutant_id = "K09.short-conv-lost"
    stopped_by = Stop(scenario="A16", cell={"at": "one"}, check="came-back", part="conv", phase="seen")
    session = _ShortConvLost
