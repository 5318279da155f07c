"""Captures of live turns: apart from cold ones, and each link made the same way as what it rests on."""

from __future__ import annotations

import pytest

from harness.torch_engine import TorchEngine, TorchSession
from harness.torch_engine.errors import OptionError
from tests.torch_engine.support import CHUNK, options, parts, tokens

P = tokens(61, CHUNK + 30)
LONG = P + tokens(62, 2 * CHUNK)
APART = {"live": True, "live_captures": True}


def turn(session: TorchSession, prompt: list[int]) -> int:
    cached = session.begin(prompt, use_cache=True)
    session.prefill(len(prompt))
    session.commit()
    return cached


def boundaries(engine: TorchEngine) -> list[int]:
    return sorted(int(str(row["boundary"])) for row in engine.cache.entries())


def test_a_live_turn_captures_nothing_by_itself() -> None:
    engine = TorchEngine(options())
    session = engine.open_session(live=True)
    turn(session, P)

    assert turn(session, LONG) == len(P)
    assert boundaries(engine) == [CHUNK]


def test_captures_apart_serve_only_who_asks_for_them() -> None:
    engine = TorchEngine(options())
    session = engine.open_session(**APART)
    turn(session, P)
    turn(session, LONG)
    expected = parts(session)
    session.reset()

    assert boundaries(engine) == [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert turn(session, LONG) == 3 * CHUNK
    assert parts(session) == expected
    assert turn(engine.open_session(), LONG) == CHUNK


def test_what_descends_from_an_extension_is_not_captured() -> None:
    engine = TorchEngine(options())
    session = engine.open_session(**APART)
    turn(session, P)
    session.extend(LONG[len(P) : len(P) + 5])

    assert turn(session, LONG) == len(P) + 5
    assert boundaries(engine) == [CHUNK]


def test_decoded_tokens_are_part_of_how_a_state_was_made() -> None:
    engine = TorchEngine(options())
    first, second = engine.open_session(**APART), engine.open_session(**APART)
    turn(first, P)
    said = first.decode(9)
    prompt = P + said + tokens(63, 2 * CHUNK)
    turn(first, prompt)
    assert first.turn.spans == ((len(P), len(P) + 9),)
    expected = parts(first)

    assert turn(second, prompt) == 3 * CHUNK
    assert second.turn.spans == first.turn.spans
    assert {name for name, value in parts(second).items() if value != expected[name]} == {"metadata"}
    second.reset()
    assert not second.turn.spans


def test_a_duplicate_that_was_made_another_way_takes_no_children() -> None:
    engine = TorchEngine(options())
    first, second = engine.open_session(**APART), engine.open_session(**APART)
    turn(first, P)
    turn(second, P[:-7])
    first.begin(LONG, use_cache=True)
    first.prefill(len(LONG))  # its links are pending
    turn(second, LONG[: 2 * CHUNK + 9])  # publishes one of the same tokens
    first.commit()

    counted = engine.cache.counters()
    assert (counted["duplicates"], counted["refused"]) == (1, 1)
    assert boundaries(engine) == [CHUNK, 2 * CHUNK]


def test_captures_apart_need_live_turns() -> None:
    with pytest.raises(OptionError, match="expected live beside it"):
        TorchEngine(options()).open_session(live_captures=True)
