"""Row streams that were seen before: compared at the speed of memory, hashed only where they are new.

A row stream grows, so most looks at one show bytes that an earlier look has shown. Those bytes are kept, with the
state of the hash at every length that was looked at. A later look is compared with them, byte for byte; where all bytes
are equal the digest is known, and where the stream has grown the hash goes on from there. The digest is what hashing
every byte would give, since nothing is skipped that was not compared.

What is kept is what was hashed: new bytes are copied first, the copy is hashed, and the live bytes are compared with it
once more, so that a buffer that changes during a look is an error instead of a wrong digest.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from harness.digest.blocks import address_of, same_bytes
from harness.errors import ProtocolError

if TYPE_CHECKING:
    from hashlib import _Hash


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """The hash of a stream at one length."""

    length: int
    state: _Hash = field(compare=False)

    @property
    def digest(self) -> str:
        """64 hex digits, of the bytes up to here."""
        return self.state.hexdigest()


Copied = Callable[[memoryview], "memoryview | None"]
"""Returns a copy of bytes; None: there is no room for one."""
_TAIL: Final = 64
_STEP: Final = 1 << 20
"""Bytes of new rows after which the hash is noted: a stream that leaves another one goes on from such a place."""

START: Final = Mark(0, sha256())
"""The hash of nothing."""


class Stream:
    """The bytes of one row stream in pieces, and the marks at which its hash is known; every piece ends at a mark."""

    def __init__(self, pieces: Sequence[memoryview] = (), marks: Sequence[Mark] = ()) -> None:
        self._pieces: list[memoryview] = []
        self._starts: list[int] = []
        self._places: list[int] = []
        self.size = 0
        self.marks = list(marks)
        for piece in pieces:
            self._append(piece)

    def grow(self, piece: memoryview, marks: Sequence[Mark]) -> None:
        """Take more bytes, and the hash at places in them, the new end among them."""
        self._append(piece)
        for mark in marks:
            self.add(mark)

    def add(self, mark: Mark) -> None:
        """Remember the hash at a length."""
        insort(self.marks, mark)

    def match(self, place: int, size: int, *, likely: bool = False) -> tuple[int, Mark]:
        """Compare a buffer with the stream, from its start to the first mark behind which they differ.

        Args:
            place: Address of the buffer.
            size: Bytes of it.
            likely: Compare whole pieces first; where all is equal that takes the fewest calls.

        Returns:
            How many bytes are equal for sure (the length of a mark, or the whole buffer), and the last mark in them.
        """
        start = self._equal_pieces(place, size) if likely else 0
        if start == size:
            return size, self._last_mark(size)
        last = self._last_mark(start)
        for mark in self.marks[bisect_right(self.marks, last) :]:
            end = min(mark.length, size)
            if not self._holds(place, last.length, end):
                break
            if end < mark.length:
                return end, last
            last = mark
        return last.length, last

    def _equal_pieces(self, place: int, size: int) -> int:
        """Return the end of the first pieces that a buffer equals; its own where it ends in one of them."""
        end = 0
        for start, piece in zip(self._starts, self._pieces, strict=True):
            more = min(start + piece.nbytes, size)
            if start >= size or not self._holds(place, start, more):
                break
            end = more
        return end

    def _last_mark(self, length: int) -> Mark:
        """Return the last mark within so many bytes."""
        index = bisect_right(self.marks, Mark(length, START.state))
        return self.marks[index - 1] if index else START

    def ends_like(self, view: memoryview) -> bool:
        """Tell whether the last few bytes that both have are equal: a cheap sign that all are.

        They are copied and compared by the interpreter, since a call that lets go of its lock for so little waits for
        the other threads of a look.
        """
        end = min(self.size, view.nbytes)
        if not end:
            return False
        index = bisect_right(self._starts, end - 1) - 1
        first = self._starts[index]
        start = max(first, end - _TAIL)
        return bytes(view[start:end]) == bytes(self._pieces[index][start - first : end - first])

    def _holds(self, place: int, start: int, end: int) -> bool:
        """Tell whether a buffer has the bytes of this stream between two places that lie in one piece."""
        index = bisect_right(self._starts, start) - 1
        return same_bytes(place + start, self._places[index] + start - self._starts[index], end - start)

    def fork(self, mark: Mark) -> Stream:
        """Return another stream that shares the bytes up to a mark of this one."""
        pieces = [
            piece[: mark.length - start]
            for piece, start in zip(self._pieces, self._starts, strict=True)
            if start < mark.length
        ]
        return Stream(pieces, [known for known in self.marks if known <= mark])

    def read(self, size: int) -> memoryview:
        """Return the first bytes; not copied where they lie in one piece."""
        if self._pieces and size <= self._pieces[0].nbytes:
            return self._pieces[0][:size]
        return memoryview(b"".join(self._pieces))[:size]

    def _append(self, piece: memoryview) -> None:
        self._pieces.append(piece)
        self._places.append(address_of(piece))
        self._starts.append(self.size)
        self.size += piece.nbytes

    def between(self, start: int, end: int) -> memoryview:
        """Return bytes that lie in one piece, as those between two neighbouring marks do."""
        index = bisect_right(self._starts, start) - 1
        return self._pieces[index][start - self._starts[index] : end - self._starts[index]]


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a buffer."""

    mark: Mark
    """The hash of all of it."""
    stream: Stream | None
    """The stream that it is a prefix or a continuation of; None: there is none."""
    base: Mark
    """How far it equals ``parent``."""
    parent: Stream | None
    """The stream that it shares most with."""
    piece: memoryview | None = None
    """A copy of its bytes that no stream has: those that the hash was made of."""
    between: Sequence[Mark] = ()
    """The hash at places within this copy."""

    @property
    def kept(self) -> int:
        """Bytes of it that need not be kept again."""
        return self.stream.size if self.stream is not None else self.base.length


