"""Steps side by side: really at once, shown in order, and one that fails ends them all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "beside.py"


def _beside(*commands: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), *commands], capture_output=True, text=True, check=False, timeout=600
    )


def test_steps_run_at_once_and_are_shown_in_the_order_given(tmp_path: Path) -> None:
    meet = f"touch {tmp_path}/{{0}}; while [ ! -e {tmp_path}/{{1}} ]; do sleep 0.05; done"
    first = f"{meet.format('a', 'b')}; sleep 0.3; echo one"
    second = f"{meet.format('b', 'a')}; echo two >&2"

    done = _beside(first, second)

    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if not line.startswith("==")] == ["one", "two"]


def test_the_code_of_the_step_that_fails_is_the_end_and_the_others_are_ended(tmp_path: Path) -> None:
    began = time.monotonic()

    done = _beside(f"sleep 50; touch {tmp_path}/late", "echo sorry; exit 3")

    assert done.returncode == 3
    assert "sorry" in done.stdout
    assert time.monotonic() - began < 30
    assert not (tmp_path / "late").exists()


def test_a_step_that_a_signal_ends_is_a_failure() -> None:
    assert _beside("kill -9 $$", "true").returncode == 137


def test_an_interrupt_ends_all_steps(tmp_path: Path) -> None:
    steps = [f"touch {tmp_path}/{name}; sleep 50; touch {tmp_path}/late" for name in "ab"]
    with subprocess.Popen([sys.executable, str(TOOL), *steps], stderr=subprocess.PIPE) as running:
        while len(list(tmp_path.iterdir())) < len(steps):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        began = time.monotonic()

        assert running.wait(timeout=600) != 0

    assert time.monotonic() - began < 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_without_steps_it_is_a_usage_error() -> None:
    assert _beside().returncode == 4
