"""Gated delta net (Yang et al. 2024, "Gated Delta Networks"; as in Qwen3-Next).

Per token and value head, with state S (Dk, Dv) in f32:
``S = exp(g) S``; ``u = beta (v - S^T k)``; ``S = S + k u^T``; ``o = S^T q``.
Prefill uses the equivalent form over chunks of `TILE` tokens (WY form with a unit lower-triangular
solve), decode the recurrence itself. The two are not equal bit for bit, so which one runs is fixed by
the schedule. Both state buffers are overwritten in place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, silu, softplus

from harness.torch_engine.kv.elements import ELEMENT_TYPES, ElementType
from harness.torch_engine.models.config import TILE, ModelConfig
from harness.torch_engine.models.layers import UnitNorm


@dataclass(slots=True)
class DeltaState:
    """Buffers of one layer; zero after a reset."""

    recurrent: Tensor
    """(value_heads, Dk, Dv) as its element type stores it, in one stream."""
    conv: Tensor
    """(conv_dim, kernel - 1), the last raw columns before the convolution, oldest first."""
    element: ElementType = ELEMENT_TYPES["f32"]
    """How the recurrent state is stored between calls; arithmetic on it is f32."""
    seen: int = 0
    """Tokens forwarded since the reset."""

    def memory(self) -> Tensor:
        """The recurrent state in f32; of an f32 one the live buffer."""
        return self.element.decode((self.recurrent,))

    def keep(self, memory: Tensor) -> None:
        """Store the recurrent state."""
        (stored,) = self.element.encode(memory)
        self.recurrent.copy_(stored)


class GatedDelta:
    """One gated-delta layer; holds weights, not state."""

    def __init__(self, config: ModelConfig, weights: dict[str, Tensor]) -> None:
        self.config = config
        self.w_in = weights["w_in"]
        self.w_out = weights["w_out"]
        self.conv = weights["conv"]  # (kernel, conv_dim)
        self.decay = -torch.exp(weights["a_log"])  # (value_heads,)
        self.dt_bias = weights["dt_bias"]
        self.norm = weights["norm"] * math.sqrt(config.delta_dim)
        device = self.w_in.device
        self.unit = UnitNorm(device)
        self.upper = torch.ones((TILE, TILE), device=device).triu()
        hk, groups = config.delta_key_heads, config.delta_value_heads // config.delta_key_heads
        # (2 hk, 1): queries are scaled, keys are not; each is then repeated for its value heads
        scale = torch.tensor([1.0 / math.sqrt(config.delta_dim)] * hk + [1.0] * hk, device=device)
        self.qk_scale = scale[:, None]
        self.repeats = torch.arange(2 * hk, device=device).repeat_interleave(groups)

    def prefill(self, x: Tensor, start: int, state: DeltaState) -> Tensor:  # noqa: ARG002 - same call for all layers
        """Forward x (n, d) on top of the state and return (n, d)."""
        q, k, v, z, beta, g = self._inputs(x, state)
        tiles = -(-x.shape[0] // TILE)
        q, k, v, beta, g = (_tiled(t, tiles) for t in (q, k, v, beta, g))
        out = self._chunks(q, k, v, beta, g, state)
        # (tiles, heads, TILE, Dv) to (n, heads, Dv)
        rows = out.transpose(1, 2).reshape(tiles * TILE, self.config.delta_value_heads, -1)[: x.shape[0]]
        return self._output(rows, z)

    def step(self, x: Tensor, start: int, state: DeltaState) -> Tensor:  # noqa: ARG002 - same call for all layers
        """Forward one token x (1, d) by the recurrence and return (1, d)."""
        q, k, v, z, beta, g = self._inputs(x, state)
        memory = state.memory() * torch.exp(g).view(-1, 1, 1)
        key, query = k.transpose(0, 1), q.transpose(0, 1)  # (heads, 1, Dk)
        error = (v.transpose(0, 1) - torch.bmm(key, memory)) * beta.view(-1, 1, 1)
        memory = torch.baddbmm(memory, key.transpose(1, 2), error)
        state.keep(memory)
        return self._output(torch.bmm(query, memory).transpose(0, 1), z)

    def _inputs(self, x: Tensor, state: DeltaState) -> tuple[Tensor, ...]:
        """q, k, v, z (n, value_heads, width), beta and log decay g (n, value_heads)."""
        c, count = self.config, x.shape[0]
        hk, hv, dim = c.delta_key_heads, c.delta_value_heads, c.delta_dim
        mixed, z, b, a = (x @ self.w_in).split_with_sizes([c.conv_dim, hv * dim, hv, hv], dim=-1)
        mixed = silu(self._convolve(mixed, state))
        qk = mixed[:, : 2 * hk * dim].reshape(count, 2 * hk, dim)
        qk = self.unit(qk).mul_(self.qk_scale).index_select(1, self.repeats)
        q, k = qk[:, :hv], qk[:, hv:]
        v = mixed[:, 2 * hk * dim :].reshape(count, hv, dim)
        g = softplus(a + self.dt_bias) * self.decay
        return q, k, v, z.reshape(count, hv, dim), torch.sigmoid(b), g

    def _convolve(self, mixed: Tensor, state: DeltaState) -> Tensor:
        """Causal depthwise convolution of mixed (n, conv_dim); the state moves on by n columns."""
        count, taps = mixed.shape[0], self.config.conv_kernel
        history = torch.cat((state.conv.T.float(), mixed))
        state.conv.copy_(history[count:].T)
        state.seen += count
        out = history[:count] * self.conv[0]
        for tap in range(1, taps):
            out.addcmul_(history[tap : tap + count], self.conv[tap])
        return out

    def _chunks(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: DeltaState) -> Tensor:
        """The chunked delta rule over (tiles, heads, TILE, width) inputs; beta, g without width."""
        total = g @ self.upper  # inclusive running sum, as a product: a float cumsum may not repeat
        decay = (total[..., :, None] - total[..., None, :]).tril_().exp_().tril_()
        k_beta = k * beta[..., None]
        lower = torch.matmul(k_beta, k.transpose(-1, -2)).mul_(decay)
        right = torch.cat((v * beta[..., None], k_beta * total[..., None].exp()), dim=-1)
        solved = torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)
        new, from_state = solved.split_with_sizes([v.shape[-1], k.shape[-1]], dim=-1)
        last = total[..., -1:]
        keep = last.exp()[..., None]
        write = (k * (last - total).exp()[..., None]).transpose(-1, -2)
        states, fresh = self._scan(new, from_state, write, keep, state)
        inside = torch.matmul(q, k.transpose(-1, -2)).mul_(decay)
        return torch.matmul(q * total[..., None].exp(), states) + torch.matmul(inside, fresh)

    def _scan(
        self, new: Tensor, from_state: Tensor, write: Tensor, keep: Tensor, state: DeltaState
    ) -> tuple[Tensor, Tensor]:
        """Walk the chunks in order; the state before each chunk, and each chunk's new values."""
        memory = state.memory()
        states, fresh = [], []
        for t in range(new.shape[0]):
            states.append(memory)
            value = torch.baddbmm(new[t], from_state[t], memory, alpha=-1)
            fresh.append(value)
            memory = torch.baddbmm(memory * keep[t], write[t], value)
        before = torch.stack(states)  # a copy: the first of them may be the live buffer itself
        state.keep(memory)
        return before, torch.stack(fresh)

    def _output(self, out: Tensor, z: Tensor) -> Tensor:
        """Norm per head, gate, project: out and z (n, heads, Dv) to (n, d)."""
        return (self.unit(out).mul_(self.norm) * silu(z)).reshape(z.shape[0], -1) @ self.w_out


def _tiled(x: Tensor, tiles: int) -> Tensor:
    """(n, heads, …) to (tiles, heads, TILE, …), zero behind the end: a zero token changes nothing."""
    missing = tiles * TILE - x.shape[0]
    if missing:
        x = pad(x, [0, 0] * (x.dim() - 1) + [0, missing])
    return x.view(tiles, TILE, *x.shape[1:]).transpose(1, 2).contiguous()
