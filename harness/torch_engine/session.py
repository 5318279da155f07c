"""One conversation: its state, its position, and its side of the session cache.

The order of calls is ``begin`` → ``prefill`` … → ``commit`` or ``abandon``, with ``decode``,
``extend``, ``snapshot`` and ``restore`` in between where the prompt has been forwarded. Prompts are
cut at the same places whether a prefix was restored or not, so both make the same calls from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.torch_engine.buffers import Scope, SessionBuffers
from harness.torch_engine.errors import (
    CapacityError,
    MetadataError,
    OptionError,
    SessionStateError,
    TorchEngineError,
)
from harness.torch_engine.handles import SavedSession, SessionHandle, check_identity
from harness.torch_engine.keys import Schedule, encode_domain
from harness.torch_engine.metadata import Metadata, decode_metadata
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.sampling import Greedy, Sampler, SamplerState
from harness.torch_engine.settings import use_threads
from harness.torch_engine.state import StateLayout, flip_bits, load_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.torch_engine.engine import TorchEngine

_NO_TOKENS = np.zeros(0, dtype=np.int32)


class TorchSession:
    """A session of a `TorchEngine`; opened by it, not constructed directly."""

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        self.engine = engine
        self.options = options
        self.cache = engine.cache
        self.decoder = engine.model.decoder
        self.snapshotter = engine.snapshotter
        self.identity = engine.session_identity(options)
        token = options.turn_token if options.turns else None
        self.schedule = Schedule(chunk=options.chunk, turn_token=token)
        self.turn = self.cache.open_turn(encode_domain(self.identity), self.schedule)
        self._buffers: SessionBuffers | None = engine.new_buffers()
        self._prompt = _NO_TOKENS
        self._armed = False
        self.position = 0
        """Tokens forwarded so far."""
        self.decoded = 0
        """Tokens sampled since ``begin``."""
        self.logits_valid = False
        """Whether `logits` are those after the last token."""

    # -- a turn --------------------------------------------------------------------------------

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        """Start a prompt: reset, or restore the deepest cached prefix of it.

        Args:
            prompt: token ids; at least the last one is always forwarded.
            use_cache: whether to restore from the cache and to capture into it.

        Returns:
            Tokens restored, 0 for none.

        Raises:
            OptionError: a token id outside the vocabulary.
            CapacityError: a prompt longer than the buffers.
            SnapshotError: the restore failed; the session is reset.
        """
        tokens = self._checked(prompt)
        if len(tokens) > self.buffers.capacity:
            raise CapacityError(f"prompt: expected at most {self.buffers.capacity} tokens, found {len(tokens)}")
        self.reset()
        self._prompt = tokens
        self._armed = use_cache and self.cache.enabled
        return self._restore_prefix() if use_cache else 0

    def boundaries(self) -> tuple[int, ...]:
        """Where the prompt is cut: ascending positions in (0, its length], the same hit or miss."""
        return self.schedule.boundaries(self._prompt, 0, len(self._prompt))

    def prefill(self, upto: int) -> None:
        """Forward the prompt cut by cut; a position already passed is nothing to do.

        Args:
            upto: a position of `boundaries`, or the prompt's length.

        Raises:
            SessionStateError: ``upto`` is neither.
        """
        cuts = self.boundaries()
        if upto not in cuts and upto != len(self._prompt):
            raise SessionStateError(f"prefill: expected one of {cuts} or {len(self._prompt)}, found {upto}")
        for stop in sorted({*cuts, upto}):
            if self.position < stop <= upto:
                self.forward(self._prompt[self.position : stop], last=stop == len(self._prompt))
                self.at_boundary(stop)

    def at_boundary(self, position: int) -> None:
        """Capture a pending snapshot if this cut lies strictly inside the prompt."""
        if self._armed and position < len(self._prompt):
            layout, meta = self.layout("prefix"), self.metadata()
            self.cache.capture(self.turn, self._prompt, position, layout, meta)

    def commit(self) -> int:
        """Publish this turn's captures; the number published."""
        return self.cache.commit(self.turn)

    def abandon(self) -> int:
        """Drop this turn's captures and take no more; the number dropped."""
        self._armed = False
        return self.cache.abandon(self.turn)

    def extend(self, tokens: Sequence[int]) -> None:
        """Prefill more tokens on top of the current state, cut by absolute position.

        What follows a decode continues this session, not a cold run, so nothing is captured.

        Raises:
            SessionStateError: a part of the prompt is still owed.
            CapacityError, OptionError: as in `begin`; nothing was forwarded.
        """
        self._prompt_done("extend")
        new = self._checked(tokens)
        end = self.position + len(new)
        self._fits(len(new))
        everything = np.concatenate((self.buffers.history[: self.position].numpy(), new))
        for stop in sorted({*self.schedule.boundaries(everything, self.position, end), end}):
            if stop > self.position:
                self.forward(everything[self.position : stop], last=stop == end)

    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        """Sample tokens and forward each at once, so logits are those after the last one.

        Args:
            count: number of tokens.
            sampler: how to pick; greedy if None.

        Returns:
            The sampled token ids.

        Raises:
            SessionStateError: there are no logits to sample from.
            CapacityError: not enough room for all of them; none was sampled.
        """
        if not self.logits_valid:
            raise SessionStateError("decode: expected pending logits, found none")
        self._fits(count)
        return [self.decode_one(sampler or Greedy()) for _ in range(count)]

    def decode_one(self, sampler: Sampler) -> int:
        """Sample one token from the pending logits and forward it."""
        b = self.buffers
        token = sampler.pick(b.logits.cpu().numpy(), b.history[: b.history_rows].numpy(), SamplerState(b.rng))
        use_threads(self.engine.options.threads)
        try:
            with torch.inference_mode():
                hidden = self.decoder.step(token, self.position, b.layers)
                b.logits.copy_(self.decoder.logits(hidden))
        except Exception:
            self.reset()
            raise
        self._advance(np.array([token], dtype=np.int32))
        self.decoded += 1
        return token

    # -- state ---------------------------------------------------------------------------------

    def logits(self) -> Tensor | None:
        """A copy (vocab,) f32 of the logits after the last token, or None if there are none."""
        return self.buffers.logits.clone() if self.logits_valid else None

    def layout(self, scope: Scope = "session") -> StateLayout:
        """Live views of the state; ``prefix`` is what a boundary snapshot holds, ``session`` all."""
        return self.buffers.layout(scope)

    def metadata(self) -> bytes:
        """Part 0 as it is now; see `metadata.Metadata`."""
        meta = Metadata(
            position=self.position,
            logits_valid=self.logits_valid,
            sampler_valid=SamplerState(self.buffers.rng).seeded,
            decoded=self.decoded,
            layers=self.buffers.lengths(),
        )
        return meta.encode()

    def history(self) -> list[int]:
        """All tokens forwarded so far."""
        return list(map(int, self.buffers.history[: self.buffers.history_rows].tolist()))

    def reset(self) -> None:
        """Forget prompt and state; pending captures are dropped."""
        self.abandon()
        self.buffers.reset()
        self._prompt = _NO_TOKENS
        self.position = self.decoded = 0
        self.logits_valid = False

    def close(self) -> None:
        """Drop pending captures and free the buffers; closing twice is allowed."""
        self._armed = False
        self.cache.close_turn(self.turn)
        self._buffers = None

    @property
    def buffers(self) -> SessionBuffers:
        """The session's memory.

        Raises:
            SessionStateError: the session is closed.
        """
        if self._buffers is None:
            raise SessionStateError("session: expected an open one, found a closed one")
        return self._buffers

    def synchronize(self) -> None:
        """Wait for the device."""
        self.engine.synchronize()

    def corrupt(self, part_name: str, byte_offset: int, xor_mask: int) -> None:
        """Flip bits of one valid byte of a live part, a negative control.

        Raises:
            MissingError: no such part.
            LayoutError: offset or mask out of range.
        """
        part = self.layout("session").part(part_name)
        flip_bits(part.valid(), byte_offset, xor_mask, where=part_name)

    # -- explicit snapshots --------------------------------------------------------------------

    def snapshot(self) -> SessionHandle:
        """Save the whole session, logits and sampler included; the session is only read.

        Raises:
            BudgetError: explicit snapshots would hold more than their budget; nothing was taken.
        """
        layout = self.layout("session")
        starts = self.snapshotter.starts(layout, None)
        self.engine.admit(self.snapshotter.size(layout, starts, self.metadata()))
        saved = SavedSession(
            snapshot=self.snapshotter.capture(layout, self.metadata(), starts),
            identity=self.identity,
            prompt=tuple(self._prompt.tolist()),
        )
        return self.engine.keep(saved)

    def restore(self, handle: SessionHandle) -> None:
        """Become the saved session. Everything is checked before anything is touched.

        Pending captures are dropped and no more are taken until the next ``begin``.

        Raises:
            MissingError: the handle was dropped.
            LayoutError: another model, schedule, device, element type or part layout.
            MetadataError: part 0 is unreadable or contradicts itself.
        """
        saved = handle.open()
        check_identity(saved.identity, self.identity)
        meta, layout = self._destination(saved.snapshot.meta)
        self.restore_parts(saved, layout)
        self._become(meta, np.asarray(saved.prompt, dtype=np.int32))

    def adopt(self, meta: bytes, parts: Mapping[str, Buffer], prompt: Sequence[int] = ()) -> None:
        """Become a session whose parts come as bytes, like an image; checked before anything is touched.

        Whether model, types and schedule are the same is the caller's to check: bytes do not say.

        Args:
            meta: part 0.
            parts: bytes of every other part of the ``session`` scope by name.
            prompt: the prompt that was begun, of which a part may still be owed.

        Raises:
            MetadataError: part 0 is unreadable or contradicts itself.
            LayoutError: a part is missing, unknown, or of another size.
        """
        tokens = self._checked(prompt)
        decoded, layout = self._destination(meta)
        load_bytes(layout, parts)
        self._become(decoded, tokens)

    def _destination(self, meta: bytes) -> tuple[Metadata, StateLayout]:
        """Part 0 decoded, and the live buffers with the row counts that it says."""
        decoded = decode_metadata(meta)
        self.buffers.check_lengths(decoded, decoded.position)
        return decoded, self.buffers.layout("session", decoded.layers, decoded.position)

    def _become(self, meta: Metadata, prompt: npt.NDArray[np.int32]) -> None:
        """Drop this turn and take over, once the bytes are in place."""
        self.abandon()
        self._prompt = prompt
        self.take_over(meta)

    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        """Copy the saved parts into the live buffers."""
        self.snapshotter.restore([saved.snapshot], layout)

    # -- the cache's side ----------------------------------------------------------------------

    def expect(self, boundary: int, meta: bytes) -> StateLayout:
        """See `cache_types.Restorable.expect`."""
        decoded = decode_metadata(meta)
        self.buffers.check_lengths(decoded, boundary)
        if decoded.logits_valid or decoded.sampler_valid or decoded.decoded:
            raise MetadataError(f"metadata: expected a bare prefix at {boundary}, found {decoded}")
        return self.buffers.layout("prefix", decoded.layers)

    def finish_restore(self, meta: bytes) -> None:
        """See `cache_types.Restorable.finish_restore`; the history is filled from the prompt."""
        decoded = decode_metadata(meta)
        self.buffers.history_rows = 0
        self.buffers.remember(self._prompt[: decoded.position])
        self.take_over(decoded)

    def take_over(self, meta: Metadata) -> None:
        """Set lengths and counters after the bytes are in place."""
        self.buffers.set_lengths(meta.layers)
        self.buffers.history_rows = meta.position
        self.position = meta.position
        self.decoded = meta.decoded
        self.logits_valid = meta.logits_valid
        self.buffers.poison_unused()

    def _restore_prefix(self) -> int:
        """Ask the cache; tokens restored."""
        plan = self.cache.plan(self.turn, self._prompt)
        if plan.key is None:
            self.cache.note_miss(plan.reason)
            return 0
        try:
            self.cache.restore(plan.key, self)
        except TorchEngineError:
            self.reset()
            raise
        return plan.boundary

    # -- forwarding ----------------------------------------------------------------------------

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        """Forward tokens in one span; with ``last`` the logits after them become pending."""
        use_threads(self.engine.options.threads)
        b = self.buffers
        try:
            with torch.inference_mode():
                ids = torch.from_numpy(tokens.astype(np.int64)).to(b.device)
                hidden = self.decoder.prefill(ids, self.position, b.layers)
                if last:
                    b.logits.copy_(self.decoder.logits(hidden))
                elif self.logits_valid:
                    b.logits.zero_()
        except Exception:
            self.reset()
            raise
        self._advance(tokens)
        self.logits_valid = last

    def _advance(self, tokens: npt.NDArray[np.int32]) -> None:
        self.buffers.remember(tokens)
        self.position += len(tokens)

    def _checked(self, tokens: Sequence[int]) -> npt.NDArray[np.int32]:
        """The tokens (n,) as an array of its own, each shown to be in the vocabulary."""
        wide, vocab = np.array(tokens, dtype=np.int64), self.decoder.config.vocab
        if wide.size and (wide.min() < 0 or wide.max() >= vocab):
            raise OptionError(f"tokens: expected ids in 0..{vocab - 1}, found {wide.min()}..{wide.max()}")
        return wide.astype(np.int32)

    def _fits(self, count: int) -> None:
        room = self.buffers.capacity - self.position
        if not 0 <= count <= room:
            raise CapacityError(f"tokens: expected 0..{room}, found {count}")

    def _prompt_done(self, what: str) -> None:
        if self.position < len(self._prompt):
            raise SessionStateError(
                f"{what}: expected a prompt forwarded to {len(self._prompt)}, found {self.position}"
            )
