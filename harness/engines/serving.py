"""The harness's code inside the child process: opens the adapter, runs operations, looks and hashes.

One operation per message, one answer per operation. Engines, sessions and parts are known by id or name only; nothing
of the engine crosses the channel but numbers, digests and, where asked for, raw bytes.

Time: ``ns`` of an answer is the engine call with its :meth:`Session.synchronize`, without hashing and copying.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from harness.digest.parts import part_digest, part_digests
from harness.engines import registry
from harness.engines.channel import Message
from harness.engines.interface import Adapter, Begun, Engine, Options, Session, StatePart
from harness.engines.locating import locate
from harness.engines.looking import Logits, logits_of, part_rows, part_views
from harness.engines.spool import Part, Spool, SpoolBudget
from harness.engines.subject import path_sets_of
from harness.errors import ProtocolError
from harness.model.values import Capability

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Answer = tuple[dict[str, object], Sequence[Buffer]]

_T = TypeVar("_T")
_FORWARDS: Final = frozenset({"prefill", "decode"})


class Server:
    """Runs the operations of one child process."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None
        self._capabilities: frozenset[Capability] = frozenset()
        self._engines: dict[int, Engine] = {}
        self._sessions: dict[int, Session] = {}
        self._owners: dict[int, int] = {}
        self._logits_types: dict[int, str] = {}
        self._spool: Spool | None = None
        self._threads = 1
        self._made = 0
        self._times = {"forward_ns": 0, "engine_ns": 0, "look_ns": 0, "busy_ns": 0}

    def answer(self, message: Message) -> Answer:
        """Run one operation.

        Raises:
            ProtocolError: The operation, or an id in it, is unknown; or the engine broke the seam.
        """
        operation = message.body.get("op")
        run = _OPERATIONS.get(operation) if isinstance(operation, str) else None
        if run is None:
            raise ProtocolError(f"found the operation {operation!r}; known are {sorted(_OPERATIONS)}")
        result = run(self, message)
        return result if isinstance(result, tuple) else (result, ())

    def busy(self, operation: str, ns: int) -> None:
        """Count the time from the arrival of a message to the departure of its answer."""
        self._times["busy_ns"] += ns
        self._times[f"busy.{operation}"] = self._times.get(f"busy.{operation}", 0) + ns

    def hello(self, message: Message) -> dict[str, object]:
        """Hash buffers whose digests the parent knows."""
        self._threads = _number(message.body, "threads")
        return {"digests": [part_digest(frame) for frame in message.frames]}

    def load(self, message: Message) -> dict[str, object]:
        """Import the adapter."""
        self._adapter = registry.load(_text(message.body, "adapter"), _text(message.body, "group"))
        self._capabilities = self._adapter.capabilities()
        return {
            "capabilities": sorted(str(capability) for capability in self._capabilities),
            "devices": [[name, reason] for name, reason in self._adapter.devices()],
        }

    def open_engine(self, message: Message) -> dict[str, object]:
        """Load a model and say who it is."""
        if self._adapter is None:
            raise ProtocolError("an engine was asked for before an adapter was loaded")
        engine = self._adapter.open(_options(message.body, "options"))
        number = self._next()
        self._engines[number] = engine
        identity = engine.identity()
        self._logits_types[number] = str(identity.facts.get("logits_type", "f32"))
        return {
            "engine": number,
            "identity": {
                "engine": identity.engine,
                "version": identity.version,
                "model": identity.model,
                "model_digest": identity.model_digest,
                "hw_class": identity.hw_class,
                "observability": str(identity.observability),
                "facts": dict(identity.facts),
                "device": dict(identity.device),
                "path_sets": {name: list(patterns) for name, patterns in identity.path_sets.items()},
            },
        }

    def subject(self, message: Message) -> dict[str, object]:
        """Digest the declared files as this process imports them."""
        declared = cast("Mapping[str, Sequence[str]]", _mapping(message.body, "path_sets"))
        sets = path_sets_of(declared)
        return {"path_sets": [[one.name, str(one.digest), one.files] for one in sets]}

    def close_engine(self, message: Message) -> dict[str, object]:
        """Close an engine and what is left of its sessions."""
        number = _number(message.body, "engine")
        engine = self._engine(message)
        for session in [session for session, owner in self._owners.items() if owner == number]:
            self._forget(session).close()
        del self._engines[number]
        engine.close()
        return {}

    def open_session(self, message: Message) -> dict[str, object]:
        """Open a session of an engine."""
        session = self._engine(message).open_session(_options(message.body, "options"))
        number = self._next()
        self._sessions[number] = session
        self._owners[number] = _number(message.body, "engine")
        return {"session": number}

    def close_session(self, message: Message) -> dict[str, object]:
        """Close a session."""
        self._session(message)
        self._forget(_number(message.body, "session")).close()
        return {}

    def begin(self, message: Message) -> dict[str, object]:
        """Begin a prompt."""
        session, tokens = self._session(message), _tokens(message)
        cache = message.body.get("cache") is True
        begun, ns = self._timed("begin", session, lambda: session.begin(tokens, cache=cache))
        return {**_begun(begun), "ns": ns}

    def extend(self, message: Message) -> dict[str, object]:
        """Begin another turn on top of the present state."""
        session, tokens = self._session(message), _tokens(message)
        begun, ns = self._timed("extend", session, lambda: session.extend(tokens))
        return {**_begun(begun), "ns": ns}

    def prefill(self, message: Message) -> dict[str, object]:
        """Forward the prompt up to a position."""
        session, upto = self._session(message), _number(message.body, "upto")
        forwarded, ns = self._timed("prefill", session, lambda: session.prefill(upto))
        return {"forwarded": int(forwarded), "ns": ns}

    def commit(self, message: Message) -> dict[str, object]:
        """Publish the captures of the turn."""
        session = self._session(message)
        return {"ns": self._timed("commit", session, session.commit)[1]}

    def abandon(self, message: Message) -> dict[str, object]:
        """Drop the captures of the turn."""
        session = self._session(message)
        return {"ns": self._timed("abandon", session, session.abandon)[1]}

    def decode(self, message: Message) -> dict[str, object]:
        """Decode tokens: the first one by a call of its own, so that its time is known."""
        session, count = self._session(message), _number(message.body, "count")
        sampler = {name: int(str(value)) for name, value in _mapping(message.body, "sampler").items()}
        tokens, first_ns = self._timed("decode", session, lambda: session.decode(min(count, 1), sampler))
        found, ns = [int(token) for token in tokens], first_ns
        if count > 1:
            tokens, more_ns = self._timed("decode", session, lambda: session.decode(count - 1, sampler))
            found, ns = [*found, *(int(token) for token in tokens)], ns + more_ns
        return {"tokens": found, "ns": ns, "first_ns": first_ns}

    def snapshot(self, message: Message) -> dict[str, object]:
        """Take an explicit snapshot."""
        session = self._session(message)
        handle, ns = self._timed("snapshot", session, session.snapshot)
        return {"handle": handle, "ns": ns}

    def restore(self, message: Message) -> dict[str, object]:
        """Restore an explicit snapshot."""
        session, handle = self._session(message), _text(message.body, "handle")
        begun, ns = self._timed("restore", session, lambda: session.restore(handle))
        return {**_begun(begun), "ns": ns}

    def reset(self, message: Message) -> dict[str, object]:
        """Make a session new again."""
        session = self._session(message)
        return {"ns": self._timed("reset", session, session.reset)[1]}

    def corrupt(self, message: Message) -> dict[str, object]:
        """Flip bits of a live part."""
        session, body = self._session(message), message.body
        session.corrupt(_text(body, "part"), _number(body, "byte"), _number(body, "mask"))
        return {}

    def corrupt_handle(self, message: Message) -> dict[str, object]:
        """Flip bits of a part in an explicit snapshot."""
        engine, body = self._engine(message), message.body
        place = _text(body, "part"), _number(body, "byte"), _number(body, "mask")
        engine.corrupt_handle(_text(body, "handle"), *place)
        return {}

    def corrupt_store(self, message: Message) -> dict[str, object]:
        """Flip bits of a part in a stored snapshot."""
        engine, body = self._engine(message), message.body
        place = _text(body, "part"), _number(body, "byte"), _number(body, "mask")
        engine.corrupt_store(_text(body, "key"), *place)
        return {}

    def damage_store(self, message: Message) -> dict[str, object]:
        """Break the geometry of a stored snapshot."""
        self._engine(message).damage_store(_text(message.body, "key"), _text(message.body, "kind"))
        return {}

    def store(self, message: Message) -> dict[str, object]:
        """List the snapshots held, and the counters."""
        entries, counters = self._engine(message).store()
        return {"entries": [dict(entry) for entry in entries], "counters": dict(counters)}

    def evict(self, message: Message) -> dict[str, object]:
        """Evict snapshots."""
        return {"evicted": int(self._engine(message).evict(_number(message.body, "count")))}

    def set_budget(self, message: Message) -> dict[str, object]:
        """Change the budget of the store."""
        budget = {name: int(str(value)) for name, value in _mapping(message.body, "budget").items()}
        self._engine(message).set_budget(budget)
        return {}

    def look(self, message: Message) -> dict[str, object]:
        """Hash every part and the logits; keep the bytes in the spool if asked to."""
        session, keep = self._session(message), message.body.get("spool") is True
        session.synchronize()
        began = time.perf_counter_ns()
        parts = self._parts(session)
        views = part_views(parts)
        digests, kept = self._hashed(parts, views, keep=keep)
        logits = self._logits(session, parts, self._owners[_number(message.body, "session")])
        position = int(session.position())
        self._times["look_ns"] += time.perf_counter_ns() - began
        return {
            "rows": list(part_rows(parts, views, digests)),
            "logits": logits.sha256,
            "finite": logits.finite,
            "position": position,
            "kept": kept,
        }

    def ship(self, message: Message) -> Answer:
        """Send the bytes of one part as they are now."""
        _, view = self._part(message)
        return {"bytes": view.nbytes}, (view,)

    def dump(self, message: Message) -> dict[str, object]:
        """Keep one part in the spool, also above its budget."""
        _, view = self._part(message)
        self._open_spool().keep(_text(message.body, "sha256"), view, beyond_budget=True)
        return {}

    def locate(self, message: Message) -> dict[str, object]:
        """Compare a live part with a part in the spool, element by element."""
        part, view = self._part(message)
        other = self._open_spool().read(_text(message.body, "sha256"))
        live_is_reference = message.body.get("live_is_reference") is True
        pair = (view, other) if live_is_reference else (other, view)
        return locate(part, reference=pair[0], candidate=pair[1])

    def kept(self, message: Message) -> dict[str, object]:
        """Say whether the spool has a part."""
        return {"kept": _text(message.body, "sha256") in self._open_spool()}

    def spool(self, message: Message) -> dict[str, object]:
        """Use a folder as the spool from here on; without one, forget the present spool."""
        if self._spool is not None:
            self._spool.close()
        folder = _text(message.body, "folder")
        budget = SpoolBudget(memory=_number(message.body, "memory"), disk=_number(message.body, "disk"))
        self._spool = Spool(Path(folder), budget) if folder else None
        return {}

    def times(self, message: Message) -> dict[str, object]:  # noqa: ARG002 - every operation takes its message
        """Say where the time of this process went so far."""
        return dict(self._times)

    def _hashed(
        self, parts: Sequence[StatePart], views: Sequence[memoryview], *, keep: bool
    ) -> tuple[Sequence[str], bool]:
        """Return the digests of all parts, and whether all that was to be kept is kept."""
        if self._spool is None:
            return part_digests(views, threads=self._threads), not keep
        found = [Part(part.name, view, part.stream == "rows") for part, view in zip(parts, views, strict=True)]
        return self._spool.hashed(found, keep=keep, threads=self._threads)

    def _timed(self, name: str, session: Session, call: Callable[[], _T]) -> tuple[_T, int]:
        began = time.perf_counter_ns()
        result = call()
        session.synchronize()
        taken = time.perf_counter_ns() - began
        self._times["engine_ns"] += taken
        if name in _FORWARDS:
            self._times["forward_ns"] += taken
        return result, taken

    def _parts(self, session: Session) -> Sequence[StatePart]:
        return session.parts() if Capability.PARTS in self._capabilities else ()

    def _logits(self, session: Session, parts: Sequence[StatePart], owner: int) -> Logits:
        if Capability.LOGITS not in self._capabilities:
            return Logits(sha256="", finite=True)
        return logits_of(session, parts, element_type=self._logits_types[owner])

    def _part(self, message: Message) -> tuple[StatePart, memoryview]:
        session, name = self._session(message), _text(message.body, "part")
        session.synchronize()
        for part in session.parts():
            if part.name == name:
                return part, part_views([part])[0] if name == "meta" else _flat(part)
        raise ProtocolError(f"no part {name!r} in this session any more")

    def _open_spool(self) -> Spool:
        if self._spool is None:
            raise ProtocolError("bytes were to be kept, but no spool is open")
        return self._spool

    def _engine(self, message: Message) -> Engine:
        number = _number(message.body, "engine")
        if number not in self._engines:
            raise ProtocolError(f"engine {number} is not open")
        return self._engines[number]

    def _session(self, message: Message) -> Session:
        number = _number(message.body, "session")
        if number not in self._sessions:
            raise ProtocolError(f"session {number} is not open")
        return self._sessions[number]

    def _forget(self, number: int) -> Session:
        del self._owners[number]
        return self._sessions.pop(number)

    def _next(self) -> int:
        self._made += 1
        return self._made


