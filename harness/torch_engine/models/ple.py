"""Per-layer embeddings: a row for each layer, looked up by a token and the two before it, then convolved over time.

Each token has a row of its own, and one of a table that a hash of the token and its two predecessors picks. Their sum
passes a causal depthwise convolution; each layer takes its own slice, gated by the residual stream.

What is kept between calls: the convolution's last raw columns, and the last two tokens, without which the next row of
the table cannot be found. Both are overwritten in place. Every step is elementwise or a lookup, so how calls divide the
tokens changes no bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import silu

from harness.torch_engine.models.config import ModelConfig

BEFORE = 2
"""Tokens before the present one that its row depends on."""
NO_TOKEN = -1
"""Stands for a token before the first."""
_FACTORS = (0x9E3B, 0x85EBCA6B, 0xC2B2AE35)


@dataclass(slots=True)
class PleState:
    """Buffers of the embeddings of all layers."""

    conv: Tensor
    """(layers * ple_dim, kernel - 1) f32, the last raw columns before the convolution, oldest first."""
    tokens: Tensor
    """(BEFORE,) i64, the last tokens, newest last; `NO_TOKEN` where there is none."""
    seen: int = 0
    """Tokens forwarded since the reset."""


class PerLayerEmbedding:
    """The embeddings of all layers; holds weights, not state.

    Args:
        config: sizes; ``ple_dim`` is above 0.
        weights: those of `weight_specs` that begin with ``ple.``, without that.
        gates: (d, ple_dim) of each layer, its norm folded in.
    """

    def __init__(self, config: ModelConfig, weights: dict[str, Tensor], gates: list[Tensor]) -> None:
        self.config = config
        self.own, self.table, self.taps = weights["own"], weights["table"], weights["conv"]
        self.gates = gates
        self.ups = [weights[f"up{i}"] for i in range(len(config.layers))]

    def forward(self, tokens: Tensor, state: PleState) -> Tensor:
        """Embeddings (n, layers, ple_dim) of tokens (n,) i64; the state moves on by n."""
        known = torch.cat((state.tokens, tokens))
        raw = self.own.index_select(0, tokens) + self.table.index_select(0, self.rows(known))
        state.tokens.copy_(known[-BEFORE:])
        out = silu(self._convolve(raw, state))
        return out.view(tokens.shape[0], len(self.config.layers), self.config.ple_dim)

    def rows(self, known: Tensor) -> Tensor:
        """Row numbers (n,) of the table for all but the first `BEFORE` of known tokens (n + BEFORE,)."""
        count = known.shape[0] - BEFORE
        mixed = sum((known[BEFORE - back : BEFORE - back + count] + 1) * factor for back, factor in enumerate(_FACTORS))
        return torch.remainder(torch.as_tensor(mixed), self.config.ple_rows)

    def add(self, x: Tensor, normed: Tensor, embedded: Tensor, layer: int) -> Tensor:
        """The residual stream x (n, d) with a layer's embedding; ``normed`` is x normed."""
        gate = silu(normed @ self.gates[layer])
        return x + (embedded[:, layer] * gate) @ self.ups[layer]

    def _convolve(self, raw: Tensor, state: PleState) -> Tensor:
        """Causal depthwise convolution of raw (n, channels); the state moves on by n columns."""
        count, kernel = raw.shape[0], self.config.conv_kernel
        history = torch.cat((state.conv.T.float(), raw))
        state.conv.copy_(history[count:].T)
        state.seen += count
        out = history[:count] * self.taps[0]
        for tap in range(1, kernel):
            out.addcmul_(history[tap : tap + count], self.taps[tap])
        return out
