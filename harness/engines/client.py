"""Engines and sessions of a child process, as typed objects on the parent's side."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from harness.engines.channel import Message
from harness.engines.interface import Begun, Options
from harness.engines.locating import Located, located_from
from harness.engines.looking import row_from
from harness.engines.measuring import Measured, measured_from
from harness.errors import EngineError, ProtocolError, RefusedError
from harness.model.evidence import PartRow

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class Ask(Protocol):
    """Sends one operation to the child that an object lives in; see :meth:`ChildProcess.ask`."""

    def __call__(self, operation: str, fields: Mapping[str, object], frames: Sequence[Buffer] = ()) -> Message:
        """Return the result of the operation."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed(Generic[T]):
    """What an engine call returned, and how long it took in the child, hashing left out."""

    value: T
    ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """What a decode returned."""

    tokens: Sequence[int]
    first_ns: int
    """Until the first token, of the whole time."""
    finish: str
    """``length``, ``stop``, ``cancel``; or ``error``, where the engine refused after these tokens."""
    refusal: RefusedError | None = None
    """What it refused with then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """The state of one session, looked at once."""

    rows: Sequence[PartRow]
    """The part table; empty where parts cannot be seen."""
    logits: str
    """SHA-256 of the pending logits; empty: none are valid or to be had."""
    logits_finite: bool
    position: int
    kept: bool
    """Whether the spool has all bytes that were to be kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """An archive that the harness made of a session's K/V rows."""

    look: Look
    """What the session has to be once the archive was decoded into it."""
    archive: bytes
    page_bytes: int
    """Bytes of the rows that it stands for."""
    path: str
    """Path of the harness's own codec that made it."""


