"""Children of engines for tests that ask nothing about how a child comes to be: forked of one process that has imported.

A started child spends two seconds of a processor on importing torch, and a test of a whole command starts several. Here
the first child starts a template (`harness.engines.forking`), and all children of this file and of later ones are forked
of it; so they are processes of their own with memory of their own, as they are in ``statecert mutants``. Where the
environment, the import path or the folder is not the one that a template was started with, another one is started.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Self

import pytest

from harness.engines import host, registry
from harness.engines.forking import Template, can_fork
from harness.engines.process import Process, process_environment
from harness.mutation import workshops

_OF_EACH_TEST = "PYTEST_CURRENT_TEST"
_OF_THE_ENGINE = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "PYTORCH_TUNABLEOP_ENABLED": "0",
    "PYTORCH_ENABLE_MPS_FALLBACK": "0",
}
"""What the torch engine sets when it opens, in every child and in a test that opens it in its own process."""


class Shared:
    """A template that many files of tests ask for; it outlives its children."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self._children: list[Process] = []

    def spawn(self, log: Path, to_child: int, from_child: int) -> Process:
        """See `harness.engines.forking.Template.spawn`."""
        made = self.template.spawn(log, to_child, from_child)
        self._children = [*(one for one in self._children if one.poll() is None), made]
        return made

    @property
    def idle(self) -> bool:
        """Whether all its children have ended."""
        return all(one.poll() is not None for one in self._children)


_MOST = 2
_KEPT: dict[str, Shared] = {}
"""By what they were started with, the one that was asked last behind the others."""
_LOCK = Lock()


class Forking:
    """Starts children like `harness.engines.process.started`, of a template whose environment is the same.

    Args:
        folder: takes the log of a template that is not there yet.
        adapter: entry point that the template imports; children may load others.
    """

    def __init__(self, folder: Path, adapter: str) -> None:
        self._folder, self._adapter = folder, adapter
        self._asked: Template | None = None

    def started(self, log: Path, to_child: int, from_child: int, *, beside: int = 1) -> Process:
        """See `harness.engines.process.started`."""
        key = repr((self._adapter, beside, _inherited(beside)))
        with _LOCK:
            found = _KEPT.pop(key, None)
            if found is None:
                made = Template(self._adapter, registry.ENGINES, self._folder / "template.log", beside=beside)
                found = Shared(made)
            for old in [old for old, one in _KEPT.items() if one.idle][: max(0, len(_KEPT) + 1 - _MOST)]:
                _KEPT.pop(old).template.close()
            _KEPT[key] = found
            self._asked = found.template
            return found.spawn(log, to_child, from_child)

    def threads(self) -> int:
        """How many threads the template has; it has imported everything once one of its children has answered."""
        assert self._asked is not None
        return _tasks(self._asked.pid)


class Lent:
    """A template that a command takes for its own and ends, and that the next one finds again; see `Template`."""

    def __init__(self, adapter: str, group: str, log: Path, *, beside: int = 1) -> None:
        assert group == registry.ENGINES
        self._forking, self._beside = Forking(log.parent, adapter), beside

    def spawn(self, log: Path, to_child: int, from_child: int) -> Process:
        """See `harness.engines.forking.Template.spawn`."""
        return self._forking.started(log, to_child, from_child, beside=self._beside)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It stays."""


def end_templates() -> None:
    """End all templates."""
    while _KEPT:
        _KEPT.popitem()[1].template.close()


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
    """Fork the children of every host of this process, and of workshops of mutants, where this machine can; None: it
    cannot."""
    if not can_fork("cpu"):
        yield None
        return
    forking = Forking(folder, adapter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "started", forking.started)
        patch.setattr(workshops, "Template", Lent)
        yield forking
