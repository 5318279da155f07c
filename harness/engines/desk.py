"""What a child process holds: engines and sessions by number, and how a message is read."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

from harness.engines.channel import Message
from harness.engines.interface import Begun, Engine, Options, Session
from harness.errors import ProtocolError
from harness.model.values import Capability

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Answer = tuple[dict[str, object], Sequence[Buffer]]

_T = TypeVar("_T")
_FORWARDS: Final = frozenset({"prefill", "decode"})


class Desk:
    """Engines and sessions of one child process, and where its time went."""

    def __init__(self) -> None:
        self.capabilities: frozenset[Capability] = frozenset()
        self.engines: dict[int, Engine] = {}
        self.sessions: dict[int, Session] = {}
        self.owners: dict[int, int] = {}
        self.spent: dict[str, int] = {"forward_ns": 0, "engine_ns": 0, "look_ns": 0, "busy_ns": 0}
        self._made = 0

    def engine(self, message: Message) -> Engine:
        """Return the engine that a message names.

        Raises:
            ProtocolError: It is not open.
        """
        wanted = number(message.body, "engine")
        if wanted not in self.engines:
            raise ProtocolError(f"engine {wanted} is not open")
        return self.engines[wanted]

    def session(self, message: Message) -> Session:
        """Return the session that a message names.

        Raises:
            ProtocolError: It is not open.
        """
        wanted = number(message.body, "session")
        if wanted not in self.sessions:
            raise ProtocolError(f"session {wanted} is not open")
        return self.sessions[wanted]

    def forget(self, wanted: int) -> Session:
        """Let go of a session and return it."""
        del self.owners[wanted]
        return self.sessions.pop(wanted)

    def next(self) -> int:
        """Return a number that was not given before."""
        self._made += 1
        return self._made

    def timed(self, name: str, session: Session, call: Callable[[], _T], *, wait: bool = True) -> tuple[_T, int]:
        """Call the engine, wait for its device, and count the time.

        Args:
            name: Of the operation.
            session: Whose device is waited for.
            call: What the engine is to do.
            wait: Whether it is waited for; else its next call must see to it, as it must where nobody watches.
        """
        began = time.perf_counter_ns()
        result = call()
        if wait:
            session.synchronize()
        taken = time.perf_counter_ns() - began
        self.spent["engine_ns"] += taken
        if name in _FORWARDS:
            self.spent["forward_ns"] += taken
        return result, taken


def begun(found: Begun) -> dict[str, object]:
    """Return how a state began, as an answer."""
    return {
        "cached": int(found.cached),
        "restored_bytes": int(found.restored_bytes),
        "schedule": [int(end) for end in found.schedule],
        "disk_bytes": int(found.disk_bytes),
        "prompt_tokens": int(found.prompt_tokens),
    }


def tokens(message: Message) -> Sequence[int]:
    """Return the token ids that came with a message; of equal ones the same object, which nobody can change."""
    return _ids(frame(message))


@lru_cache(maxsize=8)
def _ids(words: bytes) -> Sequence[int]:
    """Return the ids of little-endian u32; the few prompts of a cell are begun again and again."""
    return tuple(array("I", words))


def frame(message: Message) -> bytes:
    """Return the one byte string that came with a message.

    Raises:
        ProtocolError: There is none, or more than one.
    """
    if len(message.frames) != 1:
        raise ProtocolError(f"found {len(message.frames)} frames; expected one")
    return bytes(message.frames[0])


def text(body: Mapping[str, object], key: str) -> str:
    """Return a text of a message."""
    value = body.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"{key}: found {value!r}; expected text")
    return value


def unseen(body: Mapping[str, object]) -> bool:
    """Whether nobody is to look, nor to wait for the device, before the session's next call."""
    return body.get("unseen") is True


def number(body: Mapping[str, object], key: str) -> int:
    """Return an integer of a message."""
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError(f"{key}: found {value!r}; expected an integer")
    return value


def mapping(body: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return a mapping of a message."""
    value = body.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"{key}: found {value!r}; expected a mapping")
    return value


def options(body: Mapping[str, object], key: str) -> Options:
    """Return options of a message."""
    return cast("Options", mapping(body, key))
