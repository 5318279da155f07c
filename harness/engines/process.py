"""One child process from the parent's side: started, asked, ended.

How a child can end, and what that is called: by itself (crash), without an answer within the limit (hang, and the
child is killed by its process id), without memory (it says so, or the system killed it), or with an answer that the
seam does not know (protocol; the child is killed, since nothing it says can be trusted any more).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from harness.engines.channel import Channel, ChannelClosedError, Message
from harness.errors import (
    EngineCrashedError,
    EngineError,
    EngineHungError,
    OutOfMemoryError,
    ProtocolError,
    RefusedError,
    StorageError,
)
from harness.model.values import RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

_GRACE_SECONDS: Final = 10.0
_REFUSALS: Final = frozenset(RefusalCode)
_SPINS: Final = "1000"
"""Turns of a waiting loop: what GNU's OpenMP takes by itself where it sees more threads than cores."""
_SPINS_ALONE: Final = "5000"
"""The same where one child works: enough for the gaps within a forward, and over before a look has begun in earnest."""

_FREED: Final = {
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_ARENA_MAX": "1",
}
"""What glibc's allocator keeps of freed memory, from which size on it maps memory anew, in bytes, and how many places
it keeps it in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long the parent waits for an answer."""

    start_s: float = 180.0
    """Until a new child has answered for the first time, and for loading an adapter."""
    open_s: float = 600.0
    """For loading a model."""
    call_s: float = 900.0
    """For any other operation; a full prefill is the longest."""


def nothing() -> None:
    """Do nothing meanwhile."""


class Process(Protocol):
    """A process as :class:`subprocess.Popen` shows it."""

    @property
    def pid(self) -> int:
        """Process id; it stays this process's own until its end was seen."""
        ...

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; a :class:`subprocess.TimeoutExpired` says that it did not come in time."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


Spawn = Callable[[Path, int, int], Process]
"""Starts a child: its log, and its ends of the pipes to it and from it."""


class ChildProcess:
    """A running child.

    Args:
        log: File that takes what the engine prints; appended to.
        spawn: How it is started; by default as a new process of this interpreter.

    Raises:
        StorageError: The log cannot be written.
        EngineError: The process cannot be started.
    """

    def __init__(self, log: Path, spawn: Spawn | None = None) -> None:
        to_child, from_parent = os.pipe()
        to_parent, from_child = os.pipe()
        try:
            self._process = (spawn or started)(log, to_child, from_child)
        except BaseException:
            os.close(from_parent)
            os.close(to_parent)
            raise
        finally:
            os.close(to_child)
            os.close(from_child)
        self._channel = Channel(to_parent, from_parent)
        self._asked = 0
        self._killed = self._told = self._left = self._stuck = self._interrupted = False

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(
        self,
        operation: str,
        fields: Mapping[str, object],
        frames: Sequence[Buffer] = (),
        *,
        seconds: float,
        meanwhile: Callable[[], None] = nothing,
    ) -> Message:
        """Send one operation, do something else while the child works on it, and return its result.

        Args:
            operation: What the child is to do.
            fields: What it is to know of that.
            frames: Raw byte strings that go with them.
            seconds: Limit for the answer, and for what is sent.
            meanwhile: What is done beside the child; what it raises ends the child, whose answer nobody awaits then.

        Raises:
            RefusedError: The engine refused, by name.
            EngineError: The engine raised something else; the message begins with the type's name.
            OutOfMemoryError: The child said that memory ran out, or was killed by the system.
            EngineCrashedError: The child ended.
            EngineHungError: No answer came in time; the child has been killed.
            ProtocolError: The answer is none; the child has been killed.
            KeyboardInterrupt: Another thread has called :meth:`interrupt`.
        """
        self._asked += 1
        try:
            self._channel.send({**fields, "op": operation, "id": self._asked}, frames, seconds=seconds)
            meanwhile()
            answer = self._channel.receive(seconds=seconds)
            return self._result(answer)
        except ChannelClosedError:
            if self._interrupted:
                self.kill()
                raise KeyboardInterrupt from None
            raise self._ended() from None
        except TimeoutError:
            self.kill()
            raise EngineHungError(f"{operation}: no answer within {seconds:g} s; the child was ended") from None
        except (RefusedError, OutOfMemoryError):
            raise
        except EngineError as error:
            if isinstance(error, ProtocolError):
                self.kill()
            raise
        except BaseException:
            self.kill()  # Ctrl-C in the middle of an operation: the next answer would be to this one
            raise

    @property
    def lost(self) -> EngineError | None:
        """How the process ended without being asked, or otherwise than asked, where no operation has told it yet.

        In good order means: asked to leave, it said that it would, and its exit status is 0.
        """
        status = self._process.poll()
        if self._stuck and not self._interrupted:
            return EngineHungError(f"quit: the child was still there after {_GRACE_SECONDS:g} s; it was ended")
        if status is None or self._killed or self._told or (self._left and status == 0):
            return None
        return _error_of(status)

    def interrupt(self) -> None:
        """End the process from another thread: who waits for an answer of it is interrupted.

        The pipes stay open, since that thread may be reading them.
        """
        self._interrupted = self._killed = True
        self._process.kill()

    def kill(self) -> None:
        """End the process by its id, at once, with the programs that it started, and wait for it."""
        if self.alive:
            self._killed = True
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)  # its own session: see started
            self._process.kill()
        self._process.wait()
        self._channel.close()

    def close(self) -> None:
        """Ask the process to end; kill it if it does not."""
        if self.alive:
            with contextlib.suppress(ChannelClosedError, TimeoutError, ProtocolError):
                self._channel.send({"op": "quit", "id": 0}, seconds=_GRACE_SECONDS)
                self._left = "ok" in self._channel.receive(seconds=_GRACE_SECONDS).body
            self._channel.close()
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._stuck = True
        self.kill()

    def _result(self, answer: Message) -> Message:
        if answer.body.get("id") != self._asked:
            raise ProtocolError(f"found an answer to {answer.body.get('id')!r}; expected one to {self._asked}")
        error, result = answer.body.get("error"), answer.body.get("ok")
        if isinstance(error, dict):
            raise _raised(error)
        if not isinstance(result, dict):
            raise ProtocolError("found an answer with neither a result nor an error")
        return Message(body=result, frames=answer.frames)

    def _ended(self) -> EngineError:
        """Return the error that says how a child ended whose pipe is closed."""
        try:
            status = self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return ProtocolError("the child closed its pipe and went on; it was ended")
        self._channel.close()
        self._told = True
        return _error_of(status)


