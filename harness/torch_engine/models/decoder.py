"""The decoder: embedding, layers, head, and how a span of tokens is cut into panels.

Panels are the unit of one pass. Their cuts depend on absolute positions only, never on what was
restored, so a restored session makes exactly the calls that a cold one makes from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from harness.torch_engine.models.attention import SparseAttention
from harness.torch_engine.models.config import TILE, ModelConfig
from harness.torch_engine.models.delta import GatedDelta
from harness.torch_engine.models.layers import Rope, UnitNorm, fold_norm, gated_mlp
from harness.torch_engine.models.ple import PerLayerEmbedding
from harness.torch_engine.models.sliding import SlidingAttention
from harness.torch_engine.weights import WeightSpec


class Mixer(Protocol):
    """A layer that mixes over time on top of its own state."""

    def prefill(self, x: Tensor, start: int, state: Any, /) -> Tensor:
        """(n, d) to (n, d)."""

    def step(self, x: Tensor, start: int, state: Any, /) -> Tensor:
        """(1, d) to (1, d)."""


def log2_fan_in(fan_in: int) -> int:
    """Power of two nearest below 2 / sqrt(fan_in): keeps activations near unit size."""
    return 1 - (fan_in.bit_length() // 2)


def mixer_specs(config: ModelConfig, kind: str) -> dict[str, WeightSpec]:
    """Weights of one mixer; matrices are (in, out)."""
    d, fan = config.d_model, log2_fan_in(config.d_model)
    if kind == "delta":
        hv, inner = config.delta_value_heads, config.delta_value_heads * config.delta_dim
        return {
            "w_in": WeightSpec(shape=(d, config.conv_dim + inner + 2 * hv), log2_scale=fan),
            "conv": WeightSpec(shape=(config.conv_kernel, config.conv_dim), log2_scale=0),
            "a_log": WeightSpec(shape=(hv,), log2_scale=0),
            "dt_bias": WeightSpec(shape=(hv,), log2_scale=1, centre=-5.0),
            "norm": WeightSpec(shape=(config.delta_dim,), log2_scale=-3, centre=1.0),
            "w_out": WeightSpec(shape=(inner, d), log2_scale=log2_fan_in(inner)),
        }
    heads = config.q_heads + 2 * config.kv_heads
    index = 2 * config.index_dim if kind == "attention" else 0
    inner = config.q_heads * config.head_dim
    return {
        "w_in": WeightSpec(shape=(d, heads * config.head_dim + index), log2_scale=fan),
        "w_out": WeightSpec(shape=(inner, d), log2_scale=log2_fan_in(inner)),
    }


def weight_specs(config: ModelConfig) -> dict[str, WeightSpec]:
    """Every weight of the model by full name, in a fixed order."""
    d, ff = config.d_model, config.d_ff
    norm = WeightSpec(shape=(d,), log2_scale=-3, centre=1.0)
    specs = {"embed": WeightSpec(shape=(config.vocab, d), log2_scale=0)}
    for i, kind in enumerate(config.layers):
        specs[f"layer{i}.norm1"] = norm
        mixer = mixer_specs(config, kind)
        specs |= {f"layer{i}.mixer.{name}": spec for name, spec in mixer.items()}
        specs[f"layer{i}.norm2"] = norm
        specs[f"layer{i}.mlp_in"] = WeightSpec(shape=(d, 2 * ff), log2_scale=log2_fan_in(d))
        specs[f"layer{i}.mlp_out"] = WeightSpec(shape=(ff, d), log2_scale=log2_fan_in(ff))
    specs["final_norm"] = norm
    if not config.tied_head:
        specs["head"] = WeightSpec(shape=(d, config.vocab), log2_scale=log2_fan_in(d))
    return specs | ple_specs(config)


def ple_specs(config: ModelConfig) -> dict[str, WeightSpec]:
    """Every weight of the per-layer embeddings by full name; none where a model has none."""
    if not config.ple_dim:
        return {}
    d, width, layers = config.d_model, config.ple_dim, range(len(config.layers))
    channels = len(layers) * width
    specs = {
        "ple.own": WeightSpec(shape=(config.vocab, channels), log2_scale=0),
        "ple.table": WeightSpec(shape=(config.ple_rows, channels), log2_scale=0),
        "ple.conv": WeightSpec(shape=(config.conv_kernel, channels), log2_scale=0),
    }
    specs |= {f"ple.gate{i}": WeightSpec(shape=(d, width), log2_scale=log2_fan_in(d)) for i in layers}
    return specs | {f"ple.up{i}": WeightSpec(shape=(width, d), log2_scale=log2_fan_in(width)) for i in layers}


def panels(start: int, end: int, panel: int) -> Iterator[tuple[int, int]]:
    """Cut [start, end) at multiples of ``panel``, after first reaching a multiple of `TILE`."""
    while start < end:
        size = TILE if start % TILE else panel
        stop = min(end, (start // size + 1) * size)
        yield start, stop
        start = stop


def _mlp(layer: int, weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Both MLP matrices of a layer, the norm folded into the first."""
    mlp_in = fold_norm(weights[f"layer{layer}.norm2"], weights[f"layer{layer}.mlp_in"])
    return mlp_in, weights[f"layer{layer}.mlp_out"]


