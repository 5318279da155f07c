"""Beginning a prompt on what a session still has: its live state, or the live rows of a prefix.

- **Live**: the prompt strictly extends all that the session has forwarded or owes, and the turn before was
  committed. Nothing is copied and nothing is forgotten; the turn continues this session, not a cold run, so
  it captures nothing, unless the session's option ``live_captures`` scopes its captures apart: then they are kept
  under a domain of their own, and rest only on entries that were made the same way.
- **Resident**: the session still has the rows of a prefix, and a copy of what is overwritten in place was
  kept at its deepest cut. Only that copy is put back, so it works past the cache's budget.

Both are exact only for the session's own buffers, so neither outlives a reset or a restore.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.torch_engine.cache_types import Spans, spans_below
from harness.torch_engine.errors import TorchEngineError
from harness.torch_engine.keys import Tokens
from harness.torch_engine.memory_guard import out_of_memory
from harness.torch_engine.snapshot import Snapshot
from harness.torch_engine.state import StateLayout

if TYPE_CHECKING:
    from harness.torch_engine.session import TorchSession


@dataclass(frozen=True, slots=True)
class Resident:
    """A prefix whose rows lie in the session's buffers."""

    tokens: npt.NDArray[np.int32]
    """The prefix."""
    fixed: Snapshot
    """Its fixed parts, without rows; part 0 with them."""
    spans: Spans
    """How its state was made; see `cache_types.Turn.spans`."""


