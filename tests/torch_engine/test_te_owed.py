"""Owed forward: the last sampled token waits for the next call, and everything that is saved says so."""

from __future__ import annotations

import pytest

from harness.torch_engine import Sampling, TorchEngine, TorchSession
from harness.torch_engine.errors import CapacityError, IdentityError, MetadataError
from harness.torch_engine.metadata import decode_metadata
from tests.torch_engine.support import CHUNK, options, parts, shared_engine, tokens

PROMPT = tokens(1, CHUNK + 21)
SAMPLER = Sampling(temperature_ppm=900_000, top_k=30, seed=5, repetition_ppm=1_300_000, repetition_window=6)
ROUTES = [{"route": "ar"}, {"route": "mtp", "draft_force": "partial"}]


def begun(**changes: object) -> TorchSession:
    """A session of the shared engine with the prompt forwarded."""
    session = shared_engine().open_session(**changes)
    session.begin(PROMPT, use_cache=False)
    session.prefill(len(PROMPT))
    return session


@pytest.mark.parametrize("route", ROUTES, ids=["ar", "mtp"])
def test_the_last_token_is_in_the_history_and_not_in_the_state(route: dict[str, object]) -> None:
    session = begun(owed=True, **route)

    found = session.decode(5, SAMPLER)

    meta = decode_metadata(session.metadata())
    assert meta.owed
    assert (meta.position, meta.decoded, meta.logits_valid) == (len(PROMPT) + 4, 5, False)
    assert session.logits() is None
    assert session.history() == [*PROMPT, *found]


@pytest.mark.parametrize("route", ROUTES, ids=["ar", "mtp"])
def test_tokens_and_the_settled_state_equal_decoding_at_once(route: dict[str, object]) -> None:
    eager, session = begun(**route), begun(owed=True, **route)
    expected = eager.decode(11, SAMPLER)

    found = [token for count in (1, 4, 1, 5) for token in session.decode(count, SAMPLER)]
    session.settle()

    assert found == expected
    assert parts(session) == parts(eager)


@pytest.mark.parametrize("route", ROUTES, ids=["ar", "mtp"])
def test_another_turn_forwards_the_owed_token_first(route: dict[str, object]) -> None:
    eager, session = begun(**route), begun(owed=True, **route)
    for each in (eager, session):
        each.decode(4)
        each.extend(tokens(3, CHUNK))

    assert parts(session) == parts(eager)
    assert not session.owed


@pytest.mark.parametrize("route", ROUTES, ids=["ar", "mtp"])
def test_a_handle_carries_what_is_owed(route: dict[str, object]) -> None:
    session = begun(owed=True, **route)
    session.decode(5, SAMPLER)
    saved, handle = parts(session), session.snapshot()
    expected = session.decode(6, SAMPLER)
    end = parts(session)
    other = begun(owed=True, namespace="fork", **route)

    other.restore(handle)

    assert parts(other) == saved
    assert other.decode(6, SAMPLER) == expected
    assert parts(other) == end
    session.engine.drop(handle)


def test_bytes_carry_what_is_owed() -> None:
    session, other = begun(owed=True), begun(owed=True)
    session.decode(3)
    layout = session.layout("session")
    data = {part.name: part.valid().contiguous().flatten().numpy().tobytes() for part in layout.parts()}

    other.adopt(session.metadata(), data, PROMPT)

    assert parts(other) == parts(session)
    assert other.decode(4) == session.decode(4)


def test_sessions_that_owe_and_sessions_that_do_not_share_no_handle() -> None:
    handle = begun(owed=True).snapshot()

    with pytest.raises(IdentityError, match="owed"):
        begun().restore(handle)

    shared_engine().drop(handle)


@pytest.mark.parametrize("route", ROUTES, ids=["ar", "mtp"])
def test_decoding_nothing_settles_and_a_new_prompt_forgets(route: dict[str, object]) -> None:
    session = begun(owed=True, **route)
    session.decode(2)

    nothing = session.decode(0)
    settled = session.owed
    session.decode(1)
    session.begin(PROMPT, use_cache=False)

    assert nothing == []
    assert not settled
    assert not session.owed
    assert session.history() == []


@pytest.mark.parametrize("route", ROUTES, ids=["ar", "mtp"])
def test_there_is_always_room_for_what_is_owed(route: dict[str, object]) -> None:
    session = TorchEngine(options(max_seq_len=192)).open_session(owed=True, **route)
    session.begin(PROMPT, use_cache=False)
    session.prefill(len(PROMPT))
    session.decode(192 - len(PROMPT))

    with pytest.raises(CapacityError):
        session.decode(1)
    session.settle()

    assert session.position == 192


def test_logits_that_are_pending_while_a_token_is_owed_are_refused() -> None:
    session = begun(owed=True)
    session.decode(1)
    raw = bytearray(session.metadata())
    raw[16] |= 1

    with pytest.raises(MetadataError, match="flags"):
        decode_metadata(bytes(raw))
