"""Children of engines for tests that ask nothing about how a child comes to be: forked of one process that has imported.

A started child spends two seconds of a processor on importing torch, and a test of a whole command starts several. Here
the first child of a file starts a template (`harness.engines.forking`), and all children of that file are forked of it;
so they are processes of their own with memory of their own, as they are in ``statecert mutants``. Where the environment,
the import path or the folder is no longer the one that the template was started with, a child is started as usual.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.engines import host, registry
from harness.engines.forking import Template, can_fork
from harness.engines.process import Process, process_environment, started

_OF_EACH_TEST = "PYTEST_CURRENT_TEST"
_OF_THE_ENGINE = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "PYTORCH_TUNABLEOP_ENABLED": "0",
    "PYTORCH_ENABLE_MPS_FALLBACK": "0",
}
"""What the torch engine sets when it opens, in every child and in a test that opens it in its own process."""


class Forking:
    """Starts children like `harness.engines.process.started`, of a template where that is the same.

    Args:
        folder: takes the template's log.
        adapter: entry point that the template imports; children may load others.
    """

    def __init__(self, folder: Path, adapter: str) -> None:
        self._folder, self._adapter = folder, adapter
        self._template: Template | None = None
        self._inherited: object = None

    def started(self, log: Path, to_child: int, from_child: int, *, beside: int = 1) -> Process:
        """See `harness.engines.process.started`."""
        if self._template is None:
            self._inherited = _inherited(beside)
            self._template = Template(self._adapter, registry.ENGINES, self._folder / "template.log", beside=beside)
        if self._inherited != _inherited(beside):
            return started(log, to_child, from_child, beside=beside)
        return self._template.spawn(log, to_child, from_child)

    def threads(self) -> int:
        """How many threads the template has; it has imported everything once one of its children has answered."""
        assert self._template is not None
        return _tasks(self._template.pid)

    def close(self) -> None:
        """End the template."""
        if self._template is not None:
            self._template.close()


def _inherited(beside: int) -> object:
    found = process_environment(beside)
    own = {_OF_EACH_TEST: found.get(_OF_EACH_TEST), **_OF_THE_ENGINE}
    return {name: value for name, value in found.items() if own.get(name) != value}, Path.cwd()


def threads_of_numpy() -> int:
    """How many threads a process has that has imported numpy alone: those are the only ones that a template may have."""
    script = "import os, numpy; print(len(os.listdir('/proc/self/task')))"
    environment = process_environment()
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def _tasks(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@contextmanager
def forked_children(folder: Path, adapter: str = "torch") -> Iterator[Forking | None]:
    """Fork the children of every host of this process, where this machine can; None: it cannot."""
    if not can_fork("cpu"):
        yield None
        return
    forking = Forking(folder, adapter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "started", forking.started)
        try:
            yield forking
        finally:
            forking.close()