class RemoteSession:
    """A session in a child process. Every method raises as :meth:`ChildProcess.ask` does."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self._number = number

    def begin(self, tokens: Sequence[int], *, cache: bool, unseen: bool = False) -> Timed[Begun]:
        """Begin a prompt.

        Args:
            tokens: Its ids.
            cache: Whether to restore from the store and to capture into it.
            unseen: Do not wait for the device.
        """
        answer = self._call("begin", {"cache": cache, "unseen": unseen}, [token_bytes(tokens)])
        return Timed(value=_begun(answer), ns=number(answer, "ns"))

    def extend(self, tokens: Sequence[int], *, unseen: bool = False) -> Timed[Begun]:
        """Begin another turn on top of the present state; ``unseen``: do not wait for the device."""
        answer = self._call("extend", {"unseen": unseen}, [token_bytes(tokens)])
        return Timed(value=_begun(answer), ns=number(answer, "ns"))

    def prefill(self, upto: int) -> Timed[int]:
        """Forward the prompt up to a position; the value is the tokens really forwarded."""
        answer = self._call("prefill", {"upto": upto})
        forwarded = number(answer, "forwarded")
        if forwarded < 0:  # no record can hold it, and a record that cannot be written ends the run
            raise EngineError(f"expected a count of tokens forwarded, found {forwarded}")
        return Timed(value=forwarded, ns=number(answer, "ns"))

    def commit(self) -> Timed[None]:
        """Publish the captures of the turn."""
        return Timed(value=None, ns=number(self._call("commit", {}), "ns"))

    def abandon(self) -> Timed[None]:
        """Drop the captures of the turn."""
        return Timed(value=None, ns=number(self._call("abandon", {}), "ns"))

    def decode(
        self, count: int, sampler: Mapping[str, int], *, stop: int = -1, cancel_after: int = 0
    ) -> Timed[Decoded]:
        """Decode tokens.

        Args:
            count: How many at most.
            sampler: How to pick.
            stop: Token that ends the decode; -1: none does.
            cancel_after: Tokens after which the session is cancelled; 0: it is not.
        """
        fields = {"count": count, "sampler": dict(sampler), "stop": stop, "cancel_after": cancel_after}
        answer = self._call("decode", fields)
        refused = "refused" in answer.body
        decoded = Decoded(
            tokens=_integers(answer, "tokens"),
            first_ns=number(answer, "first_ns"),
            finish=_text(answer, "finish"),
            refusal=RefusedError(_text(answer, "refused"), _text(answer, "words")) if refused else None,
        )
        return Timed(value=decoded, ns=number(answer, "ns"))

    def cancel(self) -> Timed[None]:
        """Cancel what the session is doing."""
        return Timed(value=None, ns=number(self._call("cancel", {}), "ns"))

    def meanwhile(self, ask: str, *, upto: int, count: int, handle: str) -> str:
        """Go on, and in the middle of it ask for something else; the refusal's code, empty if it was not refused."""
        answer = self._call("meanwhile", {"ask": ask, "upto": upto, "count": count, "handle": handle})
        return _text(answer, "code")

    def record(self) -> Timed[None]:
        """Keep, from here on, what a rollback needs."""
        return Timed(value=None, ns=number(self._call("record", {}), "ns"))

    def rollback(self, count: int, *, unseen: bool = False) -> Timed[int]:
        """Take the last tokens back; the value is the position afterwards. ``unseen``: do not wait for the device."""
        answer = self._call("rollback", {"count": count, "unseen": unseen})
        return Timed(value=number(answer, "position"), ns=number(answer, "ns"))

    def export_image(self, *, capacity: int = -1, short_by: int = 0) -> Timed[bytes]:
        """Export the session.

        Args:
            capacity: Bytes that there is room for; -1: as many as the image needs.
            short_by: Without a capacity, how many bytes fewer than that.
        """
        answer = self._call("export_image", {"capacity": capacity, "short_by": short_by})
        return Timed(value=bytes(_frame(answer)), ns=number(answer, "ns"))

    def import_image(self, image: Buffer, *, unseen: bool = False) -> Timed[Begun]:
        """Become the session of an image; ``unseen``: do not wait for the device."""
        answer = self._call("import_image", {"unseen": unseen}, [image])
        return Timed(value=_begun(answer), ns=number(answer, "ns"))

    def encode(self, codec: str, version: int, *, spool: bool) -> Encoded:
        """Let the harness in the child make an archive of the session's K/V rows.

        Args:
            codec: Name of the codec.
            version: Its version.
            spool: Also keep the bytes that the parts must have once it was decoded.
        """
        answer = self._call("encode", {"codec": codec, "version": version, "spool": spool})
        return Encoded(
            look=_look(answer),
            archive=bytes(_frame(answer)),
            page_bytes=number(answer, "page_bytes"),
            path=_text(answer, "path"),
        )

    def import_archive(self, archive: Buffer, *, codec: str, version: int, unseen: bool = False) -> Timed[Begun]:
        """Let the engine decode an archive into the session's rows; ``unseen``: do not wait for the device."""
        answer = self._call("import_archive", {"codec": codec, "version": version, "unseen": unseen}, [archive])
        return Timed(value=_begun(answer), ns=number(answer, "ns"))

    def snapshot(self) -> Timed[str]:
        """Take an explicit snapshot; the value is the engine's handle."""
        answer = self._call("snapshot", {})
        return Timed(value=_text(answer, "handle"), ns=number(answer, "ns"))

    def restore(self, handle: str, *, unseen: bool = False) -> Timed[Begun]:
        """Restore an explicit snapshot; ``unseen``: do not wait for the device."""
        answer = self._call("restore", {"handle": handle, "unseen": unseen})
        return Timed(value=_begun(answer), ns=number(answer, "ns"))

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of a live part."""
        self._call("corrupt", {"part": part, "byte": byte, "mask": mask})

    def reset(self) -> Timed[None]:
        """Make the session new again."""
        return Timed(value=None, ns=number(self._call("reset", {}), "ns"))

    def close(self) -> None:
        """Close the session."""
        self._call("close_session", {})

    def look(self, *, spool: bool) -> Look:
        """Hash every part and the logits.

        Args:
            spool: Also keep the bytes of every part in the spool.
        """
        return _look(self._call("look", {"spool": spool}))

    def ship(self, part: str) -> bytearray:
        """Return the bytes of a part as they are now."""
        return _frame(self._call("ship", {"part": part}))

    def favoured(self) -> Sequence[int]:
        """Return the tokens with the largest of the pending logits; none where nobody can tell."""
        return _integers(self._call("favoured", {}), "tokens")

    def dump(self, part: str, sha256: str) -> None:
        """Keep one part in the spool, also above its budget."""
        self._call("dump", {"part": part, "sha256": sha256})

    def locate(self, part: str, sha256: str, *, live_is_reference: bool = False) -> Located:
        """Compare a part, as it is now, with one in the spool.

        Args:
            part: Name of the live part.
            sha256: Digest of the part in the spool.
            live_is_reference: The spool holds the candidate's bytes instead of the reference's.
        """
        answer = self._call("locate", {"part": part, "sha256": sha256, "live_is_reference": live_is_reference})
        return located_from(answer.body)

    def measure(self, part: str, sha256: str, *, live_is_reference: bool = False) -> Measured | None:
        """Tell how far a part (or ``logits``), as it is now, lies from one in the spool; None where nobody can tell.

        Args:
            part: Name of the live part.
            sha256: Digest of the part in the spool.
            live_is_reference: The spool holds the candidate's bytes instead of the reference's.
        """
        answer = self._call("measure", {"part": part, "sha256": sha256, "live_is_reference": live_is_reference})
        return measured_from(answer.body)

    def kept(self, sha256: str) -> bool:
        """Tell whether the spool has a part."""
        return _flag(self._call("kept", {"sha256": sha256}), "kept")

    def _call(self, operation: str, fields: Mapping[str, object], frames: Sequence[Buffer] = ()) -> Message:
        return self._ask(operation, {**fields, "session": self._number}, frames)


def _look(answer: Message) -> Look:
    return Look(
        rows=[row_from(_mapping(row)) for row in _list(answer, "rows")],
        logits=_text(answer, "logits"),
        logits_finite=_flag(answer, "finite"),
        position=number(answer, "position"),
        kept=_flag(answer, "kept"),
    )


class RemoteEngine:
    """An engine in a child process. Every method raises as :meth:`ChildProcess.ask` does."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self._number = number

    def open_session(self, options: Options) -> RemoteSession:
        """Open a session."""
        answer = self._call("open_session", {"options": dict(options)})
        return RemoteSession(self._ask, number(answer, "session"))

    def store(self) -> tuple[Sequence[Mapping[str, str | int | bool]], Mapping[str, int]]:
        """List the snapshots held, and the counters."""
        answer = self._call("store", {})
        entries = [_facts(entry) for entry in _list(answer, "entries")]
        counters = {name: _integer(value) for name, value in _mapping(answer.body.get("counters")).items()}
        return entries, counters

    def evict(self, count: int) -> int:
        """Evict snapshots; return how many went."""
        return number(self._call("evict", {"count": count}), "evicted")

    def release(self, need: int) -> int:
        """Give bytes of snapshots back; return how many went."""
        return number(self._call("release", {"need": need}), "freed")

    def disk_files(self) -> Sequence[Mapping[str, str | int | bool]]:
        """List the files of the disk tier."""
        return [_facts(one) for one in _list(self._call("disk_files", {}), "files")]

    def forge_image(self, image: Buffer, what: str) -> bytes:
        """See :meth:`harness.engines.interface.Engine.forge_image`."""
        return bytes(_frame(self._call("forge_image", {"what": what}, [image])))

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change the budget of the store."""
        self._call("set_budget", {"budget": dict(budget)})

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits of a part in an explicit snapshot."""
        self._call("corrupt_handle", {"handle": handle, "part": part, "byte": byte, "mask": mask})

    def damage_store(self, key: str, kind: str) -> None:
        """See :meth:`harness.engines.interface.Engine.damage_store`."""
        self._call("damage_store", {"key": key, "kind": kind})

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        """Flip bits of a part in a stored snapshot."""
        self._call("corrupt_store", {"key": key, "part": part, "byte": byte, "mask": mask})

    def close(self) -> None:
        """Close the engine and its sessions."""
        self._call("close_engine", {})

    def _call(self, operation: str, fields: Mapping[str, object], frames: Sequence[Buffer] = ()) -> Message:
        return self._ask(operation, {**fields, "engine": self._number}, frames)