class Decoder:
    """Weights of a model on one device, and the forward passes over a session's state."""

    def __init__(self, config: ModelConfig, weights: dict[str, Tensor], length: int) -> None:
        self.config = config
        self.embed = weights["embed"]
        self.unit = UnitNorm(self.embed.device)
        self.rope = Rope(config, length, self.embed.device)
        layers = range(len(config.layers))
        self.mixers = [self._mixer(i, weights) for i in layers]
        self.mlps = [_mlp(i, weights) for i in layers]
        head = self.embed.T if config.tied_head else weights["head"]
        self.head = fold_norm(weights["final_norm"], head)
        self.ple = self._ple(weights) if config.ple_dim else None

    def _mixer(self, layer: int, weights: dict[str, Tensor]) -> Mixer:
        """A layer's mixer, its norm folded into the input projection."""
        prefix = f"layer{layer}.mixer."
        own = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        own["w_in"] = fold_norm(weights[f"layer{layer}.norm1"], own["w_in"])
        kind = self.config.layers[layer]
        if kind == "delta":
            return GatedDelta(self.config, own)
        if kind == "sliding":
            return SlidingAttention(self.config, own, self.rope)
        return SparseAttention(self.config, own, self.rope)

    def _ple(self, weights: dict[str, Tensor]) -> PerLayerEmbedding:
        """The per-layer embeddings; each layer's gate takes its stream as the layer's mixer does."""
        own = {k.removeprefix("ple."): v for k, v in weights.items() if k.startswith("ple.")}
        layers = range(len(self.config.layers))
        gates = [fold_norm(weights[f"layer{i}.norm1"], own[f"gate{i}"]) for i in layers]
        return PerLayerEmbedding(self.config, own, gates)

    def prefill(
        self,
        tokens: Tensor,
        start: int,
        states: list[Any],
        witness: Callable[[Tensor, int, Tensor], None] | None = None,
    ) -> Tensor:
        """Forward tokens (n,) i64 at ``start``; the last hidden row (1, d).

        Args:
            tokens: token ids.
            start: position of the first of them.
            states: state of each layer, then that of the per-layer embeddings where there are any.
            witness: called after each panel with its tokens, its start and its last hidden rows (n, d).
        """
        hidden = self.embed[:1]
        for low, high in panels(start, start + tokens.shape[0], self.config.panel):
            panel = tokens[low - start : high - start]
            x = self.embed.index_select(0, panel)
            embedded = None if self.ple is None else self.ple.forward(panel, states[-1])
            for layer, mixer in enumerate(self.mixers):
                x = self._layer(x, layer, mixer.prefill, low, states[layer], embedded)
            if witness is not None:
                witness(panel, low, x)
            hidden = x[-1:]
        return hidden

    def step(self, token: int, position: int, states: list[Any]) -> Tensor:
        """Forward one token at ``position``; its hidden row (1, d)."""
        x = self.embed[token : token + 1]
        embedded = None
        if self.ple is not None:
            embedded = self.ple.forward(torch.tensor([token], device=x.device), states[-1])
        for layer, mixer in enumerate(self.mixers):
            x = self._layer(x, layer, mixer.step, position, states[layer], embedded)
        return x

    def _layer(
        self,
        x: Tensor,
        layer: int,
        mix: Callable[[Tensor, int, Any], Tensor],
        at: int,
        state: Any,
        embedded: Tensor | None,
    ) -> Tensor:
        """One layer with its two residual branches, on top of its own embedding (n, ple_dim) if any; x (n, d)."""
        if self.ple is not None and embedded is not None:
            x = self.ple.add(x, self.unit(x), embedded, layer)
        x = x + mix(self.unit(x), at, state)
        mlp_in, mlp_out = self.mlps[layer]
        return x.add_(gated_mlp(self.unit(x), mlp_in, mlp_out))

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (vocab,) f32 of a hidden row (1, d)."""
        return (self.unit(hidden) @ self.head)[0]
