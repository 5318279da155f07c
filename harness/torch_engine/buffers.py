"""All memory of one session: allocated once, labelled as a `StateLayout`, cleared by a reset.

Parts of layers lie on the engine's device; the sampler's parts lie on the host, which samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.torch_engine.draft_state import DraftState
from harness.torch_engine.errors import CapacityError, MetadataError, OptionError
from harness.torch_engine.kv.elements import element
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.kv.types import dtype_of, element_type
from harness.torch_engine.metadata import KIND_CODES, Metadata
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.models.config import ModelConfig
from harness.torch_engine.models.delta import DeltaState
from harness.torch_engine.models.ple import BEFORE, NO_TOKEN, PleState
from harness.torch_engine.models.sliding import SlidingState
from harness.torch_engine.options import TYPE_OPTIONS, EngineOptions
from harness.torch_engine.state import HOST_LAYER, FixedPart, RowStream, StateLayout, bytes_view
from harness.torch_engine.weights import GOLDEN_GAMMA, mix64_array

Scope = Literal["prefix", "session"]
LayerState = AttentionState | DeltaState | SlidingState | PleState
LayerLengths = tuple[int, int, int, int]
"""Kind code and three lengths of one layer; see `metadata`."""
Lengths = tuple[LayerLengths, ...]
RNG_WORDS = 3
"""Words of ``sampler.rng``: whether seeded, the seed, the counter."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The row streams of one layer as they were listed."""

    length: LayerLengths
    memory: tuple[object, ...]
    """Element type and buffers of each kind of rows."""
    listed: list[RowStream]

    def holds_for(self, state: AttentionState, length: LayerLengths) -> bool:
        """Whether the counts are these and the buffers the very ones; they are not compared by their values."""
        return self.length == length and all(map(is_, self.memory, _memory(state)))


def _memory(state: AttentionState) -> tuple[object, ...]:
    k, v, raw, pooled = state.k, state.v, state.raw, state.pooled
    types = (k.element, v.element, raw.element, pooled.element)
    return (k.tensors, v.tensors, raw.tensors, pooled.tensors, *types)


