"""A server behind the seam: any endpoint that completes token ids over HTTP, one that runs or one that is started here.

A server shows tokens, log-probabilities and counts, never its state. A status of 200 proves nothing: what counts is
how many tokens of a prompt were really reused and really computed, as the server tells them for each request.

A prompt is one request. Its answer tells the counts, and the distribution of the next token; decoding asks again, with
all tokens so far, for as many tokens as are wanted and one more, whose distribution is then pending. So after each call
the server's slot holds exactly the tokens of the session.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.adapters.host_cpu import cpu_class
from harness.adapters.server_dialects import DIALECTS, Dialect, Json, Reply, reply_of, request_of
from harness.adapters.server_http import Client
from harness.adapters.server_neighbours import in_flight
from harness.adapters.server_process import OwnServer
from harness.adapters.vocabulary import TOKENIZER, vocabulary_digest
from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import EngineError, ProtocolError, RefusedError
from harness.model.values import Capability, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME: Final = "server"
DEFAULTS: Final[Options] = {
    "device": "best",
    "preset": "tiny",
    "arch": "attention",
    "seed": 0,
    "model": "",
    "url": "",
    "dialect": "llama",
    "chunk": 512,
    "max_seq_len": 4096,
    "threads": 1,
    "slots": 4,
    "unified": False,
    "neighbours": 0,
    "logprobs": 0,
    "stream": False,
    "pin": False,
    "cache_ram_mib": 0,
    "k_type": "f16",
    "v_type": "f16",
    "patience_s": 120,
}
_TYPES: Final = {"f32": 0, "f16": 1, "q8_0": 8}
_HEAD: Final = struct.Struct("<3I")
"""Magic, version and number of tokens at the head of a slot file."""


class ServerAdapter:
    """Entry point ``server``."""

    name = NAME

    def __init__(self) -> None:
        self._options: Options = DEFAULTS

    def aim(self, options: Options) -> None:
        """Learn which server is meant: what it can do depends on its dialect."""
        self._options = _checked(options)

    def capabilities(self) -> frozenset[Capability]:
        """What the dialect offers; images where the slot files can be reached."""
        dialect, own = DIALECTS[str(self._options["dialect"])], not self._options["url"]
        found = {Capability.EXTEND, Capability.PREFIX_CACHE}
        found |= {Capability.LOGITS} if self._options["logprobs"] else set()
        told = dialect.slots and dialect.native  # the answer tells which slot a request ran in
        found |= {Capability.SNAPSHOT} if told else set()
        found |= {Capability.IMAGE} if told and own else set()
        return frozenset(found)

    def devices(self) -> Sequence[tuple[str, str]]:
        """A running server has the device that it has; one that is started here runs on the CPU."""
        if self._options["url"]:
            return [("remote", "")]
        missing = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]
        return [("cpu", f"not installed: {', '.join(missing)}; pip install 'statecert[llamacpp]'" if missing else "")]

    def open(self, options: Options) -> ServerEngine:
        """Start a server, or find the one that runs.

        Raises:
            RefusedError: ``unsupported``: an option that is none; ``identity``: another model runs there.
            EngineError: It does not start or does not answer.
        """
        return ServerEngine(_checked(options))


class ServerEngine:
    """One server.

    Args:
        options: All of them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.dialect: Dialect = DIALECTS[str(options["dialect"])]
        self.own: OwnServer | None = None
        self.vocabulary = ""
        if options["url"]:
            self.client = Client(str(options["url"]), patience_s=int(options["patience_s"]), ended=lambda: None)
            self.digest, self.slug = self._running()
        else:
            self.digest, self.slug = self._start()
        self.taken = 0
        self.sessions = 0
        self.handles: dict[str, tuple[str, Sequence[int]]] = {}

    def identity(self) -> Identity:
        """What was started, or what the running server tells of itself."""
        from harness.adapters.llama_options import variant

        chosen = self.options
        return Identity(
            engine=NAME,
            version=self._version(),
            model=variant(
                self.slug, chosen, {name: DEFAULTS[name] for name in ("arch", "dialect", "stream", "unified")}
            ),
            model_digest=self.digest,
            hw_class="remote-unknown" if self.own is None else cpu_class(),
            observability=Observability.TOKENS,
            facts={
                "dialect": self.dialect.name,
                "dialect.tried": self.dialect.tried,
                "started_here": self.own is not None,
                "model_digest_of": "file" if self.own is not None else "what_the_server_tells",
                "logprobs": chosen["logprobs"],
                "stream": chosen["stream"],
                "slots": chosen["slots"],
                "unified": chosen["unified"],
                "neighbours": chosen["neighbours"],
                "arch": chosen["arch"],
                "families": "none",
                **({TOKENIZER: self.vocabulary} if self.vocabulary else {}),
                **_library(),
            },
            device={"type": "unknown" if self.own is None else "cpu"},
            path_sets={"adapter": [f"harness.adapters:{name}.py" for name in ("server_*", "tiny_gguf", "vocabulary")]},
        )

    def open_session(self, options: Options) -> ServerSession:
        """Open a session: a conversation, which the server does not know of."""
        if options:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown session options {sorted(options)}")
        self.sessions += 1
        slot = (self.sessions - 1) % int(self.options["slots"]) if self.options["pin"] else -1
        return ServerSession(self, slot)

    def complete(self, prompt: Sequence[int], count: int, *, reuse: bool, slot: int = -1) -> Reply:
        """Ask for tokens after a prompt, beside as many neighbours in flight as the options say.

        Raises:
            ProtocolError: Other than so many came.
            EngineError: As :meth:`Client.post` and :func:`in_flight`.
        """
        beside = int(self.options["neighbours"])
        if not beside:
            return self._complete(prompt, count, reuse=reuse, slot=slot)
        with in_flight(self._events, prompt, beside, patience_s=int(self.options["patience_s"])):
            return self._complete(prompt, count, reuse=reuse, slot=slot)

    def _events(self, prompt: Sequence[int], count: int) -> Iterator[Json]:
        body = request_of(self.dialect, prompt, count, reuse=True, top=0, slot=-1)
        return self.client.stream(self.dialect.path, {**body, "stream": True})

    def _complete(self, prompt: Sequence[int], count: int, *, reuse: bool, slot: int) -> Reply:
        body = request_of(self.dialect, prompt, count, reuse=reuse, top=int(self.options["logprobs"]), slot=slot)
        if self.options["stream"]:
            events = list(self.client.stream(self.dialect.path, {**body, "stream": True, **_USAGE}))
            counting = [one for one in events if "timings" in one or one.get("usage")]
            reply = reply_of(self.dialect, _merged(counting or events[-1:]), events)
        else:
            reply = reply_of(self.dialect, self.client.post(self.dialect.path, body))
        if len(reply.tokens) != count:
            raise ProtocolError(f"{self.dialect.path}: found {len(reply.tokens)} tokens; {count} were asked for")
        return reply

    def slot(self, slot: int, action: str, file: str = "") -> Json:
        """Save, restore or erase a slot."""
        if not self.dialect.slots:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"a server of dialect {self.dialect.name} has no slots")
        return self.client.post(f"/slots/{max(slot, 0)}?action={action}", {"filename": file} if file else {})

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

    def _start(self) -> tuple[str, str]:
        """Start a server on the model that is meant; return digest and slug of the model."""
        from harness.adapters import tiny_gguf
        from harness.adapters.llama_model import packaged_model
        from harness.adapters.llama_options import ARCHITECTURES, SMOL

        chosen = self.options
        named = str(chosen["model"]) or (packaged_model() if chosen["preset"] == SMOL else "")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(named) if named else Path(folder) / "tiny.gguf"
            if not named:
                arch = str(chosen["arch"])
                if arch not in ARCHITECTURES or chosen["preset"] != "tiny":
                    raise RefusedError(
                        RefusalCode.UNSUPPORTED, f"no tiny model {arch!r}; known are {sorted(ARCHITECTURES)}"
                    )
                tiny_gguf.write(ARCHITECTURES[arch], path, int(chosen["seed"]))
            if not path.is_file():
                raise RefusedError(RefusalCode.UNSUPPORTED, "there is no model file of this name")
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self.own = OwnServer(self._settings(path), int(chosen["patience_s"]))
            self.client = self.own.client
            self.vocabulary = vocabulary_digest(path) if named else ""
        return digest, _slug(path.stem) if named else "tiny"

    def _settings(self, path: Path) -> Mapping[str, object]:
        chosen, slots = self.options, int(self.options["slots"])
        return {
            "model": str(path),
            "n_ctx": (int(chosen["max_seq_len"]) + 64) * slots,
            "slots": slots,
            "n_batch": 2048,
            "n_ubatch": 512,
            "unified": chosen["unified"],
            "threads": chosen["threads"],
            "cache_ram_mib": chosen["cache_ram_mib"],
            "more": {"cache_type_k": _TYPES[str(chosen["k_type"])], "cache_type_v": _TYPES[str(chosen["v_type"])]},
        }

    def _running(self) -> tuple[str, str]:
        """Return digest and slug of what a running server tells of the model that was asked for."""
        wanted = str(self.options["model"])
        if not wanted:
            raise RefusedError(RefusalCode.UNSUPPORTED, "say which model the running server must have: option model")
        told = self.client.get("/v1/models").get("data")
        models = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
        found = next((one for one in models if one.get("id") == wanted), None)
        if found is None:
            raise RefusedError(
                RefusalCode.IDENTITY, f"the server has {[one.get('id') for one in models]}, not {wanted!r}"
            )
        stable = {name: value for name, value in found.items() if name != "created"}
        return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest(), _slug(wanted)

    def _version(self) -> str:
        if self.own is not None:
            from harness.adapters.llama_engine import installed_version

            return installed_version()
        try:
            return str(self.client.get("/props").get("build_info") or "unknown")[:64]
        except EngineError:
            return "unknown"


