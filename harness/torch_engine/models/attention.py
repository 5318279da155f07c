"""Full attention with a sparse index.

Per token it stores a K row, a V row and a small index key; per complete block one pooled index row.
A query tile attends to the tile before it, causally to itself, and to the best-scoring blocks before
that. Prefill tiles are `TILE` tokens at absolute positions; in decode a tile is one token.
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
from harness.torch_engine.models.selection import (
    eligible_blocks,
    pick_blocks,
    pick_for_token,
    score_tiles,
)


@dataclass(slots=True)
class AttentionState:
    """Buffers of one layer, and how many rows of each are valid."""

    k: Rows
    """(capacity, kv_heads, head_dim), K element type."""
    v: Rows
    """(capacity, kv_heads, head_dim), V element type."""
    raw: Rows
    """(capacity, index_dim), one index key per token."""
    pooled: Rows
    """(capacity // pool, index_dim), one row per complete block."""
    kv_rows: int = 0
    raw_rows: int = 0
    pooled_rows: int = 0


class SparseAttention:
    """One attention layer; holds weights, not state."""

    def __init__(self, config: ModelConfig, weights: dict[str, Tensor], rope: Rope) -> None:
        self.config = config
        self.w_in = scale_queries(config, weights["w_in"])
        self.w_out = weights["w_out"]
        self.rope = rope
        self.causal = causal_bias(0, 1, None, self.w_in.device)

    def prefill(self, x: Tensor, start: int, state: AttentionState) -> Tensor:
        """Append x (n, d) at ``start`` and return (n, d); a start inside a tile ends with it."""
        q, index_query = self._project(x, start, state)
        return self._over_tiles(q, index_query, start, state) @ self.w_out

    def step(self, x: Tensor, start: int, state: AttentionState) -> Tensor:
        """Append one token x (1, d) and return (1, d)."""
        q, index_query = self._project(x, start, state)
        low = max(0, start // TILE * TILE - TILE)
        k, v = state.k[low : state.kv_rows].float(), state.v[low : state.kv_rows].float()
        blocks = self._eligible(start // TILE * TILE, state)
        if blocks:
            picks = min(self.config.top_blocks, blocks)
            chosen = pick_for_token(index_query, state.pooled[:blocks].float(), picks)
            k = torch.cat((self._blocks(state.k, chosen), k))
            v = torch.cat((self._blocks(state.v, chosen), v))
        out = attend(q[None].transpose(1, 2), k[None].transpose(1, 2), v[None].transpose(1, 2), None)
        return out.view(1, -1) @ self.w_out

    def _project(self, x: Tensor, start: int, state: AttentionState) -> tuple[Tensor, Tensor]:
        """Queries (n, heads, d) and index queries (n, index_dim); keys and values are appended."""
        c = self.config
        heads, count = c.q_heads + c.kv_heads, x.shape[0]
        sizes = [heads * c.head_dim, c.kv_heads * c.head_dim, c.index_dim, c.index_dim]
        qk, v, index_query, index_key = (x @ self.w_in).split_with_sizes(sizes, dim=-1)
        qk = self.rope.rotate(qk.reshape(count, heads, c.head_dim), start)
        self.append(qk[:, c.q_heads :], v.reshape(count, c.kv_heads, c.head_dim), index_key, state)
        return qk[:, : c.q_heads], index_query

    def append(self, k: Tensor, v: Tensor, index_key: Tensor, state: AttentionState) -> None:
        """Write the rows of new tokens, and the pooled rows of blocks that they complete."""
        at, end = state.kv_rows, state.kv_rows + k.shape[0]
        state.k[at:end] = k
        state.v[at:end] = v
        state.kv_rows = end
        state.raw[state.raw_rows : state.raw_rows + k.shape[0]] = index_key
        state.raw_rows += k.shape[0]
        done, total, pool = state.pooled_rows, state.raw_rows // self.config.pool, self.config.pool
        if total > done:
            blocks = state.raw[done * pool : total * pool].float().view(total - done, pool, -1)
            state.pooled[done:total] = blocks.sum(1) * (1.0 / pool)
            state.pooled_rows = total

    def _over_tiles(self, q: Tensor, index_query: Tensor, start: int, state: AttentionState) -> Tensor:
        """Attention output (n, q_heads * head_dim) of a panel."""
        count, base = q.shape[0], start // TILE * TILE
        tiles = -(-count // TILE)
        chosen, usable = self._choose(index_query[::TILE], base, tiles, state)
        picks = 0 if chosen is None else chosen.shape[1] * self.config.pool
        bias = self._bias(start, tiles, picks, usable)
        k = self._keys(state.k, state.kv_rows, base, tiles, chosen)
        v = self._keys(state.v, state.kv_rows, base, tiles, chosen)
        return untile(attend(tile_queries(q, tiles), k, v, bias), count)

    def _eligible(self, tile_start: int, state: AttentionState) -> int:
        """Blocks that the tile at ``tile_start`` may choose from."""
        return min(eligible_blocks(tile_start, TILE, self.config.pool), state.pooled_rows)

    def _choose(
        self, leading: Tensor, base: int, tiles: int, state: AttentionState
    ) -> tuple[Tensor | None, Tensor | None]:
        """Blocks (tiles, picks) and their usability, or None where no block is eligible."""
        pool = self.config.pool
        blocks = self._eligible(base + (tiles - 1) * TILE, state)
        if blocks == 0:
            return None, None
        scores = score_tiles(leading, state.pooled[:blocks].float(), base, TILE, pool, TILE)
        return pick_blocks(scores, min(self.config.top_blocks, blocks))

    def _blocks(self, rows: Rows, chosen: Tensor) -> Tensor:
        """Rows (chosen * pool, heads, d) of the chosen blocks in f32."""
        return rows.blocks(chosen.flatten(), self.config.pool)

    def _keys(self, rows: Rows, valid: int, base: int, tiles: int, chosen: Tensor | None) -> Tensor:
        """(tiles, kv_heads, keys, d) f32: chosen blocks, then the tile before, then the tile."""
        heads, width = rows.shape[1:]
        picks = 0 if chosen is None else chosen.shape[1] * self.config.pool
        keys = torch.empty((tiles, heads, picks + 2 * TILE, width), dtype=torch.float32, device=rows.device)
        if chosen is not None:
            gathered = self._blocks(rows, chosen).view(tiles, picks, heads, width)
            keys[:, :, :picks] = gathered.transpose(1, 2)
        low = max(0, base - TILE)
        fill_windows(keys[:, :, picks:], rows[low:valid].float(), low - (base - TILE))
        return keys

    def _bias(self, start: int, tiles: int, picks: int, usable: Tensor | None) -> Tensor:
        """(tiles, 1, TILE, keys) f32 with 0 where a query may look and -inf elsewhere."""
        shift = start % TILE
        local = self.causal if shift == 0 else causal_bias(shift, 1, None, self.causal.device)
        bias = torch.empty((tiles, 1, TILE, picks + 2 * TILE), device=local.device)
        bias[..., picks:] = local
        if start < TILE:
            bias[0, ..., picks : picks + TILE] = NEG_INF
        if usable is not None:
            seen = torch.where(usable, 0.0, NEG_INF).repeat_interleave(self.config.pool, 1)
            bias[..., :picks] = seen[:, None, None, :]
        return bias
