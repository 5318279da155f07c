"""Children that are forked of a template instead of started: for many short runs that nothing is certified by.

A started child spends most of its first seconds on imports. A template (:mod:`harness.engines.template`) has done
them, has opened no engine, and forks. ADR 0006 says where this may be used.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

from harness.engines.process import Process, module_command, process_environment, started
from harness.engines.template import STATUS
from harness.errors import StorageError

CPU: Final = "cpu"
_START_SECONDS: Final = 180.0
_ANSWER_BYTES: Final = 32


def can_fork(device: str) -> bool:
    """Tell whether children for a device may be forked: on Linux, and on the host's processors only.

    Drivers of accelerators do not survive a fork.
    """
    return device == CPU and sys.platform == "linux" and hasattr(os, "pidfd_open")


class Forked:
    """A forked child, as :class:`subprocess.Popen` shows a started one.

    Args:
        pid: Its process id.
        status: Descriptor that its exit status comes from; owned by this object.
    """

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._status = status
        self._code: int | None = None
        self._lock = Lock()

    def poll(self) -> int | None:
        """Return the exit status, below zero for a signal; None while it runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status.

        Raises:
            subprocess.TimeoutExpired: It did not end in time.
        """
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["fork", str(self.pid)], timeout or 0)
        return code

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        with self._lock:
            if self._code is None:  # not reaped before this object lets go of the status: the id is still its own
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self._code is not None:
            return self._code
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            return None
        with self._lock:
            if self._code is None:
                told = os.read(self._status, STATUS.size)
                self._code = STATUS.unpack(told)[0] if len(told) == STATUS.size else -signal.SIGKILL
                os.close(self._status)
        return self._code


class Template:
    """The process that children of one adapter are forked of. Use it as a context manager, around its hosts.

    Args:
        adapter: Entry point to import.
        group: Of entry points.
        log: Takes what the template prints.
        beside: How many of its children work at a time.

    Raises:
        StorageError: It cannot be started, or its log not be written.
    """

    def __init__(self, adapter: str, group: str, log: Path, *, beside: int = 1) -> None:
        self._beside = beside
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(_START_SECONDS)
        self._lock = Lock()
        command = module_command("harness.engines.template", str(theirs.fileno()), adapter, group)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with theirs, log.open("ab") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(theirs.fileno(),),
                    env=process_environment(beside),
                    start_new_session=True,
                )
        except OSError as error:
            self._line.close()
            raise StorageError(f"a template of children could not be started: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Process id of the template."""
        return self._process.pid

    def spawn(self, log: Path, to_child: int, from_child: int) -> Process:
        """Fork a child; see :data:`harness.engines.process.Spawn`.

        Where the template is gone, as after an import that failed, a child is started instead: it says what is wrong.

        Raises:
            StorageError: The log cannot be written.
        """
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            output = log.open("ab")
        except OSError as error:
            raise StorageError(f"the child of an engine could not be started: {error.strerror}") from error
        with output:
            forked = self._asked(to_child, from_child, output.fileno())
        return forked or started(log, to_child, from_child, beside=self._beside)

    def _asked(self, to_child: int, from_child: int, log: int) -> Forked | None:
        """Ask the template for a child; None: it is gone."""
        reader, writer = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._line, [b"fork"], [to_child, from_child, log, writer])
                told = self._line.recv(_ANSWER_BYTES)
        except OSError:
            told = b""
        finally:
            os.close(writer)
        if told:
            return Forked(int(told), reader)
        os.close(reader)
        return None

    def close(self) -> None:
        """End the template."""
        self._line.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
