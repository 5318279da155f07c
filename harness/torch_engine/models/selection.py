"""The sparse index: which pooled blocks a query tile attends to.

A pooled row is the mean of the index keys of one complete block of ``pool`` tokens, so pooled rows
are append-only. A tile is scored by its first query, which keeps the choice causal. Ties go to the
lower block, by construction.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.torch_engine.devices import sorts_stably
from harness.torch_engine.models.layers import NEG_INF


def eligible_blocks(tile_start: int, local: int, pool: int) -> int:
    """How many pooled blocks end at or before the local window of the tile at ``tile_start``."""
    return max(0, tile_start - local) // pool


def score_tiles(leading: Tensor, pooled: Tensor, first_tile: int, local: int, pool: int, tile: int) -> Tensor:
    """Scores (tiles, blocks) of the pooled rows for each tile, -inf where not eligible.

    Args:
        leading: (tiles, index_dim), the index query of each tile's first token.
        pooled: (blocks, index_dim), rows eligible for the last tile.
        first_tile: absolute start of the first tile.
        local: tokens of the local window before a tile.
        pool: tokens per block.
        tile: tokens per tile.
    """
    scores = leading @ pooled.T
    device = scores.device
    start = torch.arange(leading.shape[0], device=device)[:, None] * tile + (first_tile - local)
    end = (torch.arange(pooled.shape[0], device=device)[None, :] + 1) * pool
    return scores.masked_fill_(end > start, NEG_INF)


def pick_blocks(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` best columns of every row, best first, the lower one among equals.

    The best score is found first, then the lowest block that has it, ``count`` times.

    Args:
        scores: (tiles, blocks) f32, -inf where a block must not be chosen; overwritten.
        count: how many to pick, at most ``blocks``.

    Returns:
        The columns (tiles, count) i64 and whether each was choosable (tiles, count) bool; a column
        that was not choosable is 0, so that a gather with it stays inside the valid rows.
    """
    blocks = scores.shape[1]
    # column numbers as f32: exact below 2^24, and no integer reduction that a device may lack
    column = torch.arange(blocks, dtype=torch.float32, device=scores.device)
    picked, usable = [], []
    for _ in range(count):
        best = scores.amax(1, keepdim=True)
        first = torch.where(scores == best, column, float(blocks)).amin(1, keepdim=True)
        ok = best > NEG_INF
        picked.append(torch.where(ok, first, 0.0))
        usable.append(ok)
        scores.masked_fill_(column == first, NEG_INF)
    return torch.cat(picked, 1).long(), torch.cat(usable, 1)


def pick_for_token(index_query: Tensor, pooled: Tensor, count: int) -> Tensor:
    """The ``count`` best blocks (count,) i64 for one token; as `pick_blocks`, in fewer calls.

    Args:
        index_query: (1, index_dim).
        pooled: (blocks, index_dim), all of them eligible.
        count: how many to pick, at most ``blocks``.
    """
    scores = index_query @ pooled.T
    if sorts_stably(scores.device):
        return torch.sort(scores[0], dim=0, stable=True, descending=True).indices[:count]
    return pick_blocks(scores, count)[0][0]
