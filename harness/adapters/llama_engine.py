"""One model of llama.cpp, the contexts on it, and the snapshots that the adapter holds of their sequences."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Final

from harness.adapters.host_cpu import cpu_class
from harness.adapters.llama_blob import NUMBERS, BlobError, Parsed, Shape, parse, shape_of
from harness.adapters.llama_context import Context
from harness.adapters.llama_image import Saved
from harness.adapters.llama_library import PACKAGE, Llama, library
from harness.adapters.llama_model import Model, model_of
from harness.adapters.llama_options import NAME, VARIANTS, library_path, variant
from harness.adapters.llama_parts import family_of, flipped, reordered
from harness.adapters.llama_session import LlamaCppSession
from harness.adapters.llama_store import Handles, Prefixes
from harness.adapters.vocabulary import TOKENIZER
from harness.engines.interface import Identity, Options
from harness.errors import RefusedError
from harness.model.values import Family, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PROBE: Final = tuple(range(8, 8 + 80))
"""Tokens that a sequence is filled with to find how its state is written; longer than the tiny window."""
_OF_ALL: Final = (Family.CONV, Family.KV, Family.RECURRENT, Family.WINDOW)


def new_context(llama: Llama, model: Model, options: Options) -> Context:
    """Return a new context of a model, for one session or for all of them."""
    alone = options["kv"] == "own"
    chunk, sequences = int(options["chunk"]), 1 if alone else int(options["n_seq_max"])
    return Context(
        llama,
        model.handle,
        {
            "n_ctx": int(options["max_seq_len"]) * sequences,
            "n_batch": chunk,
            "n_ubatch": int(options["n_ubatch"]) or min(chunk, 512),
            "n_seq_max": sequences,
            "n_rs_seq": int(options["n_rs_seq"]),
            "n_threads": int(options["threads"]),
            "n_threads_batch": int(options["threads"]),
            "flash_attn_type": int(bool(options["flash_attn"])),
            "type_k": NUMBERS[str(options["k_type"])],
            "type_v": NUMBERS[str(options["v_type"])],
            "swa_full": bool(options["swa_full"]),
            "kv_unified": options["kv"] == "unified",
        },
    )


def takes_back(options: Options) -> bool:
    """Tell whether tokens can be removed from the end of a sequence of these options' model.

    A recurrent state is overwritten by each token; llama.cpp takes it back only where a context keeps snapshots of it.

    Args:
        options: All of them.

    Raises:
        RefusedError: There is no such model or context (``unsupported``).
    """
    llama = library(library_path(options))
    model = model_of(llama, options)
    if not model.overwrites:
        return True
    context = new_context(llama, model, options)
    try:
        return context.keeps_past
    finally:
        context.close()


class LlamaCppEngine:
    """One model, the contexts on it, and the snapshots that this adapter holds.

    Args:
        options: All of them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.llama: Llama = library(library_path(options))
        self.model = model_of(self.llama, options)
        self.shared = None if options["kv"] == "own" else self.context()
        self.prefixes = Prefixes(int(options["cache_entries"]))
        self.handles = Handles()
        self.sessions: dict[int, LlamaCppSession] = {}
        self.shape, self.empty = self._probed()

    def context(self) -> Context:
        """Return a new context."""
        return new_context(self.llama, self.model, self.options)

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
            model=variant(self.model.slug, self.options, VARIANTS),
            model_digest=self.model.digest,
            hw_class=cpu_class(),
            observability=Observability.PARTS,
            facts=facts,
            device={"type": "cpu", "memory": "host"},
            path_sets={
                "adapter": [f"harness.adapters:{name}.py" for name in ("llama*", "common", "tiny_gguf", "vocabulary")]
            },
        )

    def _facts(self, context: Context) -> Options:
        c, chosen = self.llama.c, self.options
        kinds = {piece.kind: piece.element_type for piece in self.empty.pieces}
        types = {f"{kind}_type": kinds[kind] for kind in "kv" if kind in kinds}
        transposed = {"flash_attn": not any(piece.transposed for piece in self.empty.pieces)} if "v" in kinds else {}
        return {
            "library.sha256": self.llama.digest,
            **({"build": chosen["build"], "build_sha256": self.llama.digest} if chosen["other_library"] else {}),
            "library.layout": self.llama.layout,
            "library.patches": "none_told",
            "library.cpu": self.llama.system_info(),
            "logits_type": "f32",
            "families": self._families(),
            **reordered(chosen),
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

    def _families(self) -> str:
        """Families of the state: preset ``tiny`` is a model for each kind of state, and has the families of all."""
        of_all = self.options["preset"] == "tiny" and not self.options["model"]
        return ",".join(sorted(map(str, _OF_ALL if of_all else {family_of(piece) for piece in self.empty.pieces})))

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
        return self.prefixes.evict(count)

    def release(self, need: int) -> int:
        """Give bytes of prefixes back."""
        return self.prefixes.release(need)

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change the budget; what does not fit goes."""
        self.prefixes.set_budget(budget)

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits in an explicit snapshot."""
        saved = self.handles.saved(handle)
        blob = self.flipped(saved.blob, part, byte, mask)
        self.handles.replace(handle, Saved(tokens=saved.tokens, logits=saved.logits, blob=blob))

    def flipped(self, blob: bytes, part: str, byte: int, mask: int) -> bytes:
        """Return a state with bits of one byte of a part flipped."""
        return flipped(blob, self.parsed(blob), part, byte, mask)

    def forge_image(self, data: Buffer, what: str) -> Buffer:
        """Refuse: a state of this library has no digests to make right again, and no field of these is in it.

        Raises:
            RefusedError: ``unsupported``.
        """
        raise RefusedError(RefusalCode.UNSUPPORTED, f"an image of {memoryview(data).nbytes} bytes has no {what}")

    def close(self) -> None:
        """Free contexts; the model stays for the next engine of this process."""
        self.prefixes.clear()
        self.handles.clear()
        if self.shared is not None:
            self.shared.close()

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
            shape = shape_of(blob, caches=caches, recurrent=self.model.overwrites)
        except BlobError as error:
            raise RefusedError(
                RefusalCode.UNSUPPORTED, f"this build writes its state in an unknown way: {error}"
            ) from error
        return shape, parse(blob, shape)


def installed_version() -> str:
    """Version of the package that holds the library."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
