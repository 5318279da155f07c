"""Small pieces that all layers share: norm, MLP, rotary positions, grouped attention over tiles."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.torch_engine.models.config import TILE, ModelConfig

NORM_EPS = 1e-6
TURNED = 4096
"""Positions in a block of the rotary table."""
NEG_INF = float("-inf")


class UnitNorm:
    """x / (‖x‖ + eps) over the last dimension.

    With a weight times sqrt(width) this is a root-mean-square norm whose eps sits outside the root;
    that weight is folded into the matrix that follows, see `fold_norm`.
    """

    def __init__(self, device: torch.device) -> None:
        self.eps = torch.tensor(NORM_EPS, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        size: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / size.add_(self.eps)


def fold_norm(weight: Tensor, matrix: Tensor) -> Tensor:
    """Rows of ``matrix`` (d, out) times ``weight`` (d,) times sqrt(d); elementwise, so exact alike."""
    return matrix * (weight * math.sqrt(weight.shape[0]))[:, None]


def gated_mlp(x: Tensor, w_in: Tensor, w_out: Tensor) -> Tensor:
    """SiLU-gated MLP: x (n, d), ``w_in`` (d, 2 ff) holds gate then up, ``w_out`` (ff, d)."""
    gate, up = (x @ w_in).chunk(2, dim=-1)
    return torch.nn.functional.silu(gate).mul_(up) @ w_out


class Rope:
    """Rotary positions (Su et al. 2021), rotate-half form, from a table over absolute positions."""

    def __init__(self, config: ModelConfig, length: int, device: torch.device) -> None:
        self.half = config.head_dim // 2
        self.cos, self.sin = _turns(float(config.rope_base), self.half, length, device)

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """Rotate x (n, heads, head_dim), whose rows sit at positions ``start`` and up."""
        end = start + x.shape[0]
        turned = torch.roll(x, self.half, -1)
        return (x * self.cos[start:end]).addcmul_(turned, self.sin[start:end])


def _turns(base: float, half: int, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines (length, 1, 2 half): one row per position, for all heads and models; only read."""
    longest = _longest(base, half, device)
    if not longest or len(longest[0][0]) < length:
        blocks = [_turned(base, half, at) for at in range(-(-length // TURNED))]
        cos, sin = (torch.from_numpy(np.concatenate(columns)).to(device) for columns in zip(*blocks, strict=True))
        longest[:] = [(cos, sin)]
    cos, sin = longest[0]
    return cos[:length], sin[:length]


@lru_cache(maxsize=8)
def _longest(base: float, half: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:  # noqa: ARG001 - the key
    """Where the longest tables so far are kept, of which shorter ones are the first rows; empty before the first."""
    return []


@lru_cache(maxsize=64)
def _turned(base: float, half: int, block: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """`TURNED` rows of both tables; blocks start at fixed positions, so that models of any length share them."""
    inverse = base ** (-np.arange(half, dtype=np.float64) / half)
    angles = np.arange(block * TURNED, (block + 1) * TURNED, dtype=np.float64)[:, None] * inverse[None, :]
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return np.concatenate((cos, cos), 1)[:, None, :], np.concatenate((-sin, sin), 1)[:, None, :]


def scale_queries(config: ModelConfig, w_in: Tensor) -> Tensor:
    """The input projection with its query columns, which come first, times 1 / sqrt(head_dim)."""
    scaled = w_in.clone()
    scaled[:, : config.q_heads * config.head_dim] *= 1.0 / math.sqrt(config.head_dim)
    return scaled


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Grouped softmax attention, written out so that every device runs the same formula.

    Args:
        q: (tiles, q_heads, queries, d), already scaled.
        k: (tiles, kv_heads, keys, d).
        v: (tiles, kv_heads, keys, d).
        bias: (tiles, 1, queries, keys) with 0 or -inf, or None.

    Returns:
        (tiles, q_heads, queries, d).
    """
    tiles, q_heads, queries, width = q.shape
    kv_heads, keys = k.shape[1], k.shape[2]
    grouped = q.reshape(tiles, kv_heads, -1, width)
    scores = torch.matmul(grouped, k.transpose(-1, -2))
    if bias is not None:
        scores.view(tiles, q_heads, queries, keys).add_(bias)
    return torch.matmul(torch.softmax(scores, -1), v).view(tiles, q_heads, queries, width)


def tile_queries(q: Tensor, tiles: int) -> Tensor:
    """Queries (n, heads, d) to (tiles, heads, TILE, d); missing queries are zero and get dropped later."""
    heads, width = q.shape[1:]
    padded = q.new_zeros((tiles * TILE, heads, width))
    padded[: q.shape[0]] = q
    return padded.view(tiles, TILE, heads, width).transpose(1, 2)


def untile(out: Tensor, count: int) -> Tensor:
    """The first ``count`` rows of (tiles, heads, TILE, d) as (count, heads * d)."""
    tiles, heads, _, width = out.shape
    return out.transpose(1, 2).reshape(tiles * TILE, heads * width)[:count]


def fill_windows(target: Tensor, rows: Tensor, offset: int) -> None:
    """Give each query tile its own window of consecutive rows.

    Args:
        target: (tiles, heads, back * TILE + TILE, d), overwritten.
        rows: (n, heads, d), the rows that exist.
        offset: where the first row sits in the span that starts ``back`` tiles before the first
            query tile; the span is zero elsewhere, so memory past the valid rows is never read.
    """
    tiles, heads, keys, width = target.shape
    blocks = tiles - 1 + keys // TILE
    span = target.new_zeros((blocks * TILE, heads, width))
    span[offset : offset + rows.shape[0]] = rows
    by_block = span.view(blocks, TILE, heads, width).transpose(1, 2)
    for i in range(keys // TILE):
        target[:, :, i * TILE : (i + 1) * TILE] = by_block[i : i + tiles]


def causal_bias(shift: int, back: int, window: int | None, device: torch.device) -> Tensor:
    """Bias (TILE, back * TILE + TILE) of a tile whose first query is ``shift`` into the tile.

    Args:
        shift: offset of the first query from the tile's start, 0..TILE-1.
        back: whole tiles before the query tile that the keys begin with.
        window: number of last keys a query sees, itself included, or None for all.
        device: where the bias is made.
    """
    query = torch.arange(TILE, device=device)[:, None] + shift + back * TILE
    key = torch.arange((back + 1) * TILE, device=device)[None, :]
    seen = key <= query
    if window is not None:
        seen = seen & (key > query - window)
    return torch.where(seen, 0.0, NEG_INF)