@dataclass(frozen=True, slots=True)
class Sought:
    """How much of a buffer was seen before; what is left has to be hashed."""

    name: str
    """Of the part."""
    view: memoryview
    """All valid bytes."""
    mark: Mark
    """The last known hash of it; its bytes up to there equal those of ``parent``."""
    parent: Stream | None
    """The stream that it shares most with."""
    equal: int
    """Bytes that equal those of ``parent``: up to a mark, or all of the buffer."""


class RowMemory:
    """The streams of one cell, by part name."""

    def __init__(self) -> None:
        self._streams: dict[str, list[Stream]] = {}

    def seek(self, name: str, view: memoryview) -> Sought:
        """Compare a buffer with what was seen of its part before.

        Args:
            name: Of the part.
            view: All valid bytes of it.
        """
        best = Sought(name, view, START, None, 0)
        place, size = address_of(view), view.nbytes
        known = self._streams.get(name, [])
        alike = [(stream, stream.ends_like(view)) for stream in known]
        for stream, likely in sorted(alike, key=_unlikely):
            length, mark = stream.match(place, size, likely=likely)
            if length in {size, stream.size}:
                return Sought(name, view, mark, stream, length)
            if mark > best.mark:
                best = Sought(name, view, mark, stream, length)
        return best

    def finish(self, sought: Sought, copied: Copied | None = None) -> Found:
        """Return what is known of a buffer, its hash included.

        Args:
            sought: What :meth:`seek` has told of it.
            copied: Copies bytes that are to be kept and are new; None: none are to be kept.

        Raises:
            ProtocolError: The buffer changed while it was copied and hashed.
        """
        view, mark, parent = sought.view, sought.mark, sought.parent
        if parent is not None and sought.equal == view.nbytes:
            return Found(_known(parent, mark, view.nbytes), parent, mark, parent)
        between, full, piece = _continued(sought.name, mark, view, copied)
        goes_on = parent is not None and sought.equal == parent.size
        return Found(full, parent if goes_on else None, mark, parent, piece, between)

    def keep(self, name: str, found: Found) -> Stream:
        """Give the bytes of a buffer that are new a stream, and return it.

        Args:
            name: Of the part.
            found: What :meth:`finish` has told of the buffer, with a copy of what is new.
        """
        stream = found.stream
        if stream is None:
            stream = found.parent.fork(found.base) if found.parent is not None else Stream()
            self._streams.setdefault(name, []).append(stream)
        if found.piece is not None:
            stream.grow(found.piece, [*found.between, found.mark])
        return stream


def require_unchanged(name: str, view: memoryview, copy: memoryview) -> None:
    """Compare a part with the copy that was made of it and hashed.

    Raises:
        ProtocolError: They differ: something writes to the part while the session is looked at.
    """
    if not _equal(view, copy):
        raise ProtocolError(f"{name}: the bytes changed while they were looked at; expected a session at rest")


def _known(stream: Stream, mark: Mark, size: int) -> Mark:
    if mark.length == size:
        return mark
    known = _hashed(mark, stream.between(mark.length, size))
    stream.add(known)
    return known


def _unlikely(one: tuple[Stream, bool]) -> bool:
    return not one[1]


def _continued(
    name: str, mark: Mark, view: memoryview, copied: Copied | None
) -> tuple[Sequence[Mark], Mark, memoryview | None]:
    """Return the hash at places after a mark, the hash of all of a buffer, and the copy that they were made of."""
    new = view[mark.length :]
    piece = copied(new) if copied is not None and new.nbytes else None
    if piece is None:
        return (), _hashed(mark, new), None
    between, full = [], mark
    for start in range(0, piece.nbytes, _STEP):
        full = _hashed(full, piece[start : start + _STEP])
        between.append(full)
    require_unchanged(name, new, piece)
    return between[:-1], full, piece


def _hashed(mark: Mark, more: memoryview) -> Mark:
    state = mark.state.copy()
    state.update(more)
    return Mark(mark.length + more.nbytes, state)


def _equal(left: memoryview, right: memoryview) -> bool:
    return left.nbytes == right.nbytes and same_bytes(address_of(left), address_of(right), left.nbytes)
