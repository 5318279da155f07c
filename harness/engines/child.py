"""The child process that an engine lives in: ``python -m harness.engines.child <read fd> <write fd>``.

Rules kept here:

- Ctrl-C and SIGTERM are the parent's business; this process stays.
- When the parent is gone this process ends at once, also in the middle of an operation.
- It leaves without running destructors of the engine: they may hang or crash, and nothing of them is judged.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.engines.channel import Channel, ChannelClosedError
from harness.engines.serving import Server
from harness.errors import EngineCrashedError, EngineHungError, ProtocolError, RefusedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ORPHANED = 3


def main(reader: int, writer: int) -> None:
    """Answer messages until the parent says ``quit`` or is gone."""
    stay()
    with contextlib.suppress(ValueError, OSError, AttributeError):
        faulthandler.enable()
    asked = threading.Event()
    _leave_with_parent(reader, asked)
    channel = Channel(reader, writer)
    server = Server()
    with contextlib.suppress(ChannelClosedError):
        while _serve_one(channel, server, asked):
            pass
    _leave(0)


def stay() -> None:
    """Leave it to the parent what a signal to the whole group means: Ctrl-C, or a time limit's SIGTERM.

    A child that died of it would be an engine that died. SIGTERM has a handler here instead of being ignored, since a
    program that the engine starts would inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: None)


def _serve_one(channel: Channel, server: Server, asked: threading.Event) -> bool:
    message = channel.receive()
    began = time.perf_counter_ns()
    number = message.body.get("id")
    if message.body.get("op") == "quit":
        asked.set()  # the parent closes its end as soon as it has the answer: that is no orphan's end
        channel.send({"id": number, "ok": {}})
        return False
    try:
        result, frames = server.answer(message)
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is an answer
        channel.send({"id": number, "error": _described(error)})
    else:
        _send_result(channel, number, result, frames)
    server.busy(str(message.body.get("op")), time.perf_counter_ns() - began)
    return True


def _send_result(channel: Channel, number: object, result: Mapping[str, object], frames: Sequence[Buffer]) -> None:
    """Send a result; one that JSON cannot hold (a float type of some library, bytes) is an error of the seam."""
    try:
        channel.send({"id": number, "ok": result}, frames)
    except TypeError as error:
        channel.send({"id": number, "error": _described(ProtocolError(f"an answer cannot be written: {error}"))})


def _described(error: Exception) -> dict[str, str]:
    """Say what went wrong in words that the channel can carry."""
    described = {"kind": "engine", "type": type(error).__name__, "code": "", "message": str(error)[:4000]}
    if isinstance(error, RefusedError):
        return {**described, "kind": "refused", "code": error.code, "message": error.message[:4000]}
    if isinstance(error, ProtocolError):
        return {**described, "kind": "protocol"}
    if isinstance(error, EngineCrashedError):
        return {**described, "kind": "crashed", "code": str(error.status)}
    if isinstance(error, EngineHungError):
        return {**described, "kind": "hung"}
    if _lacks_memory(error):
        return {**described, "kind": "memory"}
    _log(error)
    return described


def _lacks_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and ("can't allocate memory" in words or "out of memory" in words)


def _log(error: Exception) -> None:
    """Leave the trace in the log of the child, for whoever repairs the engine."""
    import traceback

    traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()


def _leave_with_parent(reader: int, asked: threading.Event) -> None:
    """End this process as soon as the parent's end of the request pipe is closed; in good order if it was asked to."""

    def watch() -> None:
        poll = select.poll()
        poll.register(reader, 0)  # reports a hang-up only
        with contextlib.suppress(OSError):
            poll.poll()
            _leave(0 if asked.is_set() else _ORPHANED)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _leave(status: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