class ServerSession:
    """One conversation.

    Args:
        engine: Its server.
        slot: The slot that it is bound to; -1: the server chooses for each request.
    """

    def __init__(self, engine: ServerEngine, slot: int) -> None:
        self.engine, self.slot = engine, slot
        self.tokens: list[int] = []
        self.more: Sequence[int] = ()
        self.end = -1
        self.forwarded = 0
        self.cached = 0
        self.next = b""
        self.ready = False
        self.last_slot = max(slot, 0)

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Send the prompt; the counts are the server's."""
        self._room_for(len(prompt))
        self.reset()
        self.more, self.end = list(prompt), len(prompt)
        self._ask(self.more, reuse=cache, counted=cache)
        return Begun(cached=self.cached, restored_bytes=0, schedule=[self.end])

    def prefill(self, upto: int) -> int:
        """Say what the server computed of the prompt: it went through in one request."""
        if upto != self.end or not self.more:
            raise RefusedError(RefusalCode.STATE, f"expected {self.end}, found {upto}")
        self.tokens, self.more, self.ready = [*self.tokens, *self.more], (), True
        return self.forwarded

    def commit(self) -> None:
        """A server publishes what it has at once."""

    def abandon(self) -> None:
        """Erase the slot; all slots, where the server does not tell which one it was.

        Raises:
            RefusedError: ``unsupported``: the server cannot forget.
        """
        every = range(int(self.engine.options["slots"]))
        for slot in [self.last_slot] if self.engine.dialect.native else every:
            self.engine.slot(slot, "erase")

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn on top of the present one; reused is what the server says, not what should have been."""
        start = len(self.tokens)
        self._room_for(start + len(tokens))
        self._ask([*self.tokens, *tokens], reuse=True, counted=True)
        self.more, self.end, self.ready = list(tokens), start + len(tokens), False
        return Begun(cached=self.cached, restored_bytes=0, schedule=[self.end])

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Ask for tokens after those so far, greedily, and for one more whose distribution is then pending."""
        if sampler:
            raise RefusedError(RefusalCode.UNSUPPORTED, "this adapter asks greedily")
        if not self.ready:
            raise RefusedError(RefusalCode.STATE, "no prompt has gone through")
        self._room_for(len(self.tokens) + count)
        if not count:
            return []
        reply = self._ask(self.tokens, reuse=True, counted=False, count=count + 1)
        found = list(reply.tokens[:count])
        self.tokens += found
        return found

    def position(self) -> int:
        """Tokens of the conversation; before a prompt is through, those of it that were reused."""
        return len(self.tokens) or (self.cached if self.more else 0)

    def logits(self) -> Buffer | None:
        """Ids and log-probabilities of the most likely next tokens, as the server tells them."""
        return self.next if self.ready and self.next else None

    def parts(self) -> Sequence[StatePart]:
        """A server shows no state."""
        return ()

    def snapshot(self) -> str:
        """Save the slot to a file of the server's."""
        file = self.engine.file()
        self.engine.slot(self.last_slot, "save", file)
        handle = f"h{len(self.engine.handles) + 1}"
        self.engine.handles[handle] = file, tuple(self.tokens)
        return handle

    def restore(self, handle: str) -> Begun:
        """Restore a slot from its file; a later turn shows whether anything is reused."""
        if handle not in self.engine.handles:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle!r}")
        file, tokens = self.engine.handles[handle]
        told = self.engine.slot(self.last_slot, "restore", file)
        return self._restored(told, tokens)

    def image_size(self) -> int:
        """Bytes of the slot file as it is now."""
        return len(self._file())

    def export_image(self, capacity: int) -> Buffer:
        """The slot file that the server writes."""
        image = self._file()
        if len(image) > capacity:
            raise RefusedError(
                RefusalCode.SHORT_BUFFER, f"the image has {len(image)} bytes; there is room for {capacity}"
            )
        return image

    def import_image(self, data: Buffer) -> Begun:
        """Hand a slot file to the server."""
        image, name = bytes(data), self.engine.file()
        if len(image) < _HEAD.size:
            raise RefusedError(
                RefusalCode.SHORT_BUFFER, f"found {len(image)} bytes; a slot file has a head of {_HEAD.size}"
            )
        (self.engine.folder / name).write_bytes(image)
        told = self.engine.slot(self.last_slot, "restore", name)
        return self._restored(told, tokens_of(image))

    def synchronize(self) -> None:
        """An answer says that the work is done."""

    def reset(self) -> None:
        """Forget the conversation; what the server keeps of it is its own business."""
        self.tokens, self.more, self.end = [], (), -1
        self.next, self.ready, self.cached, self.forwarded = b"", False, 0, 0

    def close(self) -> None:
        """Forget the conversation."""
        self.reset()

    def _ask(self, prompt: Sequence[int], *, reuse: bool, counted: bool, count: int = 1) -> Reply:
        """Ask, and remember the counts of the answer and the distribution that is pending after it.

        Raises:
            ProtocolError: Counts were needed, and the server does not tell them.
        """
        reply = self.engine.complete(prompt, count, reuse=reuse, slot=self.slot)
        if counted and reply.cached is None:
            raise ProtocolError(f"{self.engine.dialect.path}: the answer does not tell how many tokens were cached")
        self.cached = reply.cached or 0
        total = len(prompt) if reply.total is None else reply.total
        # a count beyond the prompt stays a wrong count: with it, reused and forwarded do not add up to the prompt
        self.forwarded = max(0, total - self.cached) if reply.computed is None else reply.computed
        self.next = reply.probabilities[-1] if reply.probabilities else b""
        self.last_slot = reply.slot
        return reply

    def _restored(self, told: Json, tokens: Sequence[int]) -> Begun:
        self.reset()
        self.tokens, self.ready = list(tokens), True
        restored, read = told.get("n_restored"), told.get("n_read")
        if not isinstance(restored, int) or not isinstance(read, int):
            raise ProtocolError("restore: the server does not tell what it restored")
        return Begun(cached=restored, restored_bytes=read, schedule=[len(tokens)] if tokens else [])

    def _file(self) -> bytes:
        """Return the slot file as the server writes it now.

        Raises:
            RefusedError: ``unsupported``: the server's files are out of reach.
        """
        name = self.engine.file()
        self.engine.slot(self.last_slot, "save", name)
        path = self.engine.folder / name
        data = path.read_bytes()
        path.unlink()
        return data

    def _room_for(self, tokens: int) -> None:
        most = int(self.engine.options["max_seq_len"])
        if tokens > most:
            raise RefusedError(RefusalCode.CAPACITY, f"{tokens} tokens; a conversation holds {most}")


