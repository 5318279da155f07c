"""Row streams that were seen before: compared at the speed of memory, hashed only where they are new.

A row stream grows, so most looks at one show bytes that an earlier look has shown. Those bytes are kept, with the
state of the hash at every length that was looked at. A later look is compared with them, byte for byte; where all bytes
are equal the digest is known, and where the stream has grown the hash goes on from there. The digest is what hashing
every byte would give, since nothing is skipped that was not compared.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from harness.digest.blocks import equal, opened

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


_TAIL: Final = 64

START: Final = Mark(0, sha256())
"""The hash of nothing."""


class Stream:
    """The bytes of one row stream in pieces, and the marks at which its hash is known; every piece ends at a mark."""

    def __init__(self, pieces: Sequence[memoryview] = (), marks: Sequence[Mark] = ()) -> None:
        self._pieces: list[memoryview] = []
        self._starts: list[int] = []
        self.size = 0
        self.marks = list(marks)
        for piece in pieces:
            self._append(piece)

    def grow(self, piece: memoryview, mark: Mark) -> None:
        """Take more bytes, and the hash at the new end."""
        self._append(piece)
        self.add(mark)

    def add(self, mark: Mark) -> None:
        """Remember the hash at a length."""
        insort(self.marks, mark)

    def match(self, view: memoryview) -> tuple[int, Mark]:
        """Compare a buffer with the stream, from its start to the first mark behind which they differ.

        Returns:
            How many bytes are equal for sure (the length of a mark, or the whole buffer), and the last mark in them.
        """
        last = START
        for mark in self.marks:
            end = min(mark.length, view.nbytes)
            if not _equal(view[last.length : end], self._between(last.length, end)):
                break
            if end < mark.length:
                return end, last
            last = mark
        return last.length, last

    def ends_like(self, view: memoryview) -> bool:
        """Tell whether the last few bytes that both have are equal: a cheap sign that all are."""
        end = min(self.size, view.nbytes)
        start = max(self._starts[bisect_right(self._starts, end - 1) - 1], end - _TAIL)
        return _equal(view[start:end], self._between(start, end))

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
        self._starts.append(self.size)
        self.size += piece.nbytes

    def _between(self, start: int, end: int) -> memoryview:
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

    @property
    def kept(self) -> int:
        """Bytes of it that need not be kept again."""
        return self.stream.size if self.stream is not None else self.base.length


class RowMemory:
    """The streams of one cell, by part name."""

    def __init__(self) -> None:
        self._streams: dict[str, list[Stream]] = {}

    def look(self, name: str, view: memoryview) -> Found:
        """Return what is known of a buffer, its hash included.

        Args:
            name: Of the part.
            view: All valid bytes of it.
        """
        base, parent = START, None
        for stream in sorted(self._streams.get(name, []), key=lambda known: not known.ends_like(view)):
            length, mark = stream.match(view)
            if length == view.nbytes:
                return Found(_known(stream, mark, view), stream, mark, stream)
            if length == stream.size:
                return Found(_continued(mark, view), stream, mark, stream)
            if mark > base:
                base, parent = mark, stream
        return Found(_continued(base, view), None, base, parent)

    def keep(self, name: str, found: Found, piece: memoryview | None) -> Stream:
        """Give the bytes of a buffer that are new a stream, and return it.

        Args:
            name: Of the part.
            found: What :meth:`look` has told of the buffer.
            piece: A copy of its bytes from ``found.kept`` on; None: there are none.
        """
        stream = found.stream
        if stream is None:
            stream = found.parent.fork(found.base) if found.parent is not None else Stream()
            self._streams.setdefault(name, []).append(stream)
        if piece is not None:
            stream.grow(piece, found.mark)
        return stream


def _known(stream: Stream, mark: Mark, view: memoryview) -> Mark:
    if mark.length == view.nbytes:
        return mark
    known = _continued(mark, view)
    stream.add(known)
    return known


def _continued(mark: Mark, view: memoryview) -> Mark:
    state = mark.state.copy()
    state.update(view[mark.length :])
    return Mark(view.nbytes, state)


def _equal(left: memoryview, right: memoryview) -> bool:
    return left.nbytes == right.nbytes and (not left.nbytes or equal(opened(left), opened(right)))
