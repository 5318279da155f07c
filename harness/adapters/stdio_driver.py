"""A driver: a program that speaks the stdio protocol, started, asked and ended.

Control goes as JSON lines over its standard input and output, bytes through two files that both sides hold open and
that have no name any more once the driver has answered ``hello``. A driver may be wrong in every way; each way has a
name: it ended (:class:`EngineCrashedError`), gave no answer in time (:class:`EngineHungError`), or said something
that the protocol does not know (:class:`ProtocolError`). After any of these it is let go of.

The protocol is described in ``docs/formats/stdio.md``; its answers are held to ``schemas/stdio.v1.json``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.adapters.loaded import loaded_digest
from harness.errors import (
    EngineCrashedError,
    EngineError,
    EngineHungError,
    InvalidDocumentError,
    ProtocolError,
    RefusedError,
)
from harness.model.values import RefusalCode
from harness.wire import schemas

if TYPE_CHECKING:
    from typing_extensions import Buffer

PROTOCOL: Final = "statecert-stdio"
VERSION: Final = 1
SCHEMA: Final = "stdio.v1"
LINE_BYTES: Final = 16 << 20
"""The longest line that a driver may write."""
FRAME_BYTES: Final = 1 << 40
"""The most bytes that one answer may point to."""
PATIENCE_S: Final = 120
"""Seconds that a call may take, unless the target's option ``patience_s`` says otherwise."""
_GRACE_S: Final = 5.0
_READ: Final = 1 << 16
_CODES: Final = frozenset(RefusalCode)
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - a folder in memory where there is one; the files are unlinked at once

Scalar = str | int | bool


