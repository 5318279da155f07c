"""Breaking off a run: whatever it is busy with, what it has measured is filed, shown and found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import guarded
from harness.stopping import ended_by_sigterm, held_back
from tests.commands.command_support import FAKES, TOY_SCENARIO, outside
from tests.fakes.processes import SECONDS, children_of, gone, wait_for

GOES_ON = TOY_SCENARIO.replace("id: A90", "id: A92").replace(
    "        - {run: {prompt: A, cache: true, decode: 4, as: again}}\n",
    "        - {run: {prompt: A, cache: true, decode: 4, as: again}}\n        - {restart: {as: down}}\n",
)
"""Goes on in another process, so that one is started ahead."""
HANGS = GOES_ON.replace("engine: {}", "engine: {misbehave: hang}")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def child_ahead(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of two scenarios whose second one hangs, while a child that was started ahead is not ready yet."""
    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    (tmp_path / "A92-hangs.yaml").write_text(HANGS)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness",
            "run",
            "A90-toy.yaml",
            "A92-hangs.yaml",
            "--target",
            "toy",
            "--preset",
            "toy",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(outside()), str(FAKES)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or len(children_of(process.pid)) == 2, "the child ahead")
        os.kill(max(children_of(process.pid)), signal.SIGSTOP)  # it stays as it is until it is killed
        wait_for(lambda: process.poll() is not None or hanging(tmp_path), "the scenario that hangs")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def hanging(folder: Path) -> bool:
    """Whether a session of the second scenario was looked at: the engine then hangs."""
    return any(b'"phase":"opened"' in path.read_bytes() for path in folder.glob("runs/*/evidence/A92*.jsonl"))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_broken_off_while_a_child_is_made_ready_ahead_shows_all_that_it_has(
    child_ahead: subprocess.Popen[str], tmp_path: Path, ending: signal.Signals
) -> None:
    children = children_of(child_ahead.pid)

    child_ahead.send_signal(ending)
    said, complaints = child_ahead.communicate(timeout=SECONDS)

    assert child_ahead.returncode == 3, complaints
    assert "statecert: interrupted" not in complaints
    assert "A90[scale=1,part=recurrent]" in said
    assert "run folder" in said
    assert "drafts" in said
    assert list(tmp_path.glob("runs/*/certificates/A90/*/*/*.json"))
    for child in children:
        wait_for(lambda child=child: gone(child), "the end of the child")  # type: ignore[misc]


def test_a_time_limit_that_tells_twice_breaks_off_once(child_ahead: subprocess.Popen[str]) -> None:
    children = children_of(child_ahead.pid)

    child_ahead.send_signal(signal.SIGTERM)
    wait_for(lambda: any(gone(child) for child in children), "the end of a child")
    child_ahead.send_signal(signal.SIGTERM)
    said, complaints = child_ahead.communicate(timeout=SECONDS)

    assert child_ahead.returncode in {3, -signal.SIGTERM}, complaints  # the latter: told when all was said
    assert "statecert: interrupted" not in complaints
    assert "run folder" in said


def test_only_the_first_sigterm_breaks_off() -> None:
    with ended_by_sigterm():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_ctrl_c_breaks_off_each_time() -> None:
    with ended_by_sigterm():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)


def test_a_sigterm_that_was_held_back_has_been_told_and_a_further_one_breaks_nothing_off() -> None:
    with ended_by_sigterm():
        with held_back() as came:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_sigterm_after_the_one_that_broke_off_is_not_held_back_for_a_second_end() -> None:
    with ended_by_sigterm():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        with held_back() as came:
            os.kill(os.getpid(), signal.SIGTERM)
        assert came == []


def test_an_interruption_without_words_says_that_what_was_written_is_intact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.commands.plan.run", interrupted)

    assert guarded("plan", ["A01"]) == 3
    assert capsys.readouterr().err == "statecert: interrupted; what was written before is intact\n"
