"""K10: a lossy form comes back: stored narrower than it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import torch

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.metadata import Metadata
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.snapshot import Pair, Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout, bytes_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

_WIDE_FROM: Final = 128
"""Tokens of a chunk from which a kernel is chosen that keeps keys as they are."""


class _Narrowed(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        pairs = zip(layout.fixed, self.fixed_pairs(made, layout), strict=True)
        for part, (_, stored) in pairs:
            if part.family == "recurrent":
                stored.copy_(stored.bfloat16())
        return made


class RecurrentNarrowed(Mutant):
    """Snapshots hold the recurrent state in half precision."""

    mutant_id = "K10.recurrent-narrowed"
    stopped_by = Stop(scenario="A01", cell={"arch": "recurrent"}, check="again", part="recurrent", phase="restored")
    snapshotter = _Narrowed


class _KeysNarrowed(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        held = [stream.name for stream, s in zip(layout.rows, made.segments, strict=True) if s.stop > s.start]
        for name, (_, stored) in zip(held, self.row_pairs(made, layout), strict=True):
            if name.endswith(".k"):
                stored.copy_(stored.half())
        return made


class KeysNarrowed(Mutant):
    """Snapshots hold keys in half precision, while values stay as they are."""

    mutant_id = "K10.keys-narrowed"
    stopped_by = Stop(scenario="A01", cell={"arch": "attention"}, check="again", part="layer0.k", phase="restored")
    snapshotter = _KeysNarrowed


class _WindowNarrowed(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        for part, (_, stored) in zip(layout.fixed, self.fixed_pairs(made, layout), strict=True):
            if part.family == "window":
                stored.copy_(stored.to(torch.float8_e4m3fn))
        return made


class _SaysReordered(TorchEngine):
    def identity(self) -> dict[str, str | int]:
        return {**super().identity(), "reordered_families": "window"}


class WindowNarrowed(Mutant):
    """Says that it sums over its window in another order after a restore, and holds the rows in eight bits besides."""

    mutant_id = "K10.window-narrowed"
    stopped_by = Stop(
        scenario="A01",
        cell={"arch": "sliding"},
        check="again",
        part="window",
        phase="restored",
        reason="beyond_tolerance",
    )
    engine = _SaysReordered
    snapshotter = _WindowNarrowed


class _ImageNarrowed(Imager):
    def payload(self, session: TorchSession) -> list[Buffer]:
        whole = super().payload(session)
        for i, part in enumerate(session.layout("session").parts()):
            if part.family == "recurrent":
                whole[i] = bytes_view(part.valid().bfloat16().to(part.tensor.dtype)).cpu().numpy().data
        return whole


class ImageNarrowed(Mutant):
    """Images carry the recurrent state in half precision."""

    mutant_id = "K10.image-narrowed"
    stopped_by = Stop(
        scenario="A17", cell={"arch": "hybrid", "sampler": "greedy"}, check="goes-on", part="recurrent", phase="end"
    )
    imager = _ImageNarrowed


class RowsNarrowed(Mutant):
    """Explicit snapshots of wide rows hold keys in half precision."""

    mutant_id = "K10.rows-narrowed"
    stopped_by = Stop(scenario="H61", check="kept-wide", part="layer0.k", phase="restored")
    snapshotter = _KeysNarrowed


class _RoundsLogits(TorchSession):
    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        super().forward(tokens, last=last)
        if last and self.options.turn_token is not None:
            self.buffers.logits.copy_(self.buffers.logits.bfloat16())


class PlanRoundsLogits(Mutant):
    """A session that is also cut at message ends gives its logits in half precision."""

    mutant_id = "K10.plan-rounds-logits"
    stopped_by = Stop(
        scenario="A25",
        cell={"how": "message-end"},
        check="near",
        part="logits",
        phase="prefilled",
        reason="beyond_tolerance",
    )
    session = _RoundsLogits


class _ScalesDropped(Snapshotter):
    def fixed_pairs(self, snapshot: Snapshot, layout: StateLayout) -> list[Pair]:
        scales = {part.tensor.data_ptr() for part in layout.fixed if part.name.endswith("_scale")}
        return [pair for pair in super().fixed_pairs(snapshot, layout) if pair[0].data_ptr() not in scales]

    def gather(self, chain: Sequence[Snapshot], layout: StateLayout) -> None:
        kept = [(r.tensor, r.tensor.clone()) for r in layout.rows if r.name.endswith("_scale")]
        super().gather(chain, layout)
        for live, before in kept:
            live.copy_(before)


class ScalesDropped(Mutant):
    """A restore brings the codes of quantised rows and leaves whatever scales are there."""

    mutant_id = "K10.scales-dropped"
    stopped_by = Stop(scenario="H62", cell={"types": "f16_i8"}, check="again", part="kv", phase="restored")
    snapshotter = _ScalesDropped


class _ChunkRounds(TorchSession):
    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        super().forward(tokens, last=last)
        if self.engine.options.chunk >= _WIDE_FROM:
            return
        for layer in self.buffers.layers:
            if isinstance(layer, AttentionState):
                span = slice(layer.kv_rows)
                layer.k[span] = layer.k[span].float().bfloat16().float()


class ChunkRoundsRows(Mutant):
    """A small chunk picks a kernel that rounds keys to bfloat16; the answer stays the same."""

    mutant_id = "K10.chunk-rounds-rows"
    stopped_by = Stop(
        scenario="R08",
        cell={"arch": "attention"},
        check="near",
        part="logits",
        phase="prefilled",
        reason="beyond_tolerance",
    )
    session = _ChunkRounds


_SEED_WORD: Final = 1


class _SeedNarrowed(TorchSession):
    def take_over(self, meta: Metadata) -> None:
        super().take_over(meta)
        self.buffers.rng[_SEED_WORD] &= 0xFFFF


class SeedNarrowed(Mutant):
    """A saved session holds 16 bits of its generator's seed; a longer one begins its stream anew."""

    mutant_id = "K10.seed-narrowed"
    stopped_by = Stop(scenario="A09", cell={"sampler": "plain"}, check="came-back", part="sampler.rng", phase="seen")
    session = _SeedNarrowed
