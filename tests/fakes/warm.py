"""Programs of Python in processes of their own, forked of one that has done their imports: for tests of what they say.

Most of the time of ``python -m harness gate`` is spent on imports, and tests run it some hundred times. Here a process is
started once for each import path; it imports, computes nothing, and forks for each program that is asked for. What runs
then is the program: its own process, folder, arguments, environment, output and end of the interpreter. Tests whose claim
is the start itself (what is imported, how long it takes, a signal that comes in it) start theirs with `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Final

from harness.engines.forking import can_fork
from tests.fakes import warm_process

_SECONDS: Final = 600.0
_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "GOMP_")
"""How variables begin that an interpreter, or a library, reads when it starts."""
_NEVER_SAME: Final = "PYTEST_CURRENT_TEST"


def ran(
    module: str, *words: str, cwd: Path, environment: Mapping[str, str], imports: Sequence[str], engine: str = ""
) -> subprocess.CompletedProcess[str]:
    """Return what ``python -m module words`` said and how it ended.

    Args:
        module: The program.
        words: Its arguments.
        cwd: Where it runs.
        environment: All of its variables.
        imports: What the process that it is forked of has imported; what there is none of is left out.
        engine: Its children are forked too, of a template of this engine (`harness.engines.forking`); empty: they are
            started.

    Raises:
        subprocess.TimeoutExpired: It did not end within ten minutes; it is gone then.
    """
    command = [sys.executable, "-m", module, *words]
    if not hasattr(os, "fork"):
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    warm = warmed(environment, imports)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        asked = {
            "module": module,
            "words": words,
            "cwd": str(cwd),
            "first": str(cwd),
            "environment": dict(environment),
            "engine": engine if can_fork("cpu") else "",
        }
        code = warm.run(asked, output, errors, command)
        said = [_text(stream) for stream in (output, errors)]
    return subprocess.CompletedProcess(command, code, *said)


def warmed(environment: Mapping[str, str], imports: Sequence[str]) -> Warm:
    """Return the process that programs with this environment are forked of."""
    return _warm(tuple(sorted(_at_start(environment).items())), tuple(imports))


def _at_start(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode().replace("\r\n", "\n").replace("\r", "\n")


@cache
def _warm(at_start: tuple[tuple[str, str], ...], imports: tuple[str, ...]) -> Warm:
    return Warm(dict(at_start), imports)


class Warm:
    """A process that has imported, and forks one program at a time."""

    def __init__(self, at_start: Mapping[str, str], imports: Sequence[str]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.settimeout(_SECONDS)
        source = Path(warm_process.__file__).read_text(encoding="utf-8")
        rest = {name: value for name, value in os.environ.items() if not name.startswith(_AT_START)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", source, str(theirs.fileno()), *imports],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**rest, **at_start},
                cwd=os.sep,  # the first entry of an import path is where a program is started
            )
        atexit.register(self.close)

    def fileno(self) -> int:
        """The descriptor that it is asked by, for a program that is given it; see `tests.howto.commands`."""
        return self._line.fileno()

    def run(self, asked: Mapping[str, object], output: IO[bytes], errors: IO[bytes], command: Sequence[str]) -> int:
        """Run one program, and return its exit code, below zero for a signal."""
        text = json.dumps(asked).encode()
        head = warm_process.HEAD.pack(len(text))
        try:
            socket.send_fds(self._line, [head], [output.fileno(), errors.fileno()])
            self._line.sendall(text)
            told = self._line.recv(warm_process.CODE.size)
        except TimeoutError:
            self.close()
            raise subprocess.TimeoutExpired(list(command), _SECONDS) from None
        if len(told) != warm_process.CODE.size:
            raise RuntimeError("the process that programs are forked of is gone")
        found: int = warm_process.CODE.unpack(told)[0]
        return found

    def close(self) -> None:
        """End the process; it sees that nobody asks any more, and takes a program that hangs with it."""
        self._line.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
