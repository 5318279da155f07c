"""Sliding-window attention: K and V of the last ``window`` tokens in a ring.

A full ring is overwritten in place, so it is a fixed part of the state and not a row stream. The
token at position p sits in slot p modulo ``window``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.models.config import TILE, ModelConfig
from harness.torch_engine.models.layers import (
    NEG_INF,
    Rope,
    attend,
    causal_bias,
    fill_windows,
    scale_queries,
    tile_queries,
    untile,
)


@dataclass(slots=True)
class SlidingState:
    """Ring buffers of one layer; slots never written are zero."""

    k: Rows
    """(window, kv_heads, head_dim), K element type."""
    v: Rows
    """(window, kv_heads, head_dim), V element type."""
    seen: int = 0
    """Tokens appended since the reset; the ring holds the last ``min(seen, window)``."""


class SlidingAttention:
    """One sliding-window layer; holds weights, not state."""

    def __init__(self, config: ModelConfig, weights: dict[str, Tensor], rope: Rope) -> None:
        self.config = config
        self.w_in = scale_queries(config, weights["w_in"])
        self.w_out = weights["w_out"]
        self.rope = rope
        self.back = config.window // TILE
        self.causal = self._causal(0)

    def _causal(self, shift: int) -> Tensor:
        return causal_bias(shift, self.back, self.config.window, self.w_in.device)

    def prefill(self, x: Tensor, start: int, state: SlidingState) -> Tensor:
        """Append x (n, d) at ``start`` and return (n, d); a start inside a tile ends with it."""
        q, *projected = self._project(x, start)
        k, v = (ring.encoded(values) for ring, values in zip((state.k, state.v), projected, strict=True))
        tiles = -(-x.shape[0] // TILE)
        keys, values = (self._windows(r, n, start, tiles) for r, n in ((state.k, k), (state.v, v)))
        out = attend(tile_queries(q, tiles), keys, values, self._bias(start, tiles))
        self.append(k, v, state)
        return untile(out, x.shape[0]) @ self.w_out

    def step(self, x: Tensor, start: int, state: SlidingState) -> Tensor:
        """Append one token x (1, d) and return (1, d)."""
        q, k, v = self._project(x, start)
        self.append(state.k.encoded(k), state.v.encoded(v), state)
        count = min(state.seen, self.config.window)
        keys, values = state.k[:count].float()[None], state.v[:count].float()[None]
        out = attend(q[None].transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), None)
        return out.view(1, -1) @ self.w_out

    def _project(self, x: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (n, heads, head_dim)."""
        c = self.config
        heads, count = c.q_heads + c.kv_heads, x.shape[0]
        qk, v = (x @ self.w_in).split_with_sizes([heads * c.head_dim, c.kv_heads * c.head_dim], dim=-1)
        qk = self.rope.rotate(qk.reshape(count, heads, c.head_dim), start)
        v = v.reshape(count, c.kv_heads, c.head_dim)
        return qk[:, : c.q_heads], qk[:, c.q_heads :], v

    def append(self, k: Rows, v: Rows, state: SlidingState) -> None:
        """Put the last ``window`` of the new rows into their slots."""
        window = self.config.window
        count = min(len(k), window)
        at = (state.seen + len(k) - count) % window
        first = min(count, window - at)
        for ring, rows in ((state.k, k[len(k) - count :]), (state.v, v[len(v) - count :])):
            ring.put(slice(at, at + first), rows[:first])
            ring.put(slice(0, count - first), rows[first:])
        state.seen += len(k)

    def _windows(self, ring: Rows, new: Rows, start: int, tiles: int) -> Tensor:
        """(tiles, kv_heads, window + TILE, d) f32: each tile's keys, oldest first."""
        window, heads, width = ring.shape
        at = start % window
        parts = (ring[at:], ring[:at], new) if start >= window else (ring[:start], new)
        held = torch.cat([part.float() for part in parts])
        keys = torch.empty((tiles, heads, window + TILE, width), dtype=torch.float32, device=ring.device)
        oldest = start + len(new) - held.shape[0]
        fill_windows(keys, held, oldest - (start // TILE * TILE - window))
        return keys

    def _bias(self, start: int, tiles: int) -> Tensor:
        """(tiles, 1, TILE, window + TILE) f32 with 0 where a query may look and -inf elsewhere."""
        shift = start % TILE
        local = self.causal if shift == 0 else self._causal(shift)
        bias = local.expand(tiles, 1, *local.shape).clone()
        for t in range(min(tiles, self.back)):
            absent = self.config.window - (start // TILE + t) * TILE
            if absent > 0:
                bias[t, ..., :absent] = NEG_INF
        return bias
