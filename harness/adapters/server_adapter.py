"""A server behind the seam: any endpoint that completes token ids or chats over HTTP, running or started here.

A server shows tokens, log-probabilities and counts, never its state. A status of 200 proves nothing: what counts is
how many tokens of a prompt were really reused and really computed, as the server tells them for each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harness.adapters.host_cpu import cpu_class
from harness.adapters.loaded import BUILD
from harness.adapters.server_answers import (
    Json,
    Reply,
    chat_reply_of,
    chat_request_of,
    merged,
    reply_of,
    request_of,
)
from harness.adapters.server_chat import ChatSession, words_of
from harness.adapters.server_dialects import DIALECTS, Dialect
from harness.adapters.server_neighbours import Stream, in_flight
from harness.adapters.server_options import CHAT, DEFAULTS, checked
from harness.adapters.server_origin import origin_of, package_of
from harness.adapters.server_session import ServerSession
from harness.adapters.server_watch import watch_of
from harness.adapters.vocabulary import TOKENIZER
from harness.engines.interface import Identity, Options
from harness.errors import EngineError, ProtocolError, RefusedError
from harness.model.values import Capability, Observability, RefusalCode

NAME: Final = "server"
PLAIN: Final = ("arch", "build", "dialect", "endpoint", "package", "stream", "unified")
"""Options that a record names beside the model, where they are not the default; of a package its version."""
_SLOT_FILES: Final = "{slots}"
_USAGE: Final[Json] = {"stream_options": {"include_usage": True}}


class ServerAdapter:
    """Entry point ``server``."""

    name = NAME

    def __init__(self) -> None:
        self._options: Options = DEFAULTS

    def aim(self, options: Options) -> None:
        """Learn which server is meant: what it can do depends on its dialect."""
        self._options = checked(options)

    def capabilities(self) -> frozenset[Capability]:
        """What dialect and endpoint offer; images where the slot files can be reached."""
        chosen, dialect = self._options, DIALECTS[str(self._options["dialect"])]
        commands = [str(chosen[name]) for name in ("command", "other_command") if chosen[name]]
        found = {Capability.EXTEND}
        # a prompt is cold where the process is new, or can be made to forget; sessions bound to slots share nothing
        forgets = not chosen["url"] or dialect.slots or dialect.flush
        found |= {Capability.PREFIX_CACHE} if forgets and not chosen["pin"] else set()
        found |= {Capability.LOGITS} if chosen["logprobs"] else set()
        # which slot a request ran in is told by the answer; of a chat it must be bound, or the only one
        known = chosen["pin"] or chosen["slots"] == 1 if chosen["endpoint"] == CHAT else dialect.native
        told = dialect.slots and known and all(_SLOT_FILES in command for command in commands)
        found |= {Capability.SNAPSHOT} if told else set()
        found |= {Capability.IMAGE} if told and not chosen["url"] else set()
        found |= {Capability.BUILDS} if chosen["other_command"] or chosen["other_package"] else set()
        # a slot is its own cache; of a chat the whole message comes again, so that is asked of ids alone
        if {Capability.IMAGE, Capability.PREFIX_CACHE} <= found and dialect.native:
            found |= {Capability.RESTORED_CACHE}
        return frozenset(found)

    def devices(self) -> Sequence[tuple[str, str]]:
        """A running server has the device that it has; one that is started here runs on the CPU."""
        if self._options["url"]:
            return [("remote", "")]
        needed = [] if self._options["command"] or self._options["package"] else ["xllamacpp"]
        needed += [] if self._options["command"] and self._options["model"] else ["gguf"]
        missing = [name for name in needed if find_spec(name) is None]
        return [("cpu", f"not installed: {', '.join(missing)}; pip install 'statecert[llamacpp]'" if missing else "")]

    def open(self, options: Options) -> ServerEngine:
        """Start a server, or find the one that runs.

        Raises:
            RefusedError: ``unsupported``: an option that is none; ``identity``: another model runs there.
            EngineError: It does not start or does not answer.
        """
        return ServerEngine(checked(options))


class ServerEngine:
    """One server.

    Args:
        options: All of them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.dialect: Dialect = DIALECTS[str(options["dialect"])]
        self.origin = origin_of(options)
        self.own, self.client = self.origin.own, self.origin.client
        self.watch = watch_of(self.client, self.dialect, alone=self.own is not None)
        self.taken = 0
        self.sessions = 0
        self.handles: dict[str, tuple[str, Sequence[int]]] = {}
        self.chats: dict[str, tuple[str, bytes]] = {}
        if self.own is None:
            self.empty()

    def identity(self) -> Identity:
        """What was started, or what the running server tells of itself."""
        from harness.adapters.llama_options import variant

        chosen, origin = self.options, self.origin
        named = {**chosen, "package": origin.version if package_of(chosen) else ""}
        return Identity(
            engine=NAME,
            version=origin.version,
            model=variant(origin.slug, named, {name: DEFAULTS[name] for name in PLAIN}),
            model_digest=origin.model_digest,
            hw_class="remote-unknown" if self.own is None else cpu_class(),
            observability=Observability.TOKENS,
            facts={
                "dialect": self.dialect.name,
                "dialect.tried": self.dialect.tried,
                "started_here": self.own is not None,
                "model_digest_of": origin.model_digest_of,
                "logprobs": chosen["logprobs"],
                "stream": chosen["stream"],
                "slots": chosen["slots"],
                "unified": chosen["unified"],
                "neighbours": chosen["neighbours"],
                "arch": chosen["arch"],
                "build": chosen["build"],
                "endpoint": chosen["endpoint"],
                "in_flight_by": self.watch.by,
                "forwarded_by": "counters" if self.watch.counts else "answers",
                "families": "none",
                **({"prompts": "templated"} if chosen["endpoint"] == CHAT else {}),
                **({TOKENIZER: origin.vocabulary} if origin.vocabulary else {}),
                **({BUILD: origin.build} if origin.build else {}),
            },
            device={"type": "unknown" if self.own is None else "cpu"},
            path_sets={
                "adapter": [
                    f"harness.adapters:{name}.py"
                    for name in ("server_*", "common", "tiny_gguf", "vocabulary", "loaded")
                ]
            },
        )

    def open_session(self, options: Options) -> ServerSession | ChatSession:
        """Open a session: a conversation, which the server does not know of."""
        if options:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown session options {sorted(options)}")
        self.sessions += 1
        slot = (self.sessions - 1) % int(self.options["slots"]) if self.options["pin"] else -1
        return ChatSession(self, slot) if self.options["endpoint"] == CHAT else ServerSession(self, slot)

    def complete(self, prompt: Sequence[int], count: int, *, reuse: bool, slot: int = -1) -> Reply:
        """Ask for tokens after a prompt, beside as many neighbours in flight as the options say.

        Raises:
            ProtocolError: Other than so many came.
            EngineError: As :meth:`Client.post` and :func:`in_flight`.
        """

        def body(tokens: Sequence[int], many: int, *, again: bool, top: int, where: int) -> Json:
            return request_of(self.dialect, tokens, many, reuse=again, top=top, slot=where)

        def events(tokens: Sequence[int], many: int) -> Iterator[Json]:
            return self._events(self.dialect.path, body(tokens, many, again=True, top=0, where=-1))

        with self._beside(events, prompt):
            asked = body(prompt, count, again=reuse, top=int(self.options["logprobs"]), where=slot)
            return self._reply(self.dialect.path, asked, count)

    def chat(self, messages: Sequence[Json], asked: Sequence[int], count: int, *, reuse: bool, slot: int = -1) -> Reply:
        """Ask for the answer to a message, beside as many neighbours in flight as the options say.

        Args:
            messages: Those before it.
            asked: Ids of the message; each is sent as a word.
            count: Tokens to sample.
            reuse: Whether cached prefixes may be reused.
            slot: To run in; -1: the server's choice.

        Raises:
            ProtocolError: Other than so many tokens came.
            EngineError: As :meth:`Client.post` and :func:`in_flight`.
        """
        model = str(self.options["model"]) if self.own is None else ""

        def body(tokens: Sequence[int], many: int, *, again: bool, top: int, where: int) -> Json:
            whole = [*messages, {"role": "user", "content": words_of(tokens)}]
            return chat_request_of(self.dialect, whole, many, reuse=again, top=top, slot=where, model=model)

        def events(tokens: Sequence[int], many: int) -> Iterator[Json]:
            return self._events(self.dialect.chat, body(tokens, many, again=True, top=1, where=-1))

        with self._beside(events, asked):
            top = int(self.options["logprobs"])
            return self._reply(self.dialect.chat, body(asked, count, again=reuse, top=top, where=slot), count)

    def _beside(self, events: Stream, prompt: Sequence[int]) -> AbstractContextManager[None]:
        count = int(self.options["neighbours"])
        if not count:
            return nullcontext()
        return in_flight(events, prompt, count, patience_s=int(self.options["patience_s"]), busy=self.watch.busy)

    def _events(self, path: str, body: Json) -> Iterator[Json]:
        return self.client.stream(path, {**body, "stream": True})

    def _reply(self, path: str, body: Json, count: int) -> Reply:
        read = chat_reply_of if path == self.dialect.chat else reply_of
        before = None if self.options["neighbours"] else self.watch.forwarded()
        if self.options["stream"]:
            events = list(self.client.stream(path, {**body, "stream": True, **_USAGE}))
            counting = [one for one in events if "timings" in one or one.get("usage")]
            reply = read(self.dialect, merged(counting or events[-1:]), events)
        else:
            reply = read(self.dialect, self.client.post(path, body))
        if len(reply.tokens) != count:
            raise ProtocolError(f"{path}: found {len(reply.tokens)} tokens; {count} were asked for")
        counted = self.watch.since(before, reply.computed)
        return reply if counted is None else replace(reply, computed=counted)

    def slot(self, slot: int, action: str, file: str = "") -> Json:
        """Save, restore or erase a slot."""
        if not self.dialect.slots:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"a server of dialect {self.dialect.name} has no slots")
        return self.client.post(f"/slots/{max(slot, 0)}?action={action}", {"filename": file} if file else {})

    def slot_file(self, slot: int) -> bytes:
        """Return the slot file as the server writes it now.

        Raises:
            RefusedError: The server's files are out of reach (``unsupported``).
        """
        name = self.file()
        self.slot(slot, "save", name)
        path = self.folder / name
        data = path.read_bytes()
        path.unlink()
        return data

    def take_slot_file(self, slot: int, data: bytes) -> Json:
        """Hand a slot file to the server; return what it says that it restored.

        Raises:
            RefusedError: The server's files are out of reach (``unsupported``), or it says no.
        """
        name = self.file()
        (self.folder / name).write_bytes(data)
        return self.slot(slot, "restore", name)

    def empty(self) -> None:
        """Let a server that ran before forget all prompts: an engine begins with an empty cache.

        Raises:
            EngineError: ``NotEmptied``: it should be able to, and does not.
        """
        try:
            if self.dialect.slots:
                self.forget()
            elif self.dialect.flush:
                self.client.poke(self.dialect.flush)
        except EngineError as error:
            raise EngineError(f"NotEmptied: prompts of before may be cached still: {error}") from None

    def forget(self) -> None:
        """Erase every slot.

        Raises:
            RefusedError: The server cannot forget (``unsupported``).
        """
        for slot in range(self.watch.slots or int(self.options["slots"])):
            self.slot(slot, "erase")

    def file(self) -> str:
        """Return a file name that was not used before."""
        self.taken += 1
        return f"slot-{self.taken}.bin"

    @property
    def folder(self) -> Path:
        """Where the slot files lie.

        Raises:
            RefusedError: The server was not started here (``unsupported``).
        """
        if self.own is None:
            raise RefusedError(RefusalCode.UNSUPPORTED, "the slot files of a running server are out of reach")
        return self.own.folder

    def close(self) -> None:
        """End the server that was started here."""
        if self.own is not None:
            self.own.close()