def _error_of(status: int) -> EngineError:
    if status == -signal.SIGKILL:
        return OutOfMemoryError("SIGKILL: the child was killed from outside, as the system does without memory")
    return EngineCrashedError(f"the child ended ({ended_by(status)})", status=status)


def _program_ended(message: str, status: str) -> EngineError:
    """Return how a program ended that the adapter had started as its engine."""
    if not status.removeprefix("-").isdigit():
        return ProtocolError(f"found the exit status {status!r}; expected an integer")
    if int(status) == -signal.SIGKILL:
        return OutOfMemoryError(f"SIGKILL: {message}")
    return EngineCrashedError(message, status=int(status))


def ended_by(status: int) -> str:
    """Return the name of the signal, or ``exit_<status>``."""
    if status >= 0:
        return f"exit_{status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal_{-status}"


def started(log: Path, to_child: int, from_child: int, *, beside: int = 1) -> Process:
    """Start a child as a new process; see :data:`Spawn`.

    Args:
        log: Takes what it prints.
        to_child: Its end of the pipe to it.
        from_child: Its end of the pipe from it.
        beside: How many children work at a time, this one among them.

    Raises:
        StorageError: The log cannot be written, or the process not be started.
    """
    command = module_command("harness.engines.child", str(to_child), str(from_child))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(to_child, from_child),
                env=process_environment(beside),
                start_new_session=True,
            )
    except OSError as error:
        raise StorageError(f"the child of an engine could not be started: {error.strerror}") from error


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in this interpreter; the current folder is not on its import path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def process_environment(beside: int = 1) -> dict[str, str]:
    """Return this environment, with this process's import path: parent and child import the same files.

    A thread of OpenMP that waits lets go of its core soon, unless the caller has said how they wait. Where children
    work side by side, or other programs do, a region ends with its last thread, and that one needs the core on which
    another one spins. Where nothing does, a look shares its work with a second thread, which needs that core too.

    Every forward frees its temporaries. Unless the caller has said otherwise, glibc keeps them for the next one:
    handing them back means that each page is made, zeroed and taken away again at every step. It keeps them in one
    place for all threads: what the thread of a forward has freed serves the copies that another one makes for a look.

    Args:
        beside: How many children work at a time.
    """
    path = [entry or str(Path.cwd()) for entry in sys.path]
    made = {**_FREED, **os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), "PYTHONUNBUFFERED": "1"}
    if "OMP_WAIT_POLICY" not in made:
        made.setdefault("GOMP_SPINCOUNT", _SPINS if beside > 1 else _SPINS_ALONE)
    return made


def _raised(error: Mapping[str, object]) -> EngineError:
    kind, name, message = (str(error.get(key, "")) for key in ("kind", "type", "message"))
    if kind == "refused":
        code = str(error.get("code", ""))
        if code not in _REFUSALS:
            return ProtocolError(f"found a refusal with the code {code!r}; known are {sorted(_REFUSALS)}")
        return RefusedError(code, message)
    if kind == "crashed":
        return _program_ended(message, str(error.get("code", "")))
    if kind == "hung":
        return EngineHungError(message)
    if kind == "memory":
        return OutOfMemoryError(f"{name}: {message}")
    if kind == "engine":
        return EngineError(f"{name}: {message}")
    return ProtocolError(message or "found an error of no known kind")
