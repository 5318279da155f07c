"""A model that makes a vector of a prompt and has no decoding state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.torch_engine import TorchSession
from harness.torch_engine.errors import UnsupportedError
from tests.torch_engine.support import shared_engine, tokens

PROMPT = tokens(3, 700)


def embedded(prompt: list[int]) -> TorchSession:
    session = shared_engine("embedding").open_session()
    session.begin(prompt, use_cache=True)
    session.prefill(len(prompt))
    return session


def vector(session: TorchSession) -> torch.Tensor:
    found = session.embedding()
    assert found is not None
    return found


def test_a_prompt_has_one_vector_of_unit_length_and_another_prompt_another() -> None:
    one, again, other = (vector(embedded(prompt)) for prompt in (PROMPT, PROMPT, [*PROMPT[:-1], PROMPT[-1] ^ 1]))

    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert float(one.norm()) == pytest.approx(1.0)


def test_nothing_of_a_prompt_before_is_in_the_vector() -> None:
    session = embedded(tokens(4, 300))
    session.begin(PROMPT, use_cache=True)
    assert session.embedding() is None
    session.prefill(len(PROMPT))

    assert torch.equal(vector(session), vector(embedded(PROMPT)))


def test_it_has_no_part_and_the_cache_holds_nothing_of_it() -> None:
    session = embedded(PROMPT)
    session.commit()

    assert list(session.layout().parts()) == []
    assert session.logits() is None
    assert session.cache.counters()["entries"] == 0


@pytest.mark.parametrize("call", ["snapshot", "decode", "extend", "pin", "adopt", "export", "record"])
def test_what_would_need_state_is_unsupported(call: str) -> None:
    session = embedded(PROMPT)
    calls: dict[str, Callable[[], object]] = {
        "snapshot": session.snapshot,
        "decode": lambda: session.decode(1),
        "extend": lambda: session.extend([9]),
        "pin": lambda: session.pin(64),
        "adopt": lambda: session.adopt(session.metadata(), {}),
        "export": lambda: session.engine.imager.size(session),
        "record": session.trail.begin,
    }
    before = vector(session)

    with pytest.raises(UnsupportedError):
        calls[call]()

    assert torch.equal(vector(session), before)


def test_there_is_no_draft_head_for_it() -> None:
    with pytest.raises(UnsupportedError, match="route"):
        shared_engine("embedding").open_session(route="mtp")


def test_a_model_that_decodes_makes_no_vector() -> None:
    with pytest.raises(UnsupportedError, match="embedding"):
        shared_engine("hybrid").open_session().embedding()