def tokens_of(image: bytes) -> Sequence[int]:
    """Return the tokens at the head of a slot file: bare, or between a mark with a count and a closing zero."""
    ids = array("i")
    count = _HEAD.unpack_from(image)[2]
    ids.frombytes(image[_HEAD.size : _HEAD.size + 4 * min(count, (len(image) - _HEAD.size) // 4)])
    found = ids.tolist()
    return found[3 : 3 + found[2]] if found[:1] == [_MARK] and len(found) > _MARKED else found


_MARK: Final = -1
_MARKED: Final = 3
_USAGE: Final[Json] = {"stream_options": {"include_usage": True}}


def _merged(events: Sequence[Json]) -> Json:
    """Return the fields of events together, later ones over earlier ones."""
    found: dict[str, object] = {}
    for one in events:
        found.update(one)
    return found


def _checked(options: Options) -> Options:
    unknown = sorted(set(options) - set(DEFAULTS))
    if unknown:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}; known are {sorted(DEFAULTS)}")
    chosen = {**DEFAULTS, **options}
    if chosen["dialect"] not in DIALECTS:
        raise RefusedError(
            RefusalCode.UNSUPPORTED, f"dialect is {chosen['dialect']!r}; known are {', '.join(DIALECTS)}"
        )
    for name in ("k_type", "v_type"):
        if chosen[name] not in _TYPES:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"{name} is {chosen[name]!r}; allowed are {', '.join(_TYPES)}")
    for name, least in (("slots", 1), ("logprobs", 0), ("patience_s", 1)):
        value = chosen[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"{name} is {value!r}; allowed are whole numbers from {least}")
    return chosen


def _slug(name: str) -> str:
    return (
        "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in Path(name).name.lower())
        or "unknown"
    )


def _library() -> Options:
    """Return the digest of the library that a server of this adapter runs."""
    from harness.adapters.llama_library import packaged

    try:
        return {"library.sha256": hashlib.sha256(packaged().read_bytes()).hexdigest()}
    except (ModuleNotFoundError, OSError):
        return {}
