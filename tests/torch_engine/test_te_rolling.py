"""Taking tokens back: right, or refused with nothing changed."""

from __future__ import annotations

import pytest

from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import SessionStateError, UnsupportedError
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.session import TorchSession

PROMPT = [8 + (i * 37) % 400 for i in range(200)]
ARCHES = ("hybrid", "attention", "recurrent", "sliding")


def opened(arch: str = "hybrid", **options: object) -> TorchSession:
    engine = TorchEngine(EngineOptions(preset="tiny", arch=arch, chunk=64, max_seq_len=512))
    return engine.open_session(**options)


def begun(arch: str = "hybrid") -> TorchSession:
    session = opened(arch)
    session.begin(PROMPT, use_cache=False)
    session.prefill(len(PROMPT))
    return session


def state(session: TorchSession) -> list[bytes]:
    parts = [part.valid().clone() for part in session.layout("prefix").parts()]
    return [bytes(part.contiguous().view(-1).numpy().tobytes()) for part in parts]


@pytest.mark.parametrize("arch", ARCHES)
def test_decoded_tokens_are_taken_back(arch: str) -> None:
    session = begun(arch)
    session.trail.begin()
    before, meta = state(session), session.position
    session.decode(9)

    session.trail.back(9)

    assert (state(session), session.position, session.decoded) == (before, meta, 0)
    assert session.logits() is None
    assert session.history() == PROMPT


def test_a_part_of_what_was_decoded_is_taken_back() -> None:
    session, other = begun(), begun()
    session.trail.begin()
    session.decode(9)
    other.decode(4)

    session.trail.back(5)

    assert state(session) == state(other)
    assert session.history() == other.history()
    assert session.decoded == other.decoded == 4


def test_a_position_that_was_not_recorded_is_refused_and_nothing_changes() -> None:
    session = begun()
    session.decode(3)
    before = state(session)

    with pytest.raises(SessionStateError, match="expected one of the positions"):
        session.trail.back(2)

    assert (state(session), session.position) == (before, len(PROMPT) + 3)


def test_rows_alone_need_no_record() -> None:
    session = begun("attention")
    before = state(session)
    session.decode(3)

    session.trail.back(3)

    assert state(session) == before


def test_what_was_recorded_before_a_restore_is_forgotten() -> None:
    session = begun()
    handle = session.snapshot()
    session.trail.begin()
    session.decode(4)
    session.restore(handle)
    session.decode(4)

    with pytest.raises(SessionStateError):
        session.trail.back(4)


@pytest.mark.parametrize("count", [0, -1, 200, 500])
def test_more_than_there_is_is_refused(count: int) -> None:
    session = begun()
    session.trail.begin()

    with pytest.raises(SessionStateError):
        session.trail.back(count)


def test_a_draft_head_is_not_taken_back() -> None:
    session = opened(route="mtp")

    with pytest.raises(UnsupportedError):
        session.trail.begin()
