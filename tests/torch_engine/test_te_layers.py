"""The layers compute what their formulas say, and never read memory past the valid rows.

References are written token by token in float64; equality is within a tolerance, since bit equality
is claimed for one schedule only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.torch_engine.kv.elements import ELEMENT_TYPES
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.models.attention import AttentionState, SparseAttention
from harness.torch_engine.models.config import ModelConfig, model_config
from harness.torch_engine.models.decoder import panels, weight_specs
from harness.torch_engine.models.delta import DeltaState, GatedDelta
from harness.torch_engine.models.layers import Rope
from harness.torch_engine.models.selection import pick_blocks, pick_for_token
from harness.torch_engine.models.sliding import SlidingAttention, SlidingState
from harness.torch_engine.weights import make_tensor

TINY = model_config("tiny", "hybrid")
CPU = torch.device("cpu")
LENGTH = 1024


def weights_of(config: ModelConfig, layer: int) -> dict[str, Tensor]:
    """Weights of one mixer."""
    prefix = f"layer{layer}.mixer."
    return {
        name.removeprefix(prefix): torch.from_numpy(make_tensor(0, name, spec))
        for name, spec in weight_specs(config).items()
        if name.startswith(prefix)
    }


def inputs(count: int, seed: int = 0) -> Tensor:
    """Unit-size inputs (count, d)."""
    generator = np.random.default_rng(seed)
    return torch.from_numpy(generator.standard_normal((count, TINY.d_model)).astype(np.float32) / 8)


def delta() -> tuple[GatedDelta, DeltaState]:
    """A gated-delta layer and its zero state."""
    state = DeltaState(recurrent=torch.zeros(2, 32, 32), conv=torch.zeros(TINY.conv_dim, 3))
    return GatedDelta(TINY, weights_of(TINY, 0)), state


def attention(top_blocks: int = 4) -> tuple[SparseAttention, AttentionState]:
    """An attention layer, and buffers whose unused rows are NaN."""
    config = replace(TINY, top_blocks=top_blocks)
    shapes = ((LENGTH, 2, 32), (LENGTH, 2, 32), (LENGTH, 16), (LENGTH // 32, 16))
    buffers = [Rows(ELEMENT_TYPES["f32"], [torch.full(shape, float("nan"))]) for shape in shapes]
    layer = SparseAttention(config, weights_of(TINY, 1), Rope(config, LENGTH, CPU))
    k, v, raw, pooled = buffers
    return layer, AttentionState(k=k, v=v, raw=raw, pooled=pooled)


def plain() -> Rows:
    """A ring of zeros."""
    return Rows(ELEMENT_TYPES["f32"], [torch.zeros(128, 2, 32)])


def sliding() -> tuple[SlidingAttention, SlidingState]:
    """A sliding-window layer of 128 tokens and its empty ring."""
    config = model_config("tiny", "sliding")
    state = SlidingState(k=plain(), v=plain())
    return SlidingAttention(config, weights_of(config, 0), Rope(config, LENGTH, CPU)), state


def by_token(layer, state, x: Tensor, start: int = 0) -> Tensor:  # type: ignore[no-untyped-def]
    """Every token through `step`."""
    return torch.cat([layer.step(x[i : i + 1], start + i, state) for i in range(x.shape[0])])


def in_panels(layer, state, x: Tensor, start: int = 0, panel: int = 256) -> Tensor:  # type: ignore[no-untyped-def]
    """Through `prefill`, cut as the decoder cuts."""
    spans = panels(start, start + x.shape[0], panel)
    return torch.cat([layer.prefill(x[a - start : b - start], a, state) for a, b in spans])


def close(found: Tensor, expected: Tensor) -> bool:
    """Equal within the tolerance of float32."""
    return bool(torch.allclose(found, expected, rtol=1e-4, atol=2e-5))


def test_panels_reach_a_tile_first_and_then_absolute_multiples() -> None:
    spans = list(panels(70, 700, 256))

    assert spans == [(70, 128), (128, 256), (256, 512), (512, 700)]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 300])
def test_the_chunked_delta_rule_equals_the_recurrence(count: int) -> None:
    layer, state = delta()
    _, other = delta()
    x = inputs(count)

    chunked, stepped = in_panels(layer, state, x), by_token(layer, other, x)

    assert close(chunked, stepped)
    assert close(state.recurrent, other.recurrent)
    assert torch.equal(state.conv, other.conv) or close(state.conv, other.conv)


@pytest.mark.parametrize("cut", [64, 128, 192])
def test_the_delta_rule_split_at_chunk_ends_is_the_same_bit_for_bit(cut: int) -> None:
    layer, state = delta()
    _, other = delta()
    x = inputs(256)

    whole = layer.prefill(x, 0, state)
    split = torch.cat((layer.prefill(x[:cut], 0, other), layer.prefill(x[cut:], cut, other)))

    assert torch.equal(whole, split)
    assert torch.equal(state.recurrent, other.recurrent)


def test_an_old_state_matters_to_the_delta_rule() -> None:
    layer, state = delta()
    _, fresh = delta()
    in_panels(layer, state, inputs(64))

    x = inputs(8, seed=1)

    assert not close(layer.prefill(x, 64, state), layer.prefill(x, 64, fresh))


def test_a_conv_state_shorter_than_its_kernel_keeps_older_columns() -> None:
    layer, state = delta()
    _, other = delta()
    x = inputs(5)

    by_token(layer, state, x)
    layer.prefill(x, 0, other)

    assert close(state.conv, other.conv)
    assert state.seen == other.seen == 5


def dense_reference(layer: SparseAttention, x: Tensor) -> Tensor:
    """Full causal attention in float64, token by token."""
    c = layer.config
    heads, dim = c.q_heads + c.kv_heads, c.head_dim
    projected = x @ layer.w_in
    qk = layer.rope.rotate(projected[:, : heads * dim].reshape(-1, heads, dim), 0).double()
    v = projected[:, heads * dim : heads * dim + c.kv_heads * dim].reshape(-1, c.kv_heads, dim)
    out = torch.zeros(x.shape[0], c.q_heads, dim, dtype=torch.float64)
    for t in range(x.shape[0]):
        for h in range(c.q_heads):
            group = h // (c.q_heads // c.kv_heads)
            scores = qk[: t + 1, c.q_heads + group] @ qk[t, h]
            out[t, h] = torch.softmax(scores, 0) @ v[: t + 1, group].double()
    return out.reshape(x.shape[0], -1).float() @ layer.w_out


@pytest.mark.parametrize("count", [1, 64, 128])
def test_attention_inside_the_local_window_is_full_causal_attention(count: int) -> None:
    layer, state = attention()
    x = inputs(count)

    out = in_panels(layer, state, x)

    assert close(out, dense_reference(layer, x))
    assert not torch.isnan(out).any()


@pytest.mark.parametrize("count", [200, 330])
def test_attention_that_may_choose_every_block_is_full_causal_attention(count: int) -> None:
    layer, state = attention(top_blocks=100)
    _, other = attention()
    x = inputs(count)

    prefilled, stepped = in_panels(layer, state, x), by_token(layer, other, x)

    assert close(prefilled, dense_reference(layer, x))
    assert close(stepped, dense_reference(layer, x))


def test_attention_chooses_few_blocks_and_the_choice_matters() -> None:
    layer, state = attention(top_blocks=1)
    other_layer, other = attention(top_blocks=4)
    x = inputs(512)

    one, four = in_panels(layer, state, x), in_panels(other_layer, other, x)

    assert close(one[:128], four[:128])
    assert not close(one[320:], four[320:])


def test_rows_below_a_boundary_are_never_written_again() -> None:
    layer, state = attention()
    x = inputs(512)
    in_panels(layer, state, x[:200])
    before = [t[:200].float().clone() for t in (state.k, state.v, state.raw)] + [state.pooled[:6].float().clone()]

    in_panels(layer, state, x[200:], start=200)

    after = [t[:200].float() for t in (state.k, state.v, state.raw)] + [state.pooled[:6].float()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_pooled_rows_are_means_of_complete_blocks_only() -> None:
    layer, state = attention()

    in_panels(layer, state, inputs(100))
    by_token(layer, state, inputs(30, seed=2), start=100)

    assert (state.kv_rows, state.raw_rows, state.pooled_rows) == (130, 130, 4)
    means = state.raw[:128].float().view(4, 32, -1).mean(1)
    assert close(state.pooled[:4].float(), means)
    assert torch.isnan(state.pooled[4:].float()).all()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 255, 256, 300])
def test_the_ring_sees_exactly_the_last_window_of_tokens(count: int) -> None:
    layer, state = sliding()
    _, other = sliding()
    x = inputs(count)

    prefilled, stepped = in_panels(layer, state, x), by_token(layer, other, x)

    assert close(prefilled, stepped)
    assert close(state.k.float(), other.k.float())
    assert state.seen == other.seen == count


def test_a_token_that_left_the_window_no_longer_matters() -> None:
    layer, state = sliding()
    _, other = sliding()
    x, changed = inputs(300), inputs(300)
    changed[0] += 1.0

    out, out_changed = in_panels(layer, state, x), in_panels(layer, other, changed)

    assert torch.equal(out[128:], out_changed[128:])
    assert not torch.equal(out[127], out_changed[127])


def test_the_best_blocks_come_first_and_ties_go_to_the_lower_block() -> None:
    scores = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])

    chosen, usable = pick_blocks(scores, 4)

    assert chosen.tolist() == [[1, 2, 4, 3], [0, 1, 2, 3]]
    assert usable.all()


def test_a_block_that_must_not_be_chosen_is_marked() -> None:
    scores = torch.tensor([[float("-inf"), 1.0, float("-inf")]])

    chosen, usable = pick_blocks(scores, 2)

    assert chosen.tolist() == [[1, 0]]
    assert usable.tolist() == [[True, False]]


def test_both_ways_of_choosing_agree_also_on_ties() -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        pooled = torch.from_numpy(generator.integers(-1, 2, (40, 4)).astype(np.float32))
        query = torch.from_numpy(generator.integers(-1, 2, (1, 4)).astype(np.float32))

        chosen, _ = pick_blocks(query @ pooled.T, 4)

        assert pick_for_token(query, pooled, 4).tolist() == chosen[0].tolist()
