"""Sessions of the llama.cpp engine: one sequence each, in a context of its own or in one that all share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.adapters.common import require_room, within
from harness.adapters.llama_image import Saved, packed, size, unpacked
from harness.adapters.llama_parts import listed
from harness.engines.interface import Begun, StatePart
from harness.errors import RefusedError
from harness.model.values import RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.adapters.llama_context import Context
    from harness.adapters.llama_engine import LlamaCppEngine


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
        found = next((key for key in keys if cache and key in self.engine.prefixes), "")
        if not found:
            return Begun(cached=0, restored_bytes=0, schedule=self.ends)
        saved = self.engine.prefixes.used(found)
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
        self.engine.prefixes.publish(self.pending)
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
        return self.engine.handles.keep(self._saved())

    def restore(self, handle: str) -> Begun:
        """Become a saved session."""
        saved = self.engine.handles.saved(handle)
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
        return within(image, capacity)

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
        if self.engine.model.overwrites and not self.context.keeps_past:
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
        if not self.caching or key in self.engine.prefixes:
            return
        saved = self._saved()
        if self.engine.prefixes.fits(len(saved.blob), 1):
            self.pending[key] = saved

    def _room_for(self, tokens: int) -> None:
        require_room(tokens, self.engine.options, "sequence")

    def _schedule(self, start: int, end: int) -> Sequence[int]:
        chunk = int(self.engine.options["chunk"])
        return [*range((start // chunk + 1) * chunk, end, chunk), end]

    def _key(self, boundary: int) -> str:
        return hashlib.sha256(repr((self.engine.options["chunk"], list(self.prompt[:boundary]))).encode()).hexdigest()

    def _listed(self, blob: bytes) -> Sequence[StatePart]:
        meta = (self.position(), bool(self.pending_logits))
        return listed(blob, self.engine.parsed(blob), self.engine.empty, meta)