class SessionBuffers:
    """Buffers of one session and the lengths that say what of them is valid."""

    def __init__(self, config: ModelConfig, options: EngineOptions, device: torch.device) -> None:
        self.config = config
        self.poison = options.poison
        self.capacity = options.max_seq_len
        self.device = device
        self.types = {
            what.removesuffix("_type"): element(getattr(options, what), allowed, what=what)
            for what, allowed in TYPE_OPTIONS.items()
        }
        self.layers: list[LayerState] = [self._layer(kind) for kind in config.states]
        """States of the layers, then that of the per-layer embeddings where the model has any."""
        self.logits = self._new((config.vocab,), torch.float32)
        self.rng = torch.zeros(RNG_WORDS, dtype=torch.int64)  # see RNG_WORDS; host
        self.history = torch.zeros(self.capacity, dtype=torch.int32)  # (capacity,) token ids; host
        self.history_rows = 0
        self.draft: DraftState | None = None
        self._listed: dict[int, list[FixedPart]] = {}
        """Fixed parts of delta layers as they were listed last: listed again while the buffers are the same."""
        self._counted: dict[int, _Counted] = {}
        """Row streams of layers as they were listed last, likewise while their counts are the same too."""
        self._told: dict[str, FixedPart] = {}
        """Fixed parts that belong to no layer, likewise."""
        self.reset()

    def add_draft(self, depth: int) -> None:
        """Allocate the state of a draft head too.

        Args:
            depth: most tokens of a draft.
        """
        self.draft = DraftState(self.config, self.capacity, self.device, depth)
        self.poison_unused()

    def _new(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def _rows(self, kind: str, shape: tuple[int, ...]) -> Rows:
        """Memory for rows of values; nothing is valid in it, so nothing is written to it.

        Args:
            kind: ``k``, ``v`` or ``index``.
            shape: capacity, heads where there are any, values of a row and head.
        """
        return Rows.empty(self.types[kind], shape, self.device)

    def _layer(self, kind: str) -> LayerState:
        """Fresh buffers of one layer, token-major."""
        c, t = self.config, self.types
        heads = (c.kv_heads, c.head_dim)
        if kind == "delta":
            shape = (c.delta_value_heads, c.delta_dim, c.delta_dim)
            (recurrent,) = Rows.empty(t["recurrent"], shape, self.device).tensors
            return DeltaState(
                recurrent=recurrent.zero_(),
                conv=self._new((c.conv_dim, c.conv_kernel - 1), dtype_of(t["conv"].name)),
                element=t["recurrent"],
            )
        if kind == "ple":
            return PleState(
                conv=self._new((len(c.layers) * c.ple_dim, c.conv_kernel - 1), dtype_of(t["conv"].name)),
                tokens=self._new((BEFORE,), torch.int64),
            )
        if kind == "sliding":
            shape = (c.window, *heads)
            return SlidingState(k=self._rows("k", shape), v=self._rows("v", shape))
        return AttentionState(
            k=self._rows("k", (self.capacity, *heads)),
            v=self._rows("v", (self.capacity, *heads)),
            raw=self._rows("index", (self.capacity, c.index_dim)),
            pooled=self._rows("index", (max(1, self.capacity // c.pool), c.index_dim)),
        )

    def reset(self) -> None:
        """The state before any token: fixed parts zero, no rows, everything else poisoned."""
        self.set_lengths(self.lengths_at(0))
        self.history_rows = 0
        for part in self.layout("session").fixed:
            fill(part.tensor, self.poison)
            part.tensor.zero_()
        for state in self.layers:
            if isinstance(state, PleState):
                state.tokens.fill_(NO_TOKEN)
        if self.draft is not None:
            self.draft.reset()
        self.poison_unused()

    def poison_unused(self) -> None:
        """Fill rows past the valid ones with the poison pattern."""
        if self.poison == "none":
            return
        for stream in self.layout("session").rows:
            fill(stream.tensor[stream.rows :], self.poison)

    # -- labels --------------------------------------------------------------------------------

    def layout(self, scope: Scope, lengths: Lengths | None = None, history_rows: int | None = None) -> StateLayout:
        """The buffers as parts.

        Args:
            scope: ``prefix`` is what a boundary snapshot holds; ``session`` adds pending logits,
                the sampler's generator and the token history.
            lengths: row counts to claim instead of the current ones, as in `Metadata.layers`.
            history_rows: tokens of history to claim instead of the current number.
        """
        if not self.config.decodes:
            return StateLayout(fixed=(), rows=())  # its rows mean nothing once a prompt is through
        fixed: list[FixedPart] = []
        rows: list[RowStream] = []
        lengths = self.lengths() if lengths is None else lengths
        own = lengths if self.draft is None else lengths[: len(self.layers)]
        for i, (state, length) in enumerate(zip(self.layers, own, strict=True)):
            fixed += self._fixed_parts(i, state)
            rows += self._row_streams(i, state, length)
        if self.draft is not None:
            fixed += self.draft.fixed_parts()
            rows += self.draft.row_streams(lengths[len(self.layers) :])
        if scope == "session":
            fixed.append(self._hosted("logits", "logits", self.logits))
            fixed.append(self._hosted("sampler.rng", "sampler", self.rng))
            count = self.history_rows if history_rows is None else history_rows
            rows.append(_stream("sampler.history", "sampler", HOST_LAYER, self.history, count))
        return StateLayout(fixed=tuple(fixed), rows=tuple(rows))

    def _hosted(self, name: str, family: str, tensor: Tensor) -> FixedPart:
        """A fixed part of no layer."""
        known = self._told.get(name)
        if known is None or known.tensor is not tensor:
            known = self._told[name] = _fixed(name, family, HOST_LAYER, tensor)
        return known

    def _fixed_parts(self, i: int, state: LayerState) -> list[FixedPart]:
        """Fixed parts of layer ``i``."""
        if isinstance(state, DeltaState):
            kind, known = state.element.name, self._listed.get(i)
            same = known is not None and known[0].tensor is state.recurrent and known[1].tensor is state.conv
            if known is None or not same or known[0].element_type != kind:
                known = self._listed[i] = [
                    _fixed(f"layer{i}.recurrent", "recurrent", i, state.recurrent, kind),
                    _fixed(f"layer{i}.conv", "conv", i, state.conv),
                ]
            return known
        if isinstance(state, PleState):
            return [
                _fixed("ple.conv", "ple", HOST_LAYER, state.conv),
                _fixed("ple.tokens", "ple", HOST_LAYER, state.tokens),
            ]
        if isinstance(state, SlidingState):
            rings = ((f"layer{i}.window_k", state.k), (f"layer{i}.window_v", state.v))
            return [
                _fixed(f"{name}{stream.suffix}", "window", i, tensor, stream.element)
                for name, ring in rings
                for stream, tensor in ring.streams()
            ]
        return []

    def _row_streams(self, i: int, state: LayerState, length: LayerLengths) -> list[RowStream]:
        """Row streams of layer ``i`` with the given lengths."""
        if not isinstance(state, AttentionState):
            return []
        known = self._counted.get(i)
        if known is not None and known.holds_for(state, length):
            return known.listed
        _, kv, raw, pooled = length
        kinds = (
            (f"layer{i}.k", "kv", state.k, kv),
            (f"layer{i}.v", "kv", state.v, kv),
            (f"layer{i}.index_raw", "index", state.raw, raw),
            (f"layer{i}.index_pooled", "index", state.pooled, pooled),
        )
        listed = [
            _stream(f"{name}{stream.suffix}", family, i, tensor, count, stream.element)
            for name, family, rows, count in kinds
            for stream, tensor in rows.streams()
        ]
        self._counted[i] = _Counted(length, _memory(state), listed)
        return listed

    # -- lengths -------------------------------------------------------------------------------

    def lengths(self) -> Lengths:
        """Kind code and three lengths of every layer, as they are now; then those of the draft head."""
        own = tuple(_lengths_of(state) for state in self.layers)
        return own if self.draft is None else own + self.draft.lengths()

    def lengths_at(self, position: int) -> Lengths:
        """What `lengths` must be after ``position`` tokens."""
        full = {
            "delta": (KIND_CODES["delta"], position, 0, 0),
            "sliding": (KIND_CODES["sliding"], position, 0, 0),
            "ple": (KIND_CODES["ple"], position, 0, 0),
            "attention": (KIND_CODES["attention"], position, position, position // self.config.pool),
        }
        own = tuple(full[kind] for kind in self.config.states)
        return own if self.draft is None else own + self.draft.lengths_at(position)

    def check_lengths(self, meta: Metadata, position: int) -> None:
        """Metadata that is to be restored fits this model at this position.

        Raises:
            MetadataError: position or lengths contradict it.
            CapacityError: the buffers are too small.
        """
        if meta.position != position:
            raise MetadataError(f"metadata position: expected {position}, found {meta.position}")
        if position + meta.owed > self.capacity:
            raise CapacityError(f"position: expected at most {self.capacity}, found {position + meta.owed}")
        expected, count = self.lengths_at(position), len(self.layers)
        rest = meta.layers[count:]
        same = not rest if self.draft is None else self.draft.fits(rest, position)
        if not same or meta.layers[:count] != expected[:count]:
            raise MetadataError(f"metadata lengths: expected {expected}, found {meta.layers}")

    def set_lengths(self, lengths: Lengths) -> None:
        """Declare rows valid."""
        own = lengths if self.draft is None else lengths[: len(self.layers)]
        for state, (_, first, second, third) in zip(self.layers, own, strict=True):
            if isinstance(state, AttentionState):
                state.kv_rows, state.raw_rows, state.pooled_rows = first, second, third
            else:
                state.seen = first
        if self.draft is not None:
            self.draft.set_lengths(lengths[len(self.layers) :])

    def remember(self, tokens: npt.NDArray[np.int32]) -> None:
        """Append tokens (n,) to the history."""
        end = self.history_rows + len(tokens)
        self.history[self.history_rows : end] = torch.from_numpy(tokens)
        self.history_rows = end


def check_types(config: ModelConfig, options: EngineOptions) -> None:
    """Every element type can hold the rows of this model.

    Raises:
        OptionError: one cannot, like blocks of 32 with rows of 16.
    """
    widths = {"k": config.head_dim, "v": config.head_dim, "recurrent": config.delta_dim, "index": config.index_dim}
    for what, width in widths.items():
        name = f"{what}_type"
        element(getattr(options, name), TYPE_OPTIONS[name], what=name).check(width, what=name)


_SEEN_KINDS = {DeltaState: "delta", SlidingState: "sliding", PleState: "ple"}


def _lengths_of(state: LayerState) -> LayerLengths:
    if isinstance(state, AttentionState):
        return KIND_CODES["attention"], state.kv_rows, state.raw_rows, state.pooled_rows
    return KIND_CODES[_SEEN_KINDS[type(state)]], state.seen, 0, 0


def _fixed(name: str, family: str, layer: int, tensor: Tensor, kind: str = "") -> FixedPart:
    kind = kind or element_type(tensor.dtype)
    return FixedPart(name=name, family=family, layer=layer, element_type=kind, tensor=tensor)


def _stream(name: str, family: str, layer: int, tensor: Tensor, rows: int, kind: str = "") -> RowStream:
    kind = kind or element_type(tensor.dtype)
    return RowStream(name=name, family=family, layer=layer, element_type=kind, tensor=tensor, rows=rows)


def fill(tensor: Tensor, pattern: str) -> None:
    """Fill memory that must not matter.

    Args:
        tensor: contiguous, any element type.
        pattern: ``none`` leaves it, ``zero``, ``nan`` (all bits set for integers), or ``noise``
            (fixed pseudo-random bytes).

    Raises:
        OptionError: an unknown pattern.
    """
    if pattern == "none" or not tensor.numel():
        return
    if pattern == "zero":
        tensor.zero_()
    elif pattern == "nan":
        tensor.fill_(float("nan") if tensor.is_floating_point() else -1)
    elif pattern == "noise":
        flat = bytes_view(tensor)
        noise = _NOISE.to(flat.device)
        for low in range(0, flat.numel(), noise.numel()):
            piece = flat[low : low + noise.numel()]
            piece.copy_(noise[: piece.numel()])
    else:
        raise OptionError(f"poison: expected none, zero, nan or noise, found {pattern!r}")


def _noise(words: int) -> Tensor:
    counter = np.arange(1, words + 1, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA)
    mixed: Any = mix64_array(counter)
    return torch.from_numpy(mixed.view(np.uint8).copy())


_NOISE = _noise(1 << 17)
