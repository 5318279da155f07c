"""Taking the last tokens of a session back, in place.

Rows above a position are declared invalid. What is overwritten in place cannot be computed back, so from `Trail.begin`
on a copy of it is kept after every forward; only where there is none of it can any position be gone back to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from harness.torch_engine.errors import SessionStateError, UnsupportedError

if TYPE_CHECKING:
    from harness.torch_engine.session import TorchSession

MOST = 64
"""Positions that a trail remembers; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a session was at a position, as far as a rollback does not compute it."""

    fixed: tuple[Tensor, ...]
    """Copies of the fixed parts of a boundary snapshot, in the layout's order."""
    rng: Tensor
    """A copy of the sampler's words."""
    decoded: int
    """Tokens sampled by then."""


class Trail:
    """The positions that one session can go back to; every step is a method to override."""

    def __init__(self, session: TorchSession) -> None:
        self.session = session
        self.marks: dict[int, Mark] = {}
        """By position, oldest first; empty where nothing is recorded."""
        self.recording = False

    def begin(self) -> None:
        """Keep marks from here on.

        Raises:
            UnsupportedError: the session has a draft head.
            SessionStateError: a call is in progress.
        """
        self.session.idle("record")
        if self.session.buffers.draft is not None:
            raise UnsupportedError("record: expected route ar, found a draft head")
        self.recording = True
        self.note()

    def drop(self) -> None:
        """The state became another one: nothing can be gone back to."""
        self.marks.clear()
        self.recording = False

    def note(self) -> None:
        """Keep what the session is now, if it is recorded."""
        if not self.recording:
            return
        s = self.session
        fixed = tuple(part.tensor.clone() for part in s.layout("prefix").fixed)
        self.marks[s.position] = Mark(fixed, s.buffers.rng.clone(), s.decoded)
        while len(self.marks) > MOST:
            del self.marks[next(iter(self.marks))]

    def back(self, count: int) -> None:
        """Take the last ``count`` tokens back; everything is checked before anything is touched.

        Raises:
            UnsupportedError: the session has a draft head.
            SessionStateError: there are not so many, a token is owed, the position was not recorded where state is
                overwritten in place, or a call is in progress.
        """
        s = self.session
        s.idle("rollback")
        if s.buffers.draft is not None:
            raise UnsupportedError("rollback: expected route ar, found a draft head")
        target = s.position - count
        if not 0 < target < s.position or s.owed:
            raise SessionStateError(f"rollback: expected 1..{s.position - 1} forwarded tokens, found {count}")
        layout, mark = s.layout("prefix"), self.marks.get(target)
        if layout.fixed and mark is None:
            raise SessionStateError(f"rollback: expected one of the positions {list(self.marks)}, found {target}")
        s.continuing.drop()
        self.put_back(target, mark)
        self.forget_above(target)

    def put_back(self, target: int, mark: Mark | None) -> None:
        """Make the session what it was at a position."""
        s, b = self.session, self.session.buffers
        if mark is not None:
            for part, kept in zip(s.layout("prefix").fixed, mark.fixed, strict=True):
                part.tensor.copy_(kept)
            b.rng.copy_(mark.rng)
        b.set_lengths(b.lengths_at(target))
        b.history_rows = target
        b.logits.zero_()
        s.position, s.logits_valid = target, False
        s.decoded = mark.decoded if mark is not None else min(s.decoded, max(0, target - len(s.prompt)))
        b.poison_unused()

    def forget_above(self, target: int) -> None:
        """Drop the marks of positions that do not exist any more."""
        for position in [position for position in self.marks if position > target]:
            del self.marks[position]
