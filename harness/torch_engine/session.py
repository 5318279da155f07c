"""One conversation: its state, its position, and its side of the session cache.

The order of calls is ``begin`` → ``prefill`` … → ``commit`` or ``abandon``, with ``decode``,
``extend``, ``snapshot`` and ``restore`` in between where the prompt has been forwarded. Prompts are
cut at the same places whether a prefix was restored or not, so both make the same calls from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.torch_engine.continuing import Continuation
from harness.torch_engine.errors import (
    CapacityError,
    MetadataError,
    SessionStateError,
    TorchEngineError,
    UnsupportedError,
)
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.rolling import Trail
from harness.torch_engine.sampling import Greedy, Sampler, SamplerState
from harness.torch_engine.session_state import SessionState
from harness.torch_engine.settings import use_threads
from harness.torch_engine.speculating import Speculator
from harness.torch_engine.state import StateLayout

if TYPE_CHECKING:
    from harness.torch_engine.engine import TorchEngine

ProgressHook = Callable[["TorchSession"], None]
"""Called inside a call that forwards tokens; ``doing`` of the session says which."""


class TorchSession(SessionState):
    """A session of a `TorchEngine`; opened by it, not constructed directly."""

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self.continuing = Continuation(self)
        self.trail = self.new_trail()
        self._summed: Tensor | None = None
        """Sum (d,) of the last hidden rows of the prompt, where the model embeds."""
        self.on_progress: ProgressHook | None = None
        """Called inside every prefill, decode and verify after each pass; may look, and may raise to end the call."""
        self.speculator: Speculator | None = None
        """Drafts and verifies on route ``mtp``; None on route ``ar``."""
        if options.route == "mtp":
            self.buffers.add_draft(options.draft_depth)
            self.speculator = engine.new_speculator(self)

    def new_trail(self) -> Trail:
        """What a rollback of this session goes by."""
        return Trail(self)

    # -- a turn --------------------------------------------------------------------------------

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        """Start a prompt: reset, or restore the deepest cached prefix of it.

        With the session's options ``live`` and ``resident`` it may also go on from what is there.

        Args:
            prompt: token ids; at least the last one is always forwarded.
            use_cache: whether to restore from the cache and to capture into it.

        Returns:
            Tokens restored, 0 for none.

        Raises:
            OptionError: a token id outside the vocabulary.
            CapacityError: a prompt longer than the buffers.
            SnapshotError: the restore failed; the session is reset.
            SessionStateError: a call is in progress.
        """
        tokens = self.arranged(self._checked(prompt))
        self.idle("begin")
        self._summed = None
        use_cache = use_cache and self.decoder.config.decodes
        if len(tokens) > self.buffers.capacity:
            raise CapacityError(f"prompt: expected at most {self.buffers.capacity} tokens, found {len(tokens)}")
        continued = self.continuing.begin(tokens) if use_cache and self.cache.enabled else 0
        cached = continued or self._begin_anew(tokens, use_cache=use_cache)
        self._choose(cached)
        return cached

    def arranged(self, tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The prompt (n,) as it is forwarded; see `chat.ChatFormat.arranged`."""
        return tokens if self.chat is None else self.chat.arranged(tokens)

    def _choose(self, cached: int) -> None:
        """Decide which cut of the prompt is captured, now that it is known what is there already."""
        if self.chat is None or self.options.keep == "all":
            return
        head = self.chat.head(self._prompt) if self.options.keep == "head" else 0
        self._chosen = head if cached < head else self.chat.turn(self._prompt)
        if 0 < head <= cached:
            self.cache.release_head(self.cache.key(self.turn, self._prompt, head))

    def live_captures(self) -> bool:
        """Whether a turn that goes on from the present state captures: apart, and where its spans tell how it came."""
        return self.options.live_captures and not self._extended

    def wanted(self, position: int) -> bool:
        """Whether the snapshot of a cut is to be captured, by the session's option ``keep``."""
        return self.options.keep == "all" or position == self._chosen

    def _begin_anew(self, tokens: npt.NDArray[np.int32], *, use_cache: bool) -> int:
        """Begin a prompt on a reset session, whatever is pinned."""
        pinned, self.pinned = self.pinned, None
        try:
            self.reset()
            self.arm(tokens, use_cache=use_cache)
            cached = self._restore_prefix() if use_cache else 0
        finally:
            self.pinned = pinned
        if cached and self._armed:
            self.continuing.at_boundary(cached)
        return cached

    def arm(self, tokens: npt.NDArray[np.int32], *, use_cache: bool) -> None:
        """Take over a prompt (n,); its cuts are captured if ``use_cache`` and the cache can hold anything."""
        self._prompt = tokens
        self._extended = False
        self._armed = use_cache and self.cache.enabled

    def boundaries(self) -> tuple[int, ...]:
        """Where the prompt is cut: ascending positions in (0, its length], the same hit or miss."""
        if not self.decoder.config.decodes:
            return ()  # a prompt is embedded in one call
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
                if stop == self.options.pin and self.pinned is None:
                    self.pin(stop)

    def at_boundary(self, position: int) -> None:
        """Capture a pending snapshot if this cut lies strictly inside the prompt.

        Raises:
            SessionStateError: a call is in progress, or target and draft head do not stand together.
        """
        if self._armed and position < len(self._prompt):
            self.idle("capture")
            self.owners_agree("capture")
            if self.wanted(position):
                self._keep_cut(position)
            self.continuing.at_boundary(position)

    def _keep_cut(self, position: int) -> None:
        """Capture a cut, or promise it; protect it where that is asked for."""
        layout, meta = self.layout("prefix"), self.prefix_metadata()
        if not self.continuing.defer(position):
            self.cache.capture(self.turn, self._prompt, position, layout, meta)
        if self.options.keep == "head" and self.chat is not None and position == self.chat.head(self._prompt):
            self.cache.protect_head(self.cache.key(self.turn, self._prompt, position))
        if position == self.options.protect:
            self.cache.protect(self.cache.key(self.turn, self._prompt, position))

    def commit(self) -> int:
        """Publish this turn's captures; the number published."""
        self.continuing.commit()
        return self.cache.commit(self.turn)

    def extend(self, tokens: Sequence[int]) -> None:
        """Prefill more tokens on top of the current state, cut by absolute position.

        What follows a decode continues this session, not a cold run, so nothing is captured. An owed
        token is forwarded first.

        Raises:
            SessionStateError: a part of the prompt is still owed, or a call is in progress.
            CapacityError, OptionError: as in `begin`; nothing was forwarded.
        """
        self.idle("extend")
        self._prompt_done("extend")
        new = self._checked(tokens)
        self._fits(len(new))
        self.settle()
        self._extended = True
        end = self.position + len(new)
        everything = np.concatenate((self.buffers.history[: self.position].numpy(), new))
        for stop in sorted({*self.schedule.boundaries(everything, self.position, end), end}):
            if stop > self.position:
                self.forward(everything[self.position : stop], last=stop == end)

    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        """Sample tokens and forward each at once, so logits are those after the last one.

        A token that is owed is forwarded first. With the session's option ``owed`` the last token's
        forward is left to the next call, and no logits are pending.

        Args:
            count: number of tokens.
            sampler: how to pick; greedy if None.

        Returns:
            The sampled token ids.

        Raises:
            SessionStateError: there are no logits to sample from, or a call is in progress.
            CapacityError: not enough room for all of them; none was sampled.
        """
        self.idle("decode")
        if not self.logits_valid and not self.owed:
            raise SessionStateError("decode: expected pending logits, found none")
        self._fits(count)
        sampler = sampler or Greedy()
        if self.speculator is not None and count:
            return self.speculator.decode(count, sampler)
        self.settle()
        tokens = [self.decode_one(sampler) for _ in range(count - self.options.owed)]
        return [*tokens, self.sample(sampler)] if self.options.owed and count else tokens

    def decode_one(self, sampler: Sampler) -> int:
        """Sample one token from the pending logits and forward it."""
        token = self.sample(sampler)
        self.settle()
        return token

    def sample(self, sampler: Sampler) -> int:
        """Sample one token from the pending logits; its forward is owed."""
        b = self.buffers
        token = sampler.pick(b.logits.cpu().numpy(), b.history[: b.history_rows].numpy(), SamplerState(b.rng))
        b.remember(np.array([token], dtype=np.int32))
        b.logits.zero_()
        self.owed, self.logits_valid = True, False
        self.decoded += 1
        return token

    def settle(self) -> None:
        """Forward the owed token, if there is one; its logits become pending.

        Raises:
            SessionStateError: a call is in progress.
        """
        if not self.owed:
            return
        self.idle("settle")
        if self.speculator is not None:
            self.speculator.settle()
            return
        b = self.buffers
        use_threads(self.engine.options.threads)
        try:
            with self.busy("decode"), torch.inference_mode():
                hidden = self.decoder.step(int(b.history[self.position]), self.position, b.layers)
                b.logits.copy_(self.decoder.logits(hidden))
                self.progress()
        except Exception:
            self.reset()
            raise
        self.position += 1
        self.owed, self.logits_valid = False, True
        self.trail.note()

    # -- the cache's side ----------------------------------------------------------------------

    def expect(self, boundary: int, meta: bytes) -> StateLayout:
        """See `cache_types.Restorable.expect`."""
        decoded = decode_metadata(meta)
        self.buffers.check_lengths(decoded, boundary)
        if decoded.logits_valid or decoded.sampler_valid or decoded.decoded or decoded.owed:
            raise MetadataError(f"metadata: expected a bare prefix at {boundary}, found {decoded}")
        return self.buffers.layout("prefix", decoded.layers)

    def finish_restore(self, meta: bytes) -> None:
        """See `cache_types.Restorable.finish_restore`; the history is filled from the prompt."""
        decoded = decode_metadata(meta)
        self.buffers.history_rows = 0
        self.buffers.remember(self._prompt[: decoded.position])
        self.take_over(decoded)

    def _restore_prefix(self) -> int:
        """Ask the cache; tokens restored."""
        plan = self.cache.plan(self.turn, self._prompt)
        if plan.key is None:
            self.cache.note_miss(plan.reason)
            return 0
        self.turn.source = plan.key
        try:
            with self.transferring():
                self.cache.restore(plan.key, self)
            self.turn.spans = self.cache.lineage(plan.key)
        except TorchEngineError:
            self.reset()
            raise
        return plan.boundary

    # -- forwarding ----------------------------------------------------------------------------

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        """Forward tokens in one span; with ``last`` the logits after them become pending.

        Raises:
            SessionStateError: a call is in progress.
        """
        self.idle("prefill")
        use_threads(self.engine.options.threads)
        b = self.buffers
        try:
            with self.busy("prefill"), torch.inference_mode():
                ids = torch.from_numpy(tokens.astype(np.int64)).to(b.device)
                hidden = self.decoder.prefill(ids, self.position, b.layers, self.after_panel)
                if last:
                    b.logits.copy_(self.decoder.logits(hidden))
                elif self.logits_valid:
                    b.logits.zero_()
                if self.speculator is not None:
                    self.speculator.forwarded(last=last)
        except Exception:
            self.reset()
            raise
        self._advance(tokens)
        self.logits_valid = last and self.decoder.config.decodes
        self.trail.note()

    def after_panel(self, tokens: Tensor, start: int, hidden: Tensor) -> None:
        """What follows each pass of a prefill; see `Decoder.prefill`."""
        if self.speculator is not None:
            self.speculator.follow(tokens, start, hidden)
        if not self.decoder.config.decodes:
            self._summed = hidden.sum(0) if self._summed is None else self._summed + hidden.sum(0)
        self.progress()

    def embedding(self) -> Tensor | None:
        """The mean (d,) f32 of the prompt's last hidden rows, unit length; None until the prompt is through.

        Raises:
            UnsupportedError: the model decodes and makes no embeddings.
        """
        if self.decoder.config.decodes:
            raise UnsupportedError("embedding: expected a model that embeds, found one that decodes")
        done = self._summed is not None and self.position == len(self._prompt)
        return self._summed / self._summed.norm() if done and self._summed is not None else None

    def progress(self) -> None:
        """Tell whoever wants to know that a call in progress has come a pass further."""
        if self.on_progress is not None:
            self.on_progress(self)

    def _advance(self, tokens: npt.NDArray[np.int32]) -> None:
        self.buffers.remember(tokens)
        self.position += len(tokens)
