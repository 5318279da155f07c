"""Messages between the harness and its child process: one JSON header and raw frames, over two pipes.

Rules kept here:

- Pipes of their own: an engine may print to stdout and stderr as it likes.
- Every message says how long it is before it says anything; what does not begin with the mark of a message is
  refused, never searched for one.
- All waiting has a limit where the caller gives one, also while writing: a peer that does not read is a peer that
  hangs.
"""

from __future__ import annotations

import contextlib
import operator
import os
import select
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from harness.errors import ProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MARK: Final = b"scm1"
_HEAD: Final = struct.Struct("<4sII")
_LENGTH: Final = struct.Struct("<Q")
_MAX_HEADER: Final = 64 * 1024 * 1024
_MAX_FRAMES: Final = 4096
_MAX_FRAME: Final = 1 << 40
_PIPE_BYTES: Final = 1 << 20


class ChannelClosedError(Exception):
    """The other end is gone; what that means is for the caller to say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message, whole."""

    body: Mapping[str, object]
    """The JSON header: integers, strings, booleans, lists and mappings."""
    frames: Sequence[bytearray] = ()
    """Raw byte strings that came with it."""


class Channel:
    """One end of a pair of pipes.

    Args:
        reader: File descriptor to read from; owned by the channel from here on.
        writer: File descriptor to write to; owned by the channel from here on.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        for descriptor in (reader, writer):
            os.set_blocking(descriptor, False)
        _widen(writer)

    def send(self, body: Mapping[str, object], frames: Sequence[Buffer] = (), *, seconds: float | None = None) -> None:
        """Write one message.

        Args:
            body: JSON header; whatever counts as an integer (of numpy, of torch) is sent as one.
            frames: Raw byte strings, not copied.
            seconds: Limit for the whole message; None waits for ever.

        Raises:
            TypeError: Something in the header is neither JSON nor a number.
            ChannelClosedError: The other end is gone.
            TimeoutError: The other end did not read within the limit.
        """
        deadline = _deadline(seconds)
        header = orjson.dumps(body, default=_counted)
        views = [_flat(frame) for frame in frames]
        lengths = b"".join(_LENGTH.pack(view.nbytes) for view in views)
        self._write(memoryview(_HEAD.pack(_MARK, len(header), len(views)) + lengths + header), deadline)
        for view in views:
            self._write(view, deadline)

    def receive(self, *, seconds: float | None = None) -> Message:
        """Read one message.

        Args:
            seconds: Limit for the whole message; None waits for ever.

        Raises:
            ChannelClosedError: The other end is gone.
            TimeoutError: No whole message came within the limit.
            ProtocolError: What came is not a message.
        """
        deadline = _deadline(seconds)
        mark, header_bytes, count = _HEAD.unpack(self._read(_HEAD.size, deadline))
        if mark != _MARK or header_bytes > _MAX_HEADER or count > _MAX_FRAMES:
            raise ProtocolError(
                f"found {bytes(mark)!r}, {header_bytes} header bytes and {count} frames; expected a message that "
                f"begins with {_MARK!r}. Did the engine write to a file descriptor that is not its own?"
            )
        lengths = [_LENGTH.unpack(self._read(_LENGTH.size, deadline))[0] for _ in range(count)]
        if any(length > _MAX_FRAME for length in lengths):
            raise ProtocolError(f"found a frame of {max(lengths)} bytes; allowed are {_MAX_FRAME}")
        body = _parsed(self._read(header_bytes, deadline))
        return Message(body=body, frames=[self._read(length, deadline) for length in lengths])

    def close(self) -> None:
        """Let go of both pipes; a second call does nothing."""
        for descriptor in (self._reader, self._writer):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._reader = self._writer = -1

    def _read(self, size: int, deadline: float | None) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            try:
                done = os.readv(self._reader, [rest])
            except BlockingIOError:
                _wait(self._reader, select.POLLIN, deadline)
                continue
            if done == 0:
                raise ChannelClosedError(f"the other end closed with {len(rest)} bytes to come")
            rest = rest[done:]
        return data

    def _write(self, rest: memoryview, deadline: float | None) -> None:
        while rest:
            try:
                done = os.write(self._writer, rest)
            except BlockingIOError:
                _wait(self._writer, select.POLLOUT, deadline)
                continue
            except BrokenPipeError as error:
                raise ChannelClosedError("the other end does not read any more") from error
            rest = rest[done:]


def _flat(frame: Buffer) -> memoryview:
    view = memoryview(frame)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _parsed(header: bytearray) -> Mapping[str, object]:
    try:
        body: object = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"found a header that is not JSON ({error})") from error
    if not isinstance(body, dict):
        raise ProtocolError(f"found a header of type {type(body).__name__}; expected a mapping")
    return body


def _counted(value: object) -> int:
    """Return the integer that a number of another library stands for.

    Raises:
        TypeError: It stands for none.
    """
    return operator.index(value)  # type: ignore[arg-type] # that is the question


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _wait(descriptor: int, events: int, deadline: float | None) -> None:
    """Return when ``descriptor`` is ready or its other end is gone; the next call tells which."""
    poll = select.poll()
    poll.register(descriptor, events)
    if deadline is None:
        poll.poll()
        return
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError


def _widen(descriptor: int) -> None:
    """Make the pipe larger where the system can: fewer turns for a shipped part."""
    try:
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return
