"""The draft head: one full-attention layer that guesses the token after next.

Its input at position p is the embedding of token p + 1 and the target's last hidden row at p, each
normed, side by side, projected to the model's width. So its own K, V and index rows stay one position
behind the target's. The target's output matrix is shared.

Rows of tokens that the target has forwarded come from the target's hidden rows, never from a draft's, and
one call appends them without any attention: they are a function of the tokens alone. The blocks that a
tile attends to are chosen by the tile's first query and then kept, which makes the choice state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.torch_engine.models.attention import AttentionState, SparseAttention
from harness.torch_engine.models.config import TILE, ModelConfig
from harness.torch_engine.models.decoder import log2_fan_in, mixer_specs
from harness.torch_engine.models.layers import Rope, UnitNorm, attend, fold_norm, gated_mlp
from harness.torch_engine.models.selection import pick_for_token
from harness.torch_engine.weights import WeightSpec

UNCHOSEN = -1
"""Fills the places of a selection that hold no block."""


def draft_specs(config: ModelConfig) -> dict[str, WeightSpec]:
    """Every weight of the head by full name, in a fixed order; the target's own are not among them."""
    d, ff = config.d_model, config.d_ff
    norm = WeightSpec(shape=(d,), log2_scale=-3, centre=1.0)
    specs = {
        "draft.norm_embed": norm,
        "draft.norm_hidden": norm,
        "draft.project": WeightSpec(shape=(2 * d, d), log2_scale=log2_fan_in(2 * d)),
        "draft.norm1": norm,
    }
    specs |= {f"draft.mixer.{name}": spec for name, spec in mixer_specs(config, "attention").items()}
    specs["draft.norm2"] = norm
    specs["draft.mlp_in"] = WeightSpec(shape=(d, 2 * ff), log2_scale=log2_fan_in(d))
    specs["draft.mlp_out"] = WeightSpec(shape=(ff, d), log2_scale=log2_fan_in(ff))
    specs["draft.final_norm"] = norm
    return specs


class DraftAttention(SparseAttention):
    """Full attention whose choice of blocks is handed in and out; holds weights, not state."""

    def absorb(self, x: Tensor, start: int, state: AttentionState, selection: Tensor) -> None:
        """Append the rows of x (n, d) at ``start``; the last tile's choice is renewed if it begins in x."""
        _, index_query = self._project(x, start, state)
        base = (start + x.shape[0] - 1) // TILE * TILE
        if base >= start:
            self.select(index_query[base - start : base - start + 1], base, state, selection)

    def select(self, index_query: Tensor, base: int, state: AttentionState, selection: Tensor) -> None:
        """Choose the blocks of the tile at ``base`` by its first query (1, index_dim)."""
        blocks = self._eligible(base, state)
        selection.fill_(UNCHOSEN)
        if blocks:
            picks = min(self.config.top_blocks, blocks)
            selection[:picks] = pick_for_token(index_query, state.pooled[:blocks].float(), picks)

    def follow(self, x: Tensor, start: int, state: AttentionState, selection: Tensor) -> Tensor:
        """Append one token x (1, d) and return (1, d), attending to the tile's chosen blocks."""
        q, index_query = self._project(x, start, state)
        base = start // TILE * TILE
        if base == start:
            self.select(index_query, base, state, selection)
        low = max(0, base - TILE)
        k, v = state.k[low : state.kv_rows].float(), state.v[low : state.kv_rows].float()
        blocks = self._eligible(base, state)
        if blocks:
            chosen = selection[: min(self.config.top_blocks, blocks)].clamp(0, blocks - 1)
            k = torch.cat((self._blocks(state.k, chosen), k))
            v = torch.cat((self._blocks(state.v, chosen), v))
        out = attend(q[None].transpose(1, 2), k[None].transpose(1, 2), v[None].transpose(1, 2), None)
        return out.view(1, -1) @ self.w_out


class DraftHead:
    """Weights of the head on one device, and its passes over a session's draft state."""

    def __init__(
        self, config: ModelConfig, weights: dict[str, Tensor], embed: Tensor, head: Tensor, rope: Rope
    ) -> None:
        self.config = config
        self.embed = embed
        self.unit = UnitNorm(embed.device)
        norms = torch.cat((weights["draft.norm_embed"], weights["draft.norm_hidden"]))
        scale = float(config.d_model) ** 0.5
        self.project = weights["draft.project"] * (norms * scale)[:, None]
        prefix = "draft.mixer."
        own = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        own["w_in"] = fold_norm(weights["draft.norm1"], own["w_in"])
        self.mixer = DraftAttention(config, own, rope)
        self.mlp_in = fold_norm(weights["draft.norm2"], weights["draft.mlp_in"])
        self.mlp_out = weights["draft.mlp_out"]
        self.head = fold_norm(weights["draft.final_norm"], head)

    def combine(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """The layer's input (n, d) from the next tokens (n,) i64 and the hidden rows (n, d) before them."""
        embedded = self.unit(self.embed.index_select(0, tokens))
        combined: Tensor = torch.cat((embedded, self.unit(hidden)), dim=-1) @ self.project
        return combined

    def absorb(self, tokens: Tensor, hidden: Tensor, start: int, state: AttentionState, selection: Tensor) -> None:
        """Append the rows of positions ``start`` and up.

        Args:
            tokens: (n,) i64, the token after each position.
            hidden: (n, d), the target's last hidden row at each position.
            start: first position.
            state: the head's rows.
            selection: (top_blocks,) i64, the choice of the tile of the last row.
        """
        if tokens.shape[0]:
            self.mixer.absorb(self.unit(self.combine(tokens, hidden)), start, state, selection)

    def step(self, token: int, hidden: Tensor, position: int, state: AttentionState, selection: Tensor) -> Tensor:
        """Forward the guess after ``token``, which follows ``hidden`` (1, d) at ``position``; (1, d)."""
        x = self.combine(torch.tensor([token], device=hidden.device), hidden)
        x = x + self.mixer.follow(self.unit(x), position, state, selection)
        out: Tensor = x.add_(gated_mlp(self.unit(x), self.mlp_in, self.mlp_out))
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (vocab,) f32 of a hidden row (1, d)."""
        return (self.unit(hidden) @ self.head)[0]
