"""Children that end when nobody asks them, options that are ignored, subjects that change: never a pass."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.deriving.body import derive_body
from harness.engines.host import EngineHost
from harness.errors import EngineCrashedError, EngineError
from harness.model.evidence import CellEvent, Crash, Evidence, Observation, Turn
from harness.running.crashes import crash_detail
from tests.fakes.toy_support import (
    COLD,
    EXACT,
    FLIPPED,
    SEEN,
    WARM,
    run_toy,
    toy_host,
    toy_plan,
    toy_procedure,
    toy_target,
)

pytestmark = pytest.mark.usefixtures("forked_toys")
CHECKS = [EXACT, SEEN]


def _crashes(evidence: Evidence) -> Sequence[tuple[str, str]]:
    return [(one.arm, one.detail) for one in evidence.observations if isinstance(one, Crash)]


def _outcomes(evidence: Evidence) -> Sequence[str]:
    cells = derive_body(evidence)["cells"]
    assert isinstance(cells, list)
    return [cell["outcome"] for cell in cells]


@pytest.mark.parametrize(("how", "detail"), [("abort_later", "SIGABRT"), ("leave_later", "exit_0")])
@pytest.mark.parametrize("event", ["begin", "end"])
def test_a_child_that_ends_after_its_last_arm_is_a_crash(tmp_path: Path, how: str, detail: str, event: str) -> None:
    dying = {**FLIPPED, "engine": {"misbehave": how, "during": "close"}}
    plan = toy_plan(
        toy_procedure([COLD, WARM, dying], CHECKS, axes={"threads": [1, 2]}, engine={"threads": "$threads"})
    )

    def wait(observation: Observation) -> None:
        if isinstance(observation, CellEvent) and observation.event == event:
            time.sleep(0.3)

    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path, progress=wait, last=True)

    assert detail in [found for _, found in _crashes(evidence)]
    assert "error" in _outcomes(evidence)
    if event == "end":
        assert _outcomes(evidence)[-1] == "error"


ENDS = [("abort_at_the_end", "SIGABRT"), ("fail_at_the_end", "exit_9"), ("leave_unsaid", "exit_0")]


@pytest.mark.parametrize(("how", "detail"), ENDS)
def test_a_child_that_ends_badly_when_all_is_done_is_a_crash_of_the_last_arm(
    tmp_path: Path, how: str, detail: str
) -> None:
    dying = {**FLIPPED, "engine": {"misbehave": how, "during": "close"}}
    plan = toy_plan(toy_procedure([COLD, WARM, dying], CHECKS))

    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path, last=True)

    assert _crashes(evidence) == [("flipped", detail)]
    assert _outcomes(evidence) == ["error"]


def test_a_child_that_says_that_it_leaves_and_stays_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.engines.process._GRACE_SECONDS", 0.5)
    staying = {**FLIPPED, "engine": {"misbehave": "stay_at_the_end", "during": "close"}}

    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(toy_procedure([COLD, WARM, staying], CHECKS)), tmp_path, last=True)

    assert _crashes(evidence) == [("flipped", "no_answer")]
    assert _outcomes(evidence) == ["error"]


def test_a_run_that_is_broken_off_while_its_child_leaves_is_interrupted(tmp_path: Path) -> None:
    """All cells are done, and nobody has seen how the child would have ended."""
    plan = toy_plan(toy_procedure([COLD, WARM, FLIPPED], CHECKS))
    with toy_host(tmp_path) as host:

        def break_off(observation: Observation) -> None:
            if isinstance(observation, CellEvent) and observation.event == "end":
                host.interrupt()

        evidence = run_toy(host, plan, tmp_path, progress=break_off, last=True)

    assert evidence.end is not None
    assert evidence.end.interrupted
    assert _crashes(evidence) == []


def test_a_child_that_ends_in_good_order_when_all_is_done_is_no_crash(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(toy_procedure([COLD, WARM, FLIPPED], CHECKS)), tmp_path, last=True)

        assert not host.alive
    assert not _crashes(evidence)
    assert _outcomes(evidence) == ["pass"]


@pytest.mark.parametrize(("how", "detail"), ENDS)
def test_an_end_that_no_record_tells_of_is_raised_on_the_way_out(tmp_path: Path, how: str, detail: str) -> None:
    with pytest.raises(EngineCrashedError) as caught, toy_host(tmp_path) as host:
        host.open_engine({"misbehave": how, "during": "close"}).close()

    assert crash_detail(caught.value) == detail


def test_a_child_that_ends_between_two_arms_is_a_crash_of_one_of_them(tmp_path: Path) -> None:
    dying = {**COLD, "engine": {"misbehave": "abort_later", "during": "close"}}

    def wait(observation: Observation) -> None:
        if isinstance(observation, Turn):
            time.sleep(0.2)  # longer than the child still lives: it is gone before the next arm ends

    with toy_host(tmp_path) as host:
        plan = toy_plan(toy_procedure([dying, WARM, FLIPPED], CHECKS))
        evidence = run_toy(host, plan, tmp_path, progress=wait, last=True)

    assert "SIGABRT" in [detail for _, detail in _crashes(evidence)]
    assert _outcomes(evidence) == ["error"]


def test_a_child_that_ended_unasked_is_told_once_and_then_replaced(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        _end(host)
        with pytest.raises(EngineCrashedError) as caught:
            host.open_engine({})
        host.open_engine({}).close()
        _end(host)
        with pytest.raises(EngineCrashedError):
            host.restart(kill=True)
        host.restart(kill=True)
        host.restart()

        assert caught.value.status == -signal.SIGABRT
        assert host.take_lost() is None


def test_a_dead_child_does_not_throw_when_the_spool_is_opened_or_closed(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        for opening in (True, False):
            host.ensure()
            assert host.pid is not None
            os.kill(host.pid, signal.SIGABRT)
            if opening:
                host.open_spool(tmp_path / "spool")
            else:
                host.close_spool()
            time.sleep(0.2)

            assert isinstance(host.take_lost(), EngineCrashedError)


def test_an_option_that_is_taken_and_ignored_is_an_error_of_every_arm(tmp_path: Path) -> None:
    plan = toy_plan(toy_procedure([COLD, WARM, FLIPPED], CHECKS, engine={"max_seq_len": 1000}))
    with toy_host(tmp_path, toy_target(fault="ignored_option")) as host:
        evidence = run_toy(host, plan, tmp_path)

    assert set(_crashes(evidence)) == {(arm, "option_ignored") for arm in ("cold", "warm", "flipped")}
    assert _outcomes(evidence) == ["error"]


def test_a_subject_that_changes_before_its_child_is_replaced_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [
        {"run": {"prompt": "A", "as": "first"}},
        {"restart": {"how": "stop", "as": "new"}},
        {"run": {"prompt": "A", "decode": 4, "as": "again"}},
    ]
    restarted = {**WARM, "steps": steps}
    plan = toy_plan(toy_procedure([COLD, restarted, FLIPPED], CHECKS))

    def change(observation: Observation) -> None:
        if isinstance(observation, Turn) and observation.arm == "warm":
            monkeypatch.setenv("TOY_VERSION", "2")

    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path, progress=change)

    assert ("warm", "subject_changed") in _crashes(evidence)
    assert _outcomes(evidence) == ["error"]


def test_a_child_of_the_same_subject_goes_on(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        host.restart()
        host.open_engine({}).close()
        os.environ["TOY_VERSION"] = "2"
        try:
            with pytest.raises(EngineError, match="subject_changed"):
                host.restart()
            with pytest.raises(EngineError, match="subject_changed"):
                host.open_engine({})
        finally:
            del os.environ["TOY_VERSION"]


def _end(host: EngineHost) -> None:
    """End the present child from outside, as an accident would."""
    host.ensure()
    assert host.pid is not None
    os.kill(host.pid, signal.SIGABRT)
    deadline = time.monotonic() + 5
    while host.alive and time.monotonic() < deadline:
        time.sleep(0.01)