def token_bytes(tokens: Sequence[int]) -> bytes:
    """Return token ids as little-endian u32: what crosses the channel, and what a prompt digest is over."""
    words = array("I", tokens)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def number(answer: Message, key: str) -> int:
    """Return an integer of an answer."""
    return _integer(answer.body.get(key), key)


def _begun(answer: Message) -> Begun:
    schedule = _integers(answer, "schedule")
    if any(earlier >= later for earlier, later in pairwise(schedule)):
        raise ProtocolError(f"found the schedule {list(schedule)[:8]}; expected ascending ends of chunks")
    begun = Begun(
        cached=number(answer, "cached"),
        restored_bytes=number(answer, "restored_bytes"),
        schedule=schedule,
        disk_bytes=number(answer, "disk_bytes"),
        prompt_tokens=number(answer, "prompt_tokens"),
    )
    if min(begun.cached, begun.restored_bytes, begun.disk_bytes, begun.prompt_tokens) < 0:
        raise ProtocolError(f"found {begun.cached} cached tokens and {begun.restored_bytes} restored bytes")
    return begun


def _frame(answer: Message) -> bytearray:
    if len(answer.frames) != 1:
        raise ProtocolError(f"found {len(answer.frames)} frames; expected one")
    return answer.frames[0]


def _integers(answer: Message, key: str) -> Sequence[int]:
    return [_integer(value, key) for value in _list(answer, key)]


def _integer(value: object, key: str = "value") -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError(f"{key}: found {value!r}; expected an integer")
    return value


def _text(answer: Message, key: str) -> str:
    value = answer.body.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"{key}: found {value!r}; expected text")
    return value


def _flag(answer: Message, key: str) -> bool:
    value = answer.body.get(key)
    if not isinstance(value, bool):
        raise ProtocolError(f"{key}: found {value!r}; expected true or false")
    return value


def _list(answer: Message, key: str) -> Sequence[object]:
    value = answer.body.get(key)
    if not isinstance(value, list):
        raise ProtocolError(f"{key}: found {value!r}; expected a list")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ProtocolError(f"found {value!r}; expected a mapping")
    return value


def _facts(value: object) -> Mapping[str, str | int | bool]:
    facts = _mapping(value)
    for name, fact in facts.items():
        if not isinstance(fact, str | int):
            raise ProtocolError(f"{name}: found {fact!r}; expected text, an integer, true or false")
    return {name: fact for name, fact in facts.items() if isinstance(fact, str | int)}