class Driver:
    """One running driver.

    Args:
        command: Program and arguments, as a shell would split them.
        patience_s: Seconds until a call counts as hung.

    Raises:
        RefusedError: There is no such program (``unsupported``).
        EngineError: It did not answer ``hello`` as version 1 of the protocol has it.
    """

    def __init__(self, command: str, patience_s: int = PATIENCE_S) -> None:
        self._argv = _resolved(command)
        self._patience_s = patience_s
        self._asked = 0
        self._pending = bytearray()
        self._lost: EngineError | None = None
        self._in = self._out = -1
        folder = Path(tempfile.mkdtemp(prefix="statecert-", dir=_SHARED if os.access(_SHARED, os.W_OK) else None))
        try:
            names = [folder / name for name in ("in", "out")]
            self._in, self._out = (os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600) for name in names)
            self._process = self._started()
            paths = {"in": str(names[0]), "out": str(names[1])}
            self.hello = self.ask("hello", {"protocol": PROTOCOL, "version": VERSION, **paths})
            self._require_version()
        except BaseException:
            self.kill()
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # both sides hold the files open: nothing can be left behind

    @property
    def lost(self) -> EngineError | None:
        """Why the driver was let go of; None: it still answers."""
        return self._lost

    def digest(self) -> str:
        """SHA-256 of the program that really runs; of the file that was started where the system does not tell."""
        running = Path(f"/proc/{self._process.pid}/exe")
        try:
            with (running if running.exists() else Path(self._argv[0])).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ProtocolError(f"the driver's program cannot be read ({error.strerror})") from error

    def loaded(self) -> str:
        """SHA-256 over the program that really runs and what it has mapped; empty where the system does not tell.

        Raises:
            ProtocolError: A file of it cannot be read.
        """
        try:
            return loaded_digest(self._process.pid, self._argv)
        except OSError as error:
            raise ProtocolError(f"what the driver has loaded cannot be read ({error.strerror})") from error

    def ask(
        self, operation: str, fields: Mapping[str, Scalar] | None = None, data: Buffer | None = None
    ) -> Mapping[str, object]:
        """Send one request and return what its answer holds.

        Args:
            operation: Like ``begin``.
            fields: What stands beside it.
            data: Bytes for the driver; they are in its ``in`` file, from the beginning, when it reads the request.

        Raises:
            RefusedError: The engine refused, by name.
            EngineError: The driver said that its engine failed, or as the classes of this module's head.
        """
        if self._lost is not None:
            raise self._lost
        self._asked += 1
        try:
            if data is not None:
                _put(self._in, memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b""))
            deadline = time.monotonic() + self._patience_s
            self._send(_line({"id": self._asked, "op": operation, **(fields or {})}), deadline, operation)
            return self._answered(operation, self._line(deadline, operation))
        except (EngineCrashedError, EngineHungError, ProtocolError) as error:
            self._lost = error
            self.kill()
            raise

    def read(self, at: object, size: object) -> bytes:
        """Return bytes of the driver's ``out`` file.

        Raises:
            ProtocolError: They are not all there.
        """
        if not isinstance(at, int) or not isinstance(size, int) or at < 0 or not 0 <= size <= FRAME_BYTES:
            raise self._broken(f"found {size!r} bytes at {at!r}")
        held = os.fstat(self._out).st_size
        if at + size > held:
            raise self._broken(f"found {size} bytes at {at}, but the driver's file has {held}")
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            done = os.preadv(self._out, [rest], at + size - len(rest))
            if not done:
                raise self._broken(f"the driver's file was cut while {size} bytes were read")
            rest = rest[done:]
        return bytes(data)

    def close(self) -> None:
        """Ask the driver to end; kill it if it does not.

        Raises:
            EngineCrashedError: It ended with another status than 0.
        """
        status: int | None = None
        if self._lost is None:
            self.ask("close")
            self._shut_input()
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_GRACE_S)
        self.kill()
        if self._lost is None and status is None:
            self._lost = EngineHungError(f"the driver did not end within {_GRACE_S:g} s of close; it was ended")
            raise self._lost
        if status:
            self._lost = EngineCrashedError(f"the driver ended with status {status} after close", status=status)
            raise self._lost

    def kill(self) -> None:
        """End the driver at once, by its id, and let go of the files; a second call does nothing."""
        process = getattr(self, "_process", None)
        if process is not None:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
        for descriptor in (self._in, self._out):
            if descriptor >= 0:
                os.close(descriptor)
        self._in = self._out = -1

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            made = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"the driver cannot be started ({error.strerror})") from error
        for pipe in (made.stdin, made.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        return made

    def _require_version(self) -> None:
        found = self.hello.get("protocol"), self.hello.get("version")
        if found != (PROTOCOL, VERSION):
            raise self._broken(f"the driver speaks {found[0]} {found[1]}; this harness speaks {PROTOCOL} {VERSION}")

    def _broken(self, what: str) -> ProtocolError:
        """Let go of the driver; return what it is to be called."""
        found = ProtocolError(what)
        self._lost = found
        self.kill()
        return found

    def _shut_input(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _send(self, line: bytes, deadline: float, operation: str) -> None:
        pipe = self._process.stdin
        rest = memoryview(line)
        while rest and pipe is not None:
            try:
                rest = rest[os.write(pipe.fileno(), rest) :]
            except BlockingIOError:
                self._wait(pipe.fileno(), select.POLLOUT, deadline, operation)
            except BrokenPipeError:
                raise self._ended(operation) from None

    def _line(self, deadline: float, operation: str) -> bytes:
        pipe = self._process.stdout
        if pipe is None:
            raise self._ended(operation)
        while (end := self._pending.find(b"\n")) < 0 or end > LINE_BYTES:
            if max(end, len(self._pending)) > LINE_BYTES:
                raise ProtocolError(f"{operation}: found a line of more than {LINE_BYTES} bytes")
            self._wait(pipe.fileno(), select.POLLIN, deadline, operation)
            try:
                more = os.read(pipe.fileno(), _READ)
            except BlockingIOError:
                continue
            if not more:
                raise self._ended(operation)
            self._pending += more
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line

    def _wait(self, descriptor: int, events: int, deadline: float, operation: str) -> None:
        poll = select.poll()
        poll.register(descriptor, events)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise EngineHungError(f"{operation}: the driver gave no answer within {self._patience_s} s; it was ended")

    def _ended(self, operation: str) -> EngineError:
        """Return the error that says how a driver ended that closed its pipes."""
        try:
            status = self._process.wait(min(_GRACE_S, self._patience_s))
        except subprocess.TimeoutExpired:
            return ProtocolError(f"{operation}: the driver closed its standard output and went on; it was ended")
        return EngineCrashedError(f"{operation}: the driver ended with status {status}", status=status)

    def _answered(self, operation: str, line: bytes) -> Mapping[str, object]:
        try:
            answer: object = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise ProtocolError(f"{operation}: found a line that is not JSON: {line[:80]!r}") from None
        if not isinstance(answer, dict) or answer.get("id") != self._asked:
            raise ProtocolError(f"{operation}: found {line[:80]!r}; expected an answer to {self._asked}")
        document = {"op": operation, "answer": answer}
        try:
            schemas.validate(document, SCHEMA, operation)
        except InvalidDocumentError as error:
            raise ProtocolError(str(error)[:400]) from None
        if "refused" in answer:
            raise RefusedError(str(answer["refused"]), str(answer.get("message", "")))
        if "error" in answer:
            raise EngineError(f"DriverError: {answer['error']}")
        found = answer["ok"]
        if not isinstance(found, dict):
            raise ProtocolError(f"{operation}: found an answer without a result")
        return found


def _no_constant(word: str) -> object:
    raise ValueError(word)


def _resolved(command: str) -> Sequence[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"the option command cannot be split ({error})") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"no program {(words or [''])[0]!r}; say --option command=./driver")
    return [str(Path(program).absolute()), *words[1:]]


def _put(descriptor: int, data: memoryview) -> None:
    """Write bytes from the beginning of a file, and cut it behind them."""
    at = 0
    while at < len(data):
        at += os.pwrite(descriptor, data[at:], at)
    os.ftruncate(descriptor, len(data))


def _line(request: Mapping[str, Scalar]) -> bytes:
    """Return a request as one line: a flat object; texts without quotes, backslashes and control characters."""
    for name, value in request.items():
        text = f"{name}{value}"
        if not text.isascii() or not text.isprintable() or '"' in text or "\\" in text:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"{name!r} holds characters that the protocol does not carry")
    return json.dumps(dict(request), separators=(",", ":")).encode() + b"\n"
