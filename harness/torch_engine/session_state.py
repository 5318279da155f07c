"""What a session is between its calls: memory, counters, part 0, and explicit snapshots of all of it.

`session.TorchSession` adds the calls that move it on.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from harness.torch_engine.buffers import Scope, SessionBuffers
from harness.torch_engine.chat import ChatFormat, chat_format
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.errors import (
    CapacityError,
    MetadataError,
    OptionError,
    SessionStateError,
    TorchEngineError,
    TransferError,
    UnsupportedError,
)
from harness.torch_engine.handles import SavedSession, SessionHandle, check_identity
from harness.torch_engine.keys import Schedule, encode_domain
from harness.torch_engine.metadata import Metadata, decode_metadata
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.rolling import Trail
from harness.torch_engine.sampling import SamplerState
from harness.torch_engine.state import StateLayout, flip_bits, load_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.torch_engine.engine import TorchEngine

NO_TOKENS = np.zeros(0, dtype=np.int32)
BEGINNINGS = frozenset({"begin", "reset", "restore", "adopt", "cancel"})
"""Calls that a cancelled turn takes."""
KEY_FREE = frozenset({"max_seq_len"})
"""Identity fields that are no part of a cache domain: how much room there is, which a server may choose anew at each
start; whether a snapshot fits is shown by its lengths."""
EMBEDDING = frozenset({"begin", "prefill", "reset", "cancel"})
"""Calls that a model without decoding state takes."""


class SessionState:
    """State of a session, and how it is saved and put back whole."""

    continuing: Continuation
    """What may be gone on with without a restore of rows."""
    trail: Trail
    """Where a rollback can go back to."""

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        self.engine = engine
        self.options = options
        self.cache = engine.cache
        self.decoder = engine.model.decoder
        self.snapshotter = engine.snapshotter
        self.identity = engine.session_identity(options)
        token = options.turn_token if options.turns else None
        self.chat = self.new_chat(options.chat) if options.chat else None
        self.schedule = Schedule(chunk=options.chunk, turn_token=token, pin=options.pin, chat=self.chat)
        keyed = {name: value for name, value in self.identity.items() if name not in KEY_FREE}
        apart = encode_domain(keyed | {"apart": True}) if options.live_captures else None
        self.turn = self.cache.open_turn(encode_domain(keyed), self.schedule, apart)
        self._buffers: SessionBuffers | None = engine.new_buffers()
        self._prompt = NO_TOKENS
        self._armed = False
        self._extended = False
        """Whether more was forwarded on top of the prompt's turn, so that its spans do not tell how it was made."""
        self._chosen = 0
        """The only cut that is captured, where the option ``keep`` asks for one; 0 for none."""
        self.pinned: SavedSession | None = None
        """The prefix that a reset returns to: a bare state whose ``prompt`` is its tokens."""
        self.doing = ""
        """The call in progress: ``prefill``, ``decode``, ``verify``, or empty."""
        self.position = 0
        """Tokens forwarded so far."""
        self.decoded = 0
        """Tokens sampled since ``begin``."""
        self.logits_valid = False
        """Whether `logits` are those after the last token."""
        self.owed = False
        """Whether the last token of the history has still to be forwarded."""
        self.cancelled = False
        """Whether the turn was cancelled, so that its state is nobody's to go on with."""

    def new_chat(self, text: str) -> ChatFormat:
        """What finds the messages of a prompt; see `chat.chat_format`."""
        return chat_format(text)

    # -- looking -------------------------------------------------------------------------------

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
            owed=self.owed,
            pinned=0 if self.pinned is None else len(self.pinned.prompt),
        )
        return meta.encode()

    def prefix_metadata(self) -> bytes:
        """Part 0 of a capture here; in a live turn that of a bare prefix, without what was sampled on the way."""
        if not self.turn.spans:
            return self.metadata()
        lengths = self.buffers.lengths()
        bare = Metadata(position=self.position, logits_valid=False, sampler_valid=False, decoded=0, layers=lengths)
        return bare.encode()

    @property
    def prompt(self) -> npt.NDArray[np.int32]:
        """The prompt (n,) that was begun."""
        return self._prompt

    def history(self) -> list[int]:
        """All tokens so far: the forwarded ones, then the owed one if there is one."""
        return list(map(int, self.buffers.history[: self.buffers.history_rows].tolist()))

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

    # -- a call in progress --------------------------------------------------------------------

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Say that a call is in progress, so that others are refused meanwhile."""
        self.doing = what
        try:
            yield
        finally:
            self.doing = ""

    def idle(self, what: str) -> None:
        """Refuse a call while another one is in progress, and on a cancelled turn all but a new beginning.

        Raises:
            SessionStateError: there is one, or the turn was cancelled.
            UnsupportedError: the model has no decoding state that the call could work on.
        """
        if what not in EMBEDDING and not self.decoder.config.decodes:
            raise UnsupportedError(f"{what}: expected a model with decoding state, found one that embeds")
        if self.doing:
            raise SessionStateError(f"{what}: expected no call in progress, found a {self.doing}")
        if self.cancelled and what not in BEGINNINGS:
            raise SessionStateError(f"{what}: expected a turn that goes on, found a cancelled one")

    @contextlib.contextmanager
    def transferring(self) -> Iterator[None]:
        """Reset the session if a copy fails that was checked before it began.

        Raises:
            TransferError: it failed.
        """
        try:
            yield
        except TorchEngineError:
            raise  # found by a check, so nothing was written
        except Exception as error:
            self.reset()
            raise TransferError(f"copy: expected all parts, found {type(error).__name__}: {error}") from error

    def owners_agree(self, what: str) -> None:
        """The draft head, where there is one, stands one position behind the target.

        Raises:
            SessionStateError: it does not.
        """
        draft, behind = self.buffers.draft, max(0, self.position - 1)
        if draft is not None and draft.rows.kv_rows != behind:
            raise SessionStateError(f"{what}: expected a draft head at {behind}, found {draft.rows.kv_rows}")

    # -- beginning and ending ------------------------------------------------------------------

    def reset(self) -> None:
        """Forget prompt and state, down to the pinned prefix; pending captures are dropped.

        Raises:
            SessionStateError: a prefill, decode or verify is in progress.
        """
        self.idle("reset")
        self.abandon()
        self.continuing.drop()
        self.trail.drop()
        self.buffers.reset()
        self.turn.spans = ()
        self._prompt = NO_TOKENS
        self.position = self.decoded = 0
        self.logits_valid = self.owed = self.cancelled = False
        if self.pinned is not None:
            self._return_to(self.pinned)

    def abandon(self) -> int:
        """Drop this turn's captures and take no more; the number dropped."""
        self._armed = False
        self.continuing.abandon()
        return self.cache.abandon(self.turn)

    def cancel(self) -> int:
        """End the turn between two calls: captures at whole cuts are published, the rest of it is nobody's.

        Until the session begins, restores, adopts or is reset, it refuses everything else.

        Returns:
            Captures published.
        """
        self.idle("cancel")
        self.continuing.commit()
        published = self.cache.commit(self.turn)
        self.abandon()
        self.continuing.drop()
        self.cancelled = True
        return published

    def close(self) -> None:
        """Drop pending captures and free the buffers; closing twice is allowed."""
        self._armed = False
        if self._buffers is not None:
            self.continuing.drop()
        self.cache.close_turn(self.turn)
        self._buffers = self.pinned = None

    # -- a pinned prefix -----------------------------------------------------------------------

    def pin(self, count: int) -> None:
        """Pin the first ``count`` tokens: from now on a reset returns to them. A pin is copied, not shared.

        Raises:
            OptionError: fewer than 1 token, or more than are forwarded.
            UnsupportedError: fewer than are forwarded, where state is overwritten in place.
            BudgetError: explicit snapshots would hold more than their budget.
            SessionStateError: a call is in progress.
        """
        self.idle("pin")
        if not 1 <= count <= self.position:
            raise OptionError(f"pin: expected 1..{self.position} tokens, found {count}")
        lengths = self.buffers.lengths() if count == self.position else self.buffers.lengths_at(count)
        layout = self.buffers.layout("prefix", lengths)
        if count < self.position and layout.fixed:
            raise UnsupportedError(f"pin: expected all {self.position} tokens of this architecture, found {count}")
        bare = Metadata(position=count, logits_valid=False, sampler_valid=False, decoded=0, layers=lengths)
        meta, starts = bare.encode(), self.snapshotter.starts(layout, None)
        self.engine.admit(self.snapshotter.size(layout, starts, meta))
        self.pinned = SavedSession(
            snapshot=self.snapshotter.capture(layout, meta, starts),
            identity=self.identity,
            prompt=tuple(self.history()[:count]),
        )

    def unpin(self) -> None:
        """Forget the pin; the state stays as it is."""
        self.pinned = None

    def _return_to(self, pinned: SavedSession) -> None:
        """Become the pinned prefix, on top of a reset."""
        meta = decode_metadata(pinned.snapshot.meta)
        self.snapshotter.restore([pinned.snapshot], self.buffers.layout("prefix", meta.layers))
        self.buffers.remember(np.asarray(pinned.prompt, dtype=np.int32))
        self.take_over(meta)
        if self.buffers.draft is not None:
            self.buffers.draft.void()

    # -- explicit snapshots --------------------------------------------------------------------

    def snapshot(self) -> SessionHandle:
        """Save the whole session, logits and sampler included; the session is only read.

        Raises:
            BudgetError: explicit snapshots would hold more than their budget; nothing was taken.
            SessionStateError: a call is in progress, or target and draft head do not stand together.
        """
        self.idle("snapshot")
        self.owners_agree("snapshot")
        layout = self.layout("session")
        starts = self.snapshotter.starts(layout, None)
        self.engine.admit(self.snapshotter.size(layout, starts, self.metadata()))
        saved = SavedSession(
            snapshot=self.snapshotter.capture(layout, self.metadata(), starts),
            identity=self.identity,
            prompt=tuple(self._prompt.tolist()),
            pin=self.pinned,
        )
        return self.engine.keep(saved)

    def restore(self, handle: SessionHandle) -> None:
        """Become the saved session. Everything is checked before anything is touched.

        Pending captures are dropped and no more are taken until the next ``begin``.

        Raises:
            MissingError: the handle was dropped.
            IdentityError, KVModeError: another model, schedule, route, device or element type.
            LayoutError: another part layout.
            MetadataError: part 0 is unreadable or contradicts itself.
            TransferError: the copy failed; the session is reset.
            SessionStateError: a call is in progress.
        """
        self.idle("restore")
        saved = handle.open()
        check_identity(saved.identity, self.identity)
        meta, layout = self._destination(saved.snapshot.meta)
        if meta.pinned != (0 if saved.pin is None else len(saved.pin.prompt)):
            raise MetadataError(f"metadata: expected the pin of the handle, found one of {meta.pinned} tokens")
        self.continuing.leave()
        with self.transferring():
            self.restore_parts(saved, layout)
        self.pinned = saved.pin
        self.become(meta, np.asarray(saved.prompt, dtype=np.int32))

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
            UnsupportedError: a prefix is pinned below the position, where state is overwritten in place.
            TransferError: the copy failed; the session is reset.
            SessionStateError: a call is in progress.
        """
        self.idle("adopt")
        tokens = self._checked(prompt)
        decoded, layout = self._destination(meta)
        if decoded.pinned and self.buffers.layout("prefix").fixed:
            raise UnsupportedError("adopt: expected no pin where state is overwritten in place, found one")
        self.continuing.leave()
        with self.transferring():
            self.load_parts(layout, parts)
        self.pinned = None
        self.become(decoded, tokens)
        if decoded.pinned:
            self.pin(decoded.pinned)

    def _destination(self, meta: bytes) -> tuple[Metadata, StateLayout]:
        """Part 0 decoded, and the live buffers with the row counts that it says."""
        decoded = decode_metadata(meta)
        self.buffers.check_lengths(decoded, decoded.position)
        if decoded.pinned > decoded.position:
            raise MetadataError(f"metadata: expected a pin of at most {decoded.position}, found {decoded.pinned}")
        return decoded, self.buffers.layout("session", decoded.layers, decoded.position + decoded.owed)

    def become(self, meta: Metadata, prompt: npt.NDArray[np.int32]) -> None:
        """Drop this turn and take over what part 0 says, once the bytes of all parts are in place."""
        self.abandon()
        self.continuing.drop()
        self.trail.drop()
        self.cancelled = False
        self.turn.spans = ()
        self._prompt = prompt
        self.take_over(meta)

    def load_parts(self, layout: StateLayout, parts: Mapping[str, Buffer]) -> None:
        """Copy parts that come as bytes into the live buffers; see `state.load_bytes`."""
        load_bytes(layout, parts)

    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        """Copy the saved parts into the live buffers."""
        self.snapshotter.restore([saved.snapshot], layout)

    def take_over(self, meta: Metadata) -> None:
        """Set lengths and counters after the bytes are in place."""
        self.buffers.set_lengths(meta.layers)
        self.buffers.history_rows = meta.position + meta.owed
        self.position = meta.position
        self.decoded = meta.decoded
        self.logits_valid = meta.logits_valid
        self.owed = meta.owed
        self.buffers.poison_unused()

    # -- checks --------------------------------------------------------------------------------

    def _checked(self, tokens: Sequence[int]) -> npt.NDArray[np.int32]:
        """The tokens (n,) as an array of its own, each shown to be in the vocabulary."""
        wide = _KNOWN.get(tokens) if type(tokens) is tuple else np.asarray(_words(tokens))
        vocab = self.decoder.config.vocab
        if wide.size and (wide.min() < 0 or wide.max() >= vocab):
            raise OptionError(f"tokens: expected ids in 0..{vocab - 1}, found {wide.min()}..{wide.max()}")
        return wide.astype(np.int32)

    def _fits(self, count: int) -> None:
        room = self.buffers.capacity - self.position - self.owed
        if not 0 <= count <= room:
            raise CapacityError(f"tokens: expected 0..{room}, found {count}")

    def _prompt_done(self, what: str) -> None:
        if self.position < len(self._prompt):
            raise SessionStateError(
                f"{what}: expected a prompt forwarded to {len(self._prompt)}, found {self.position}"
            )


def _words(tokens: Sequence[int]) -> array[int]:
    """The tokens as 64-bit words, several times faster than an array of the list itself is made.

    Unsigned ones are taken as they are; signed ones are parsed one by one, so these only where a token is negative.
    """
    try:
        return array("Q", tokens)
    except OverflowError:
        return array("q", tokens)


class _KnownTokens:
    """The words of the last few tuples of tokens: an application begins the same prompt again and again.

    A tuple is known again by being the same object, which is held, and which nobody can change; one that is only equal
    is read anew.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._held: dict[int, tuple[tuple[int, ...], npt.NDArray[Any]]] = {}

    def get(self, tokens: tuple[int, ...]) -> npt.NDArray[Any]:
        """The tokens (n,) as an array that is only read."""
        held = self._held.get(id(tokens))
        if held is None:
            words = np.asarray(_words(tokens))
            words.setflags(write=False)
            if len(self._held) >= self._most:
                del self._held[next(iter(self._held))]
            held = self._held[id(tokens)] = tokens, words
        return held[1]


_KNOWN: Final = _KnownTokens()
