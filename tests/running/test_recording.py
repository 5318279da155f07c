"""Observations wait until the child has something to do, and are then written in the order in which they were made."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.engines.host import EngineHost
from harness.engines.process import nothing
from harness.errors import EngineCrashedError, StorageError
from harness.model.evidence import CellEvent, Observation
from harness.model.scenario import CellPlan, CheckKind, CheckSpec
from harness.model.values import CellId
from harness.running.recording import Recorder
from harness.running.run import OpenRun
from tests.fakes.toy_support import toy_host, toy_target


class _Clock:
    def monotonic_ns(self) -> int:
        return 5

    def utc(self) -> str:
        return "2026-01-01T00:00:00Z"


class _File:
    def __init__(self, full_at: int = -1) -> None:
        self.lines: list[str] = []
        self.ends: list[str] = []
        self._full_at = full_at

    def write(self, observation: Observation) -> None:
        assert isinstance(observation, CellEvent)
        if len(self.lines) == self._full_at:
            raise StorageError("no space")
        self.lines.append(observation.reason)

    def close(self, *, finished: str, elapsed_ns: int, interrupted: bool = False) -> object:
        self.ends.append("closed")
        return finished, elapsed_ns, interrupted

    def abandon(self) -> None:
        self.ends.append("abandoned")


def _event(word: str) -> CellEvent:
    return CellEvent(cell=CellId("A90"), event="begin", reason=word, t_ns=1)


def test_what_was_taken_is_written_by_the_next_flush_in_its_order_and_shown_then() -> None:
    file, shown = _File(), list[Observation]()
    recorder = Recorder(file, _Clock(), shown.append)
    other = Recorder.like(recorder)

    recorder.write(_event("one"))
    other.write(_event("two"))
    recorder.write(_event("three"))
    before = list(file.lines), list(shown)
    recorder.flush()

    assert before == ([], [])
    assert file.lines == ["one", "two", "three"]
    assert len(shown) == 3


@pytest.mark.parametrize("end", ["closed", "abandoned"])
def test_what_was_taken_is_in_the_file_before_it_is_let_go_of(end: str) -> None:
    file = _File()
    recorder = Recorder(file, _Clock())
    recorder.write(_event("one"))

    if end == "closed":
        recorder.close(interrupted=False)
    else:
        recorder.abandon()

    assert (file.lines, file.ends) == (["one"], [end])


def test_nothing_is_written_after_a_record_that_could_not_be() -> None:
    file = _File(full_at=1)
    recorder = Recorder(file, _Clock())
    for word in ("one", "two", "three"):
        recorder.write(_event(word))

    with pytest.raises(StorageError, match="no space"):
        recorder.flush()
    recorder.abandon()

    assert (file.lines, file.ends) == (["one"], ["abandoned"])


def test_ctrl_c_in_the_middle_of_a_flush_loses_nothing_and_writes_nothing_twice() -> None:
    class Interrupted(_File):
        def write(self, observation: Observation) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            super().write(observation)

    file = Interrupted()
    recorder = Recorder(file, _Clock())
    for word in ("one", "two", "three"):
        recorder.write(_event(word))

    with pytest.raises(KeyboardInterrupt):
        recorder.flush()
    recorder.flush()

    assert file.lines == ["one", "two", "three"]


def test_what_is_done_meanwhile_is_done_while_the_child_works(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        engine = host.open_engine({})
        done: list[bool] = []
        host.meanwhile = lambda: done.append(host.alive)
        engine.open_session({})

    assert done == [True]


def test_an_error_of_what_is_done_meanwhile_ends_the_child_whose_answer_nobody_awaits(tmp_path: Path) -> None:
    def full() -> None:
        raise StorageError("no space")

    with toy_host(tmp_path) as host:
        host.start()
        engine = host.open_engine({})
        host.meanwhile = full
        with pytest.raises(StorageError, match="no space"):
            engine.open_session({})
        alive = host.alive

    assert not alive


def test_a_crash_is_told_although_something_was_done_meanwhile(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        engine = host.open_engine({"misbehave": "exit", "during": "prefill"})
        session = engine.open_session({})
        session.begin(list(range(8, 30)), cache=False)
        done: list[int] = []
        host.meanwhile = lambda: done.append(1)

        with pytest.raises(EngineCrashedError):
            session.prefill(22)

    assert done == [1]


@pytest.mark.parametrize("timed", [True, False])
def test_nothing_is_written_beside_a_cell_that_is_judged_by_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, timed: bool
) -> None:
    seen: list[Callable[[], None]] = []
    monkeypatch.setattr(OpenRun, "_run", lambda _, __, host: seen.append(host.meanwhile))
    check = CheckSpec(id="quicker", kind=CheckKind.QUICKER if timed else CheckKind.EXACT)
    cell = CellPlan(id=CellId("A90"), coords={}, checks=[check])
    host = EngineHost(toy_target(), tmp_path)

    OpenRun(host, _File(), folder=tmp_path, clock=_Clock()).run(cell)

    assert (seen == [nothing]) is timed
    assert host.meanwhile is nothing
