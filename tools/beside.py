"""Runs shell commands side by side and prints what each said, one after another, in the order in which they are given.

For steps of `make check` that keep one processor busy each. When one fails, those that still run are asked to end, and
this ends with its code. Standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import IO, Final

USAGE: Final = 4
_PAUSE: Final = 0.05
_GRACE_SECONDS: Final = 20.0


@dataclass(kw_only=True)
class Step:
    """A command that runs, and the file that takes what it says."""

    command: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    shown: bool = False


def main(commands: Sequence[str]) -> int:
    """Run the commands; 0, or the code of the first one that failed."""
    if not commands:
        sys.stderr.write("usage: beside.py COMMAND COMMAND ...\n")
        return USAGE
    signal.signal(signal.SIGTERM, _interrupt)
    steps = [_started(command) for command in commands]
    try:
        return _watched(steps)
    finally:
        _end(steps)


def _started(command: str) -> Step:
    output = tempfile.TemporaryFile()  # noqa: SIM115 - open until everything was shown
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )
    return Step(command=command, process=process, output=output)


def _watched(steps: Sequence[Step]) -> int:
    """Print each step when it and all before it are done; return the code of the first that fails."""
    while True:
        failed = next((step for step in steps if step.process.poll()), None)
        if failed is not None:
            _show(failed)
            code = failed.process.returncode
            return code if code > 0 else 128 - code
        for step in steps:
            if step.process.poll() is None:
                break
            _show(step)
        else:
            return 0
        time.sleep(_PAUSE)


def _show(step: Step) -> None:
    if step.shown:
        return
    step.shown = True
    step.output.seek(0)
    sys.stdout.buffer.write(b"== " + step.command.encode() + b"\n" + step.output.read())
    sys.stdout.flush()


def _end(steps: Sequence[Step]) -> None:
    """Ask what still runs to end, by its group, and wait for it."""
    running = [step for step in steps if step.process.poll() is None]
    for step in running:
        _signal(step, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    for step in running:
        try:
            step.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(step, signal.SIGKILL)
            step.process.wait()


def _signal(step: Step, number: signal.Signals) -> None:
    with suppress(OSError):
        os.killpg(step.process.pid, number)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
