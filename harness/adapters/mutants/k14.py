"""K14: memory that means nothing reaches the result."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.torch_session import TorchAdapterSession
from harness.adapters.torch_words import host_bytes
from harness.engines.interface import StatePart
from harness.torch_engine.buffers import SessionBuffers, fill
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.models.attention import AttentionState, SparseAttention
from harness.torch_engine.models.config import TILE, ModelConfig
from harness.torch_engine.models.decoder import Decoder
from harness.torch_engine.models.layers import NEG_INF, attend
from harness.torch_engine.options import EngineOptions, SessionOptions
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Segment, Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

_GARBAGE = 0x3F
"""What memory that nobody wrote is taken to hold, byte by byte."""


class _LocalAttention(SparseAttention):
    """Decodes over the two local tiles only, with the faults of a subclass; shares weights with another layer."""

    def __init__(self, layer: SparseAttention) -> None:
        self.__dict__.update(vars(layer))

    def step(self, x: Tensor, start: int, state: AttentionState) -> Tensor:
        q, _ = self._project(x, start, state)
        low = max(0, start // TILE * TILE - TILE)
        k, v, bias = self.local(low, state)
        out = attend(q[None].transpose(1, 2), k[None].transpose(1, 2), v[None].transpose(1, 2), bias)
        return out.view(1, -1) @ self.w_out

    def local(self, low: int, state: AttentionState) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys, values and bias from row ``low`` on."""
        raise NotImplementedError


class _OneRowMore(_LocalAttention):
    def local(self, low: int, state: AttentionState) -> tuple[Tensor, Tensor, Tensor | None]:
        end = state.kv_rows + 1
        return state.k[low:end].float(), state.v[low:end].float(), None


class _Masked(_LocalAttention):
    def local(self, low: int, state: AttentionState) -> tuple[Tensor, Tensor, Tensor | None]:
        end = low + 2 * TILE
        bias = torch.zeros((1, 1, 1, len(state.k[low:end])), device=state.k.device)
        bias[..., state.kv_rows - low :] = NEG_INF
        return state.k[low:end].float(), state.v[low:end].float(), bias


def _with_attention(decoder: Decoder, kind: type[_LocalAttention]) -> Decoder:
    """Return a decoder of the same weights with other attention layers."""
    changed = copy(decoder)
    changed.mixers = [kind(layer) if isinstance(layer, SparseAttention) else layer for layer in decoder.mixers]
    return changed


class _ReadsOneMore(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self.decoder = _with_attention(self.decoder, _OneRowMore)


class _ZeroedRows(SessionBuffers):
    def __init__(self, config: ModelConfig, options: EngineOptions, device: torch.device) -> None:
        super().__init__(config, options, device)
        for stream in self.layout("session").rows:
            stream.tensor.zero_()


class StaleRowsRead(Mutant):
    """Decoding attends to one row beyond the valid ones: whatever an earlier prompt left there."""

    mutant_id = "K14.stale-rows-read"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="off-b", part="recurrent", phase="end")
    session = _ReadsOneMore
    buffers = _ZeroedRows


class _ReadsMasked(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self.decoder = _with_attention(self.decoder, _Masked)


class _UnusedNan(SessionBuffers):
    def poison_unused(self) -> None:
        for stream in self.layout("session").rows:
            fill(stream.tensor[stream.rows :], "nan")


class NanInUnused(Mutant):
    """Unused rows are masked instead of left out: a weight of zero times a NaN that lies there is a NaN."""

    mutant_id = "K14.nan-in-unused"
    stopped_by = Stop(scenario="A01", cell={"arch": "attention"}, check="first", phase="end", reason="not_finite")
    session = _ReadsMasked
    buffers = _UnusedNan


class _WholeBuffers(TorchAdapterSession):
    def parts(self) -> Sequence[StatePart]:
        whole = {stream.name: stream.tensor for stream in self._session.layout("session").rows}
        return [_whole(part, whole[part.name]) if part.name in whole else part for part in super().parts()]


def _whole(part: StatePart, buffer: Tensor) -> StatePart:
    return StatePart(
        name=part.name,
        family=part.family,
        layer=part.layer,
        element_type=part.element_type,
        shape=tuple(buffer.shape),
        stream=part.stream,
        data=host_bytes(buffer),
    )


class WholeBuffersShown(Mutant):
    """Whole buffers are handed over as state, with the rows behind the valid ones."""

    mutant_id = "K14.whole-buffers-shown"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="again", part="kv", phase="restored")
    buffers = _ZeroedRows
    adapter_session = _WholeBuffers


class _RowUnwritten(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        for segment in made.segments:
            _forget_last(made.arena, segment)
        return made


def _forget_last(arena: Tensor, segment: Segment) -> None:
    """Leave the last row of a segment as memory was before."""
    if segment.nbytes:
        end = segment.offset + segment.nbytes
        arena[end - segment.row_bytes : end] = _GARBAGE


class CaptureRowUnwritten(Mutant):
    """The last row of each captured stream is allocated and never written."""

    mutant_id = "K14.capture-row-unwritten"
    stopped_by = Stop(scenario="A01", cell={"arch": "attention"}, check="again", part="layer0.k", phase="restored")
    snapshotter = _RowUnwritten