class Continuation:
    """What one session may continue without a restore of rows."""

    def __init__(self, session: TorchSession) -> None:
        self.session = session
        self.live = False
        """Whether the state is that of a committed turn and what was decoded after it."""
        self.resident: Resident | None = None
        """The prefix that can be gone back to."""
        self.pending: Resident | None = None
        """The one of the turn that is open."""
        session.turn.kept = self.kept_bytes

    def kept_bytes(self) -> int:
        """Bytes of the copies that are kept to go back to a resident prefix."""
        pending = None if self.pending is self.resident else self.pending
        return sum(one.fixed.nbytes for one in (self.resident, pending) if one is not None)

    def drop(self) -> None:
        """The live state is about to be reset, or was replaced: nothing can be continued."""
        self.leave()
        self.session.turn.deferred = None
        self.live, self.resident, self.pending = False, None, None

    def begin(self, prompt: npt.NDArray[np.int32]) -> int:
        """Continue what is there, if that brings more than the cache; live before resident before the cache.

        Returns:
            Tokens that the state stands for, 0 if nothing is continued.
        """
        live, resident = self.live_start(prompt), self.resident_start(prompt)
        if not live and not resident:
            return 0
        s = self.session
        if max(live, resident) < s.cache.plan(s.turn, prompt).boundary:
            return 0
        return self.begin_live(prompt) if live >= resident else self.begin_resident(prompt)

    # -- deferred ------------------------------------------------------------------------------

    def defer(self, position: int) -> bool:
        """Save the deepest cut without a copy, where the session's option ``deferred`` asks for it.

        Returns:
            Whether the cut has been dealt with.
        """
        s = self.session
        if not s.options.deferred or s.turn.spans or position != self.deepest():
            return False
        s.cache.defer(s.turn, s.prompt, position, s.layout("prefix"), s.metadata())
        return True

    def leave(self) -> None:
        """Copy the deferred save of a committed turn, while its rows are still there."""
        s, promise, kept = self.session, self.session.turn.deferred, self.resident
        if (
            promise is not None
            and kept is not None
            and promise.key == s.cache.key(s.turn, kept.tokens, len(kept.tokens))
        ):
            s.cache.materialize(s.turn, self.whole_snapshot)

    def whole_snapshot(self) -> Snapshot:
        """The resident prefix as a snapshot of its own: kept fixed parts, and the live rows below its end."""
        s, resident = self.session, self.resident
        assert resident is not None  # noqa: S101 - leave looked
        layout = s.buffers.layout("prefix", s.buffers.lengths_at(len(resident.tokens)))
        stored = s.snapshotter.fixed_pairs(resident.fixed, layout)
        fixed = tuple(replace(part, tensor=copy) for part, (_, copy) in zip(layout.fixed, stored, strict=True))
        whole = StateLayout(fixed=fixed, rows=layout.rows)
        return s.snapshotter.capture(whole, resident.fixed.meta, s.snapshotter.starts(whole, None))

    # -- live ----------------------------------------------------------------------------------

    def live_start(self, prompt: Tokens) -> int:
        """Tokens of the live record if the prompt strictly extends it, else 0."""
        s = self.session
        record = s.buffers.history[: s.buffers.history_rows].numpy()
        if not (s.options.live and self.live) or s.position < len(s.prompt) or len(prompt) <= len(record):
            return 0
        return len(record) if starts_with(prompt, record) else 0

    def begin_live(self, prompt: npt.NDArray[np.int32]) -> int:
        """Go on from the present state, which is not touched but for an owed token's forward."""
        s = self.session
        s.abandon()
        s.settle()
        spans = (*s.turn.spans, (len(s.prompt), s.position))
        s.arm(prompt, use_cache=s.live_captures())
        s.turn.spans = spans
        self.live, self.pending = False, None
        s.cache.count({"live_hits": 1, "live_tokens": s.position})
        return s.position

    # -- resident ------------------------------------------------------------------------------

    def resident_start(self, prompt: Tokens) -> int:
        """Tokens of the resident prefix if the prompt strictly extends it, else 0."""
        if self.resident is None:
            return 0
        tokens = self.resident.tokens
        return len(tokens) if len(prompt) > len(tokens) and starts_with(prompt, tokens) else 0

    def begin_resident(self, prompt: npt.NDArray[np.int32]) -> int:
        """Go back to the resident prefix: its fixed parts are copied, its rows declared valid."""
        s, resident = self.session, self.resident
        assert resident is not None  # noqa: S101 - resident_start looked
        s.abandon()
        self.live, self.pending = False, None
        try:
            s.arm(prompt, use_cache=True)
            s.expect(len(resident.tokens), resident.fixed.meta)
            copied = s.snapshotter.restore([resident.fixed], self.fixed_layout())
            self.clear_unsaved()
            s.finish_restore(resident.fixed.meta)
            s.turn.spans = resident.spans
        except TorchEngineError:
            s.reset()
            raise
        s.cache.count({"resident_hits": 1, "resident_tokens": s.position, "resident_bytes": copied})
        return s.position

    def fixed_layout(self) -> StateLayout:
        """The fixed parts of a boundary snapshot, without rows."""
        return StateLayout(fixed=self.session.layout("prefix").fixed, rows=())

    def clear_unsaved(self) -> None:
        """Zero what a boundary snapshot does not hold, as a reset does."""
        kept = {part.name for part in self.fixed_layout().fixed}
        for part in self.session.layout("session").fixed:
            if part.name not in kept:
                part.tensor.zero_()

    def at_boundary(self, position: int) -> None:
        """Keep the fixed parts, if this is the deepest cut strictly inside the prompt."""
        s = self.session
        if (s.options.resident or s.turn.deferring is not None) and position == self.deepest():
            try:
                fixed = s.snapshotter.capture(self.fixed_layout(), s.prefix_metadata(), ())
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                s.turn.deferring = None
                s.cache.count({"skip_allocation": 1})
            else:
                self.pending = Resident(s.prompt[:position].copy(), fixed, spans_below(s.turn.spans, position))

    def deepest(self) -> int:
        """The last cut strictly inside the prompt, 0 if there is none."""
        s = self.session
        return max((cut for cut in s.boundaries() if cut < len(s.prompt)), default=0)

    # -- the end of a turn ---------------------------------------------------------------------

    def commit(self) -> None:
        """The turn ended well: its state may be continued, its deepest cut gone back to."""
        if self.session.turn.deferring is not None:
            self.leave()
        self.live = self.session.position >= len(self.session.prompt)
        self.resident, self.pending = self.pending or self.resident, None

    def abandon(self) -> None:
        """The turn did not end well: what it left is not continued."""
        self.live, self.pending = False, None


def starts_with(tokens: Tokens, prefix: npt.NDArray[np.int32]) -> bool:
    """Whether the tokens begin with a prefix."""
    return bool(np.array_equal(np.asarray(tokens[: len(prefix)], dtype=np.int32), prefix))
