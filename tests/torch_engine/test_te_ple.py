"""Per-layer embeddings: what they depend on, and that they come back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.torch_engine.models.config import model_config
from harness.torch_engine.models.ple import NO_TOKEN, PerLayerEmbedding, PleState
from tests.torch_engine.support import shared_engine

TOKENS = torch.tensor([9, 300, 41, 41, 7, 500, 12, 13, 77, 78, 100])


def fresh() -> PleState:
    layout = shared_engine("ple").open_session().layout("session")
    return PleState(conv=layout.part("ple.conv").tensor, tokens=layout.part("ple.tokens").tensor)


def embedding() -> PerLayerEmbedding:
    ple = shared_engine("ple").model.decoder.ple
    assert ple is not None
    return ple


def in_parts(*ends: int) -> tuple[Tensor, PleState]:
    state, start, found = fresh(), 0, []
    with torch.inference_mode():
        for end in (*ends, len(TOKENS)):
            found.append(embedding().forward(TOKENS[start:end], state))
            start = end
    return torch.cat(found), state


@pytest.mark.parametrize("ends", [(1,), (2,), (1, 2, 3), (5, 6), tuple(range(1, 11))])
def test_how_calls_divide_the_tokens_changes_no_bit(ends: tuple[int, ...]) -> None:
    whole, after = in_parts()
    parts, at_last = in_parts(*ends)
    assert torch.equal(whole, parts)
    assert torch.equal(after.conv, at_last.conv)
    assert torch.equal(after.tokens, at_last.tokens)
    assert after.seen == at_last.seen == len(TOKENS)


@pytest.mark.parametrize("back", [1, 2])
def test_the_row_of_a_token_depends_on_the_two_before_it(back: int) -> None:
    known = torch.cat((torch.tensor([NO_TOKEN, NO_TOKEN]), TOKENS))
    other = known.clone()
    other[-1 - back] += 1
    assert embedding().rows(known)[-1] != embedding().rows(other)[-1]


def test_the_row_of_a_token_depends_on_no_other() -> None:
    known = torch.cat((torch.tensor([NO_TOKEN, NO_TOKEN]), TOKENS))
    other = known.clone()
    other[-4] += 1
    assert embedding().rows(known)[-1] == embedding().rows(other)[-1]


def test_a_reset_session_has_seen_no_token() -> None:
    session = shared_engine("ple").open_session()
    session.begin(TOKENS.tolist(), use_cache=False)
    session.prefill(len(TOKENS))
    assert session.layout().part("ple.tokens").tensor.tolist() == [78, 100]

    session.reset()

    assert session.layout().part("ple.tokens").tensor.tolist() == [NO_TOKEN, NO_TOKEN]
    assert not session.layout().part("ple.conv").tensor.any()


def test_a_model_without_them_has_the_digest_that_it_had_before_there_were_any() -> None:
    assert b"ple" not in model_config("tiny", "hybrid").canonical_json()
    assert b'"ple_dim":8' in model_config("tiny", "ple").canonical_json()
