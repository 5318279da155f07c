"""The harness's code inside the child process: opens the adapter, runs operations, looks and hashes.

One operation per message, one answer per operation. Engines, sessions and parts are known by id or name only; nothing
of the engine crosses the channel but numbers, digests and, where asked for, raw bytes.

Time: ``ns`` of an answer is the engine call with its :meth:`Session.synchronize`, without hashing and copying.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from harness.digest.blocks import ELEMENT_BYTES
from harness.digest.parts import part_digest, part_digests
from harness.engines import filedigests, registry, serving_images, serving_store
from harness.engines.archives import coded
from harness.engines.channel import Message
from harness.engines.desk import Desk, begun, mapping, number, options, text, tokens, unseen
from harness.engines.interface import Adapter, Aimed, Planning, Session, StatePart, Suggesting
from harness.engines.largest import largest
from harness.engines.locating import locate
from harness.engines.looking import Logits, labels, logits_of, part_views, signed
from harness.engines.measuring import measure
from harness.engines.spool import Part, Spool, SpoolBudget
from harness.engines.subject import path_sets_of
from harness.errors import ProtocolError, RefusedError
from harness.model.values import Capability, Family

if TYPE_CHECKING:
    from harness.engines.desk import Answer


class Server(Desk):
    """Runs the operations of one child process."""

    def __init__(self) -> None:
        super().__init__()
        self._adapter: Adapter | None = None
        self._logits_types: dict[int, str] = {}
        self._spool: Spool | None = None
        self._threads = 1

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
        self.spent["busy_ns"] += ns
        self.spent[f"busy.{operation}"] = self.spent.get(f"busy.{operation}", 0) + ns

    def hello(self, message: Message) -> dict[str, object]:
        """Hash buffers whose digests the parent knows."""
        self._threads = number(message.body, "threads")
        return {"digests": [part_digest(frame) for frame in message.frames]}

    def load(self, message: Message) -> dict[str, object]:
        """Import the adapter, and tell it the target's options if it wants to know them.

        Digests of files that an earlier child of the run has made are believed.
        """
        filedigests.believe(mapping(message.body, "files"))
        self._adapter = registry.load(text(message.body, "adapter"), text(message.body, "group"))
        if isinstance(self._adapter, Aimed):
            self._adapter.aim(options(message.body, "options"))
        self.capabilities = self._adapter.capabilities()
        return {
            "capabilities": sorted(str(capability) for capability in self.capabilities),
            "devices": [[name, reason] for name, reason in self._adapter.devices()],
            "targets": self._suggested(),
        }

    def plan(self, message: Message) -> dict[str, object]:
        """Say who would get how many bytes; nothing where the adapter does not plan."""
        adapter: object = self._adapter
        if not isinstance(adapter, Planning):
            return {}
        memory, context = number(message.body, "memory"), number(message.body, "context")
        return dict(adapter.plan(options(message.body, "options"), memory=memory, context=context))

    def _suggested(self) -> list[list[object]]:
        adapter: object = self._adapter
        if not isinstance(adapter, Suggesting):
            return []
        return [[name, dict(asked), note] for name, asked, note in adapter.targets()]

    def open_engine(self, message: Message) -> dict[str, object]:
        """Load a model and say who it is."""
        if self._adapter is None:
            raise ProtocolError("an engine was asked for before an adapter was loaded")
        engine = self._adapter.open(options(message.body, "options"))
        made = self.next()
        self.engines[made] = engine
        identity = engine.identity()
        self._logits_types[made] = str(identity.facts.get("logits_type", "f32"))
        return {
            "engine": made,
            "files": filedigests.known(),
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
        declared = cast("Mapping[str, Sequence[str]]", mapping(message.body, "path_sets"))
        sets = path_sets_of(declared)
        return {"path_sets": [[one.name, str(one.digest), one.files] for one in sets]}

    def close_engine(self, message: Message) -> dict[str, object]:
        """Close an engine and what is left of its sessions."""
        wanted, engine = number(message.body, "engine"), self.engine(message)
        for session in [session for session, owner in self.owners.items() if owner == wanted]:
            self.forget(session).close()
        del self.engines[wanted]
        engine.close()
        return {}

    def open_session(self, message: Message) -> dict[str, object]:
        """Open a session of an engine."""
        session = self.engine(message).open_session(options(message.body, "options"))
        made = self.next()
        self.sessions[made] = session
        self.owners[made] = number(message.body, "engine")
        return {"session": made}

    def close_session(self, message: Message) -> dict[str, object]:
        """Close a session."""
        self.session(message)
        self.forget(number(message.body, "session")).close()
        return {}

    def begin(self, message: Message) -> dict[str, object]:
        """Begin a prompt."""
        session, prompt = self.session(message), tokens(message)
        cache, wait = message.body.get("cache") is True, not unseen(message.body)
        found, ns = self.timed("begin", session, lambda: session.begin(prompt, cache=cache), wait=wait)
        return {**begun(found), "ns": ns}

    def extend(self, message: Message) -> dict[str, object]:
        """Begin another turn on top of the present state."""
        session, more = self.session(message), tokens(message)
        found, ns = self.timed("extend", session, lambda: session.extend(more), wait=not unseen(message.body))
        return {**begun(found), "ns": ns}

    def prefill(self, message: Message) -> dict[str, object]:
        """Forward the prompt up to a position."""
        session, upto = self.session(message), number(message.body, "upto")
        forwarded, ns = self.timed("prefill", session, lambda: session.prefill(upto))
        return {"forwarded": int(forwarded), "ns": ns}

    def commit(self, message: Message) -> dict[str, object]:
        """Publish the captures of the turn."""
        session = self.session(message)
        return {"ns": self.timed("commit", session, session.commit)[1]}

    def abandon(self, message: Message) -> dict[str, object]:
        """Drop the captures of the turn."""
        session = self.session(message)
        return {"ns": self.timed("abandon", session, session.abandon)[1]}

    def decode(self, message: Message) -> dict[str, object]:
        """Decode tokens: the first one by a call of its own, so that its time is known.

        With a stop token, or where the decode is to be cancelled, each token is asked for alone, as a server does. A
        refusal after the first token is told with the tokens that were decoded before it.
        """
        session, body = self.session(message), message.body
        sampler = {name: int(str(value)) for name, value in mapping(body, "sampler").items()}
        found: list[int] = []
        ns, first_ns, finish = 0, 0, "length"
        count, stop, cancel = (number(body, name) for name in ("count", "stop", "cancel_after"))
        while len(found) < count and finish == "length":
            share = 1 if not found or stop >= 0 or cancel else count - len(found)
            try:
                more, taken = self.timed("decode", session, partial(session.decode, share, sampler))
            except RefusedError as error:
                if not found:
                    raise
                told = {"refused": str(error.code), "words": error.message}
                return {"tokens": found, "ns": ns, "first_ns": first_ns, "finish": "error", **told}
            found += [int(token) for token in more]
            ns += taken
            first_ns = first_ns or taken
            if stop >= 0 and stop in found[-1:]:
                finish = "stop"
            elif cancel and len(found) >= cancel:
                finish, ns = "cancel", ns + self.timed("cancel", session, session.cancel)[1]
            elif len(more) != share:
                break
        return {"tokens": found, "ns": ns, "first_ns": first_ns, "finish": finish}

    def cancel(self, message: Message) -> dict[str, object]:
        """Cancel what a session is doing."""
        session = self.session(message)
        return {"ns": self.timed("cancel", session, session.cancel)[1], "position": int(session.position())}

    def record(self, message: Message) -> dict[str, object]:
        """Keep, from here on, what a rollback needs."""
        session = self.session(message)
        return {"ns": self.timed("record", session, session.record)[1]}

    def rollback(self, message: Message) -> dict[str, object]:
        """Take the last tokens back."""
        session, count = self.session(message), number(message.body, "count")
        _, ns = self.timed("rollback", session, lambda: session.rollback(count), wait=not unseen(message.body))
        return {"position": int(session.position()), "ns": ns}

    def meanwhile(self, message: Message) -> dict[str, object]:
        """Go on with a session, and in the middle of the call ask it for something else."""
        session, body = self.session(message), message.body
        upto, count = number(body, "upto"), number(body, "count")
        code, ns = self.timed(
            "meanwhile",
            session,
            lambda: session.meanwhile(text(body, "ask"), upto=upto, count=count, handle=text(body, "handle")),
        )
        return {"code": str(code), "ns": ns}

    def snapshot(self, message: Message) -> dict[str, object]:
        """Take an explicit snapshot."""
        session = self.session(message)
        handle, ns = self.timed("snapshot", session, session.snapshot)
        return {"handle": handle, "ns": ns}

    def restore(self, message: Message) -> dict[str, object]:
        """Restore an explicit snapshot."""
        session, handle = self.session(message), text(message.body, "handle")
        found, ns = self.timed("restore", session, lambda: session.restore(handle), wait=not unseen(message.body))
        return {**begun(found), "ns": ns}

    def reset(self, message: Message) -> dict[str, object]:
        """Make a session new again."""
        session = self.session(message)
        return {"ns": self.timed("reset", session, session.reset)[1]}

    def corrupt(self, message: Message) -> dict[str, object]:
        """Flip bits of a live part."""
        session, body = self.session(message), message.body
        session.corrupt(text(body, "part"), number(body, "byte"), number(body, "mask"))
        return {}

    def look(self, message: Message) -> dict[str, object]:
        """Hash every part and the logits; keep the bytes in the spool if asked to."""
        session, keep = self.session(message), message.body.get("spool") is True
        session.synchronize()
        began = time.perf_counter_ns()
        parts = self._parts(session)
        shown = self._shown(message, parts, part_views(parts), keep=keep)
        self.spent["look_ns"] += time.perf_counter_ns() - began
        return shown

    def encode(self, message: Message) -> Answer:
        """Make an archive of a session's K/V rows; say what its parts must be once it was decoded into them."""
        session, body = self.session(message), message.body
        keep = body.get("spool") is True
        session.synchronize()
        parts = self._parts(session)
        found = coded(parts, part_views(parts), text(body, "codec"), number(body, "version"))
        return {
            **self._shown(message, parts, found.views, keep=keep),
            "page_bytes": found.page_bytes,
            "path": found.path,
        }, (memoryview(found.archive),)

    def ship(self, message: Message) -> Answer:
        """Send the bytes of one part as they are now."""
        _, view = self._part(message)
        return {"bytes": view.nbytes}, (view,)

    def favoured(self, message: Message) -> dict[str, object]:
        """Say which tokens have the largest of the pending logits; none where their element type cannot be read."""
        element_type, _, view = self._numbers(Message(body={**message.body, "part": str(Family.LOGITS)}, frames=()))
        try:
            return {"tokens": list(largest(view, element_type))}
        except ValueError as error:
            raise ProtocolError(f"logits: {error}") from error

    def dump(self, message: Message) -> dict[str, object]:
        """Keep one part in the spool, also above its budget."""
        name, sha256 = text(message.body, "part"), text(message.body, "sha256")
        self._open_spool().keep(sha256, self._numbers(message)[2], name=name, beyond_budget=True)
        return {}

    def locate(self, message: Message) -> dict[str, object]:
        """Compare a live part with a part in the spool, element by element."""
        part, view = self._part(message)
        other = self._open_spool().read(text(message.body, "sha256"))
        live_is_reference = message.body.get("live_is_reference") is True
        pair = (view, other) if live_is_reference else (other, view)
        return locate(part, reference=pair[0], candidate=pair[1])

    def measure(self, message: Message) -> dict[str, object]:
        """Say how far a live part, or the logits, lie from what is in the spool; nothing where it cannot be told."""
        element_type, shape, view = self._numbers(message)
        other = self._open_spool().read(text(message.body, "sha256"))
        live_is_reference = message.body.get("live_is_reference") is True
        one, two = (view, other) if live_is_reference else (other, view)
        return measure(element_type, shape, reference=one, candidate=two)

    def kept(self, message: Message) -> dict[str, object]:
        """Say whether the spool has a part."""
        return {"kept": text(message.body, "sha256") in self._open_spool()}

    def spool(self, message: Message) -> dict[str, object]:
        """Use a folder as the spool from here on; without one, forget the present spool."""
        if self._spool is not None:
            self._spool.close()
        folder = text(message.body, "folder")
        budget = SpoolBudget(memory=number(message.body, "memory"), disk=number(message.body, "disk"))
        self._spool = Spool(Path(folder), budget) if folder else None
        return {}

    def times(self, message: Message) -> dict[str, object]:  # noqa: ARG002 - every operation takes its message
        """Say where the time of this process went so far."""
        return dict(self.spent)

    def _shown(
        self, message: Message, parts: Sequence[StatePart], views: Sequence[memoryview], *, keep: bool
    ) -> dict[str, object]:
        """Hash all parts and the logits; list them. While others hash, this thread lists and sees to the logits."""
        session, owner = self.session(message), self.owners[number(message.body, "session")]
        told: list[tuple[Sequence[dict[str, object]], Logits]] = []

        def beside() -> None:
            told.append((labels(parts, views), self._logits(session, parts, owner)))

        digests, kept = self._hashed(parts, views, keep=keep, meanwhile=beside)
        ((rows, logits),) = told
        kept &= self._kept_logits(session, logits, keep=keep)
        return {
            "rows": signed(rows, digests),
            "logits": logits.sha256,
            "finite": logits.finite,
            "position": int(session.position()),
            "kept": kept,
        }

    def _hashed(
        self,
        parts: Sequence[StatePart],
        views: Sequence[memoryview],
        *,
        keep: bool,
        meanwhile: Callable[[], object],
    ) -> tuple[Sequence[str], bool]:
        """Return the digests of all parts, and whether all that was to be kept is kept; do something else meanwhile."""
        if self._spool is None:
            meanwhile()
            return part_digests(views, threads=self._threads), not keep
        found = [Part(part.name, view, part.stream == "rows") for part, view in zip(parts, views, strict=True)]
        return self._spool.hashed(found, keep=keep, threads=self._threads, meanwhile=meanwhile)

    def _kept_logits(self, session: Session, logits: Logits, *, keep: bool) -> bool:
        """Keep the pending logits where they are no part of the state, so that they can be measured as parts can."""
        data = session.logits() if keep and self._spool is not None and logits.sha256 else None
        if self._spool is None or data is None or logits.sha256 in self._spool:
            return True
        return self._spool.keep(logits.sha256, memoryview(data).cast("B"), name=Family.LOGITS)

    def _numbers(self, message: Message) -> tuple[str, Sequence[int], memoryview]:
        """Return element type, shape and bytes of a part; of the pending logits where no part has their name."""
        session, name = self.session(message), text(message.body, "part")
        session.synchronize()
        parts = self._parts(session)
        data = session.logits() if name == Family.LOGITS and all(part.name != name for part in parts) else None
        if data is None:
            part, view = self._part(message)
            return part.element_type, part.shape, view
        view = memoryview(data).cast("B")
        told = self._logits_types[self.owners[number(message.body, "session")]]
        return told, (view.nbytes // ELEMENT_BYTES.get(told, 1),), view

    def _parts(self, session: Session) -> Sequence[StatePart]:
        return session.parts() if Capability.PARTS in self.capabilities else ()

    def _logits(self, session: Session, parts: Sequence[StatePart], owner: int) -> Logits:
        if Capability.LOGITS not in self.capabilities:
            return Logits(sha256="", finite=True)
        return logits_of(session, parts, element_type=self._logits_types[owner])

    def _part(self, message: Message) -> tuple[StatePart, memoryview]:
        session, name = self.session(message), text(message.body, "part")
        session.synchronize()
        for part in session.parts():
            if part.name == name:
                return part, part_views([part])[0] if name == "meta" else _flat(part)
        raise ProtocolError(f"no part {name!r} in this session any more")

    def _open_spool(self) -> Spool:
        if self._spool is None:
            raise ProtocolError("bytes were to be kept, but no spool is open")
        return self._spool


_OPERATIONS: Final[Mapping[str, Callable[[Server, Message], dict[str, object] | Answer]]] = {
    "hello": Server.hello,
    "load": Server.load,
    "plan": Server.plan,
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
    "cancel": Server.cancel,
    "meanwhile": Server.meanwhile,
    "record": Server.record,
    "rollback": Server.rollback,
    "corrupt": Server.corrupt,
    "look": Server.look,
    "encode": Server.encode,
    "ship": Server.ship,
    "favoured": Server.favoured,
    "dump": Server.dump,
    "locate": Server.locate,
    "measure": Server.measure,
    "kept": Server.kept,
    "spool": Server.spool,
    "times": Server.times,
    **serving_images.OPERATIONS,
    **serving_store.OPERATIONS,
}


def _flat(part: StatePart) -> memoryview:
    view = memoryview(part.data)
    return view.cast("B") if view.nbytes else memoryview(b"")