_OPERATIONS: Final[Mapping[str, Callable[[Server, Message], dict[str, object] | Answer]]] = {
    "hello": Server.hello,
    "load": Server.load,
    "open_engine": Server.open_engine,
    "subject": Server.subject,
    "close_engine": Server.close_engine,
    "open_session": Server.open_session,
    "close_session": Server.close_session,
    "begin": Server.begin,
    "extend": Server.extend,
    "prefill": Server.prefill,
    "commit": Server.commit,
    "abandon": Server.abandon,
    "decode": Server.decode,
    "snapshot": Server.snapshot,
    "restore": Server.restore,
    "reset": Server.reset,
    "corrupt": Server.corrupt,
    "corrupt_handle": Server.corrupt_handle,
    "corrupt_store": Server.corrupt_store,
    "damage_store": Server.damage_store,
    "store": Server.store,
    "evict": Server.evict,
    "set_budget": Server.set_budget,
    "look": Server.look,
    "ship": Server.ship,
    "dump": Server.dump,
    "locate": Server.locate,
    "kept": Server.kept,
    "spool": Server.spool,
    "times": Server.times,
}


def _flat(part: StatePart) -> memoryview:
    view = memoryview(part.data)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _begun(begun: Begun) -> dict[str, object]:
    return {
        "cached": int(begun.cached),
        "restored_bytes": int(begun.restored_bytes),
        "schedule": [int(end) for end in begun.schedule],
    }


def _tokens(message: Message) -> Sequence[int]:
    if len(message.frames) != 1:
        raise ProtocolError(f"found {len(message.frames)} frames; a prompt comes as one")
    tokens = array("I", bytes(message.frames[0]))
    return tokens.tolist()


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"{key}: found {value!r}; expected text")
    return value


def _number(body: Mapping[str, object], key: str) -> int:
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError(f"{key}: found {value!r}; expected an integer")
    return value


def _mapping(body: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = body.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"{key}: found {value!r}; expected a mapping")
    return value


def _options(body: Mapping[str, object], key: str) -> Options:
    return cast("Options", _mapping(body, key))
