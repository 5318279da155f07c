"""Row streams that were seen before: compared at the speed of memory, hashed only where they are new.

A row stream grows, so most looks at one show bytes that an earlier look has shown. Those bytes are kept in the
spool, with the state of the hash at every length that was looked at. A later look is compared with them, byte for
byte; where all bytes are equal the digest is known, and where the stream has grown the hash goes on from there. The
digest is what hashing every byte would give, since nothing is skipped that was not compared.
"""

from __future__ import annotations

import mmap
import os
from bisect import insort
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.digest.blocks import equal, opened

if TYPE_CHECKING:
    from hashlib import _Hash

_RESERVED: Final = 64 * 1024 * 1024
_GROWTH: Final = 4
"""Address space is reserved generously: memory is taken only where it is touched, and nothing is copied to grow."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """The hash of a stream at one length."""

    length: int
    state: _Hash = field(compare=False)

    @property
    def digest(self) -> str:
        """64 hex digits, of the bytes up to here."""
        return self.state.hexdigest()


@dataclass(frozen=True, slots=True)
class Match:
    """How far a buffer equals a stream."""

    length: int
    """Bytes that are equal for sure; a mark's length, or the whole buffer."""
    mark: Mark | None
    """The last mark within them."""


class Stream:
    """One row stream, with the marks at which its hash is known.

    Args:
        path: File for the bytes; None keeps them in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self.in_memory = path is None
        self.marks: list[Mark] = []
        self.size = 0
        self._path = path
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")

    @property
    def view(self) -> memoryview:
        """All bytes of the stream."""
        return self._view

    def match(self, view: memoryview) -> Match:
        """Compare a buffer with the stream, from its start to the first mark behind which they differ."""
        last: Mark | None = None
        for mark in self.marks:
            start = last.length if last else 0
            end = min(mark.length, view.nbytes)
            if not _equal(view[start:end], self._view[start:end]):
                break
            if end < mark.length:
                return Match(length=end, mark=last)
            last = mark
        return Match(length=last.length if last else 0, mark=last)

    def append(self, rest: memoryview) -> None:
        """Add bytes at the end of the stream.

        Raises:
            OSError: The disk or the memory refuses; the stream is as it was.
        """
        if self._path is None:
            self._append_in_memory(rest)
        else:
            self._append_to_file(self._path, rest)
        self.size += rest.nbytes

    def add(self, mark: Mark) -> None:
        """Remember the hash at a length."""
        insort(self.marks, mark)

    def _append_in_memory(self, rest: memoryview) -> None:
        end = self.size + rest.nbytes
        if self._map is None or len(self._map) < end:
            larger = mmap.mmap(-1, max(_RESERVED, _GROWTH * end))
            memoryview(larger)[: self.size] = self._view
            self._map = larger
        memoryview(self._map)[self.size : end] = rest
        self._view = memoryview(self._map)[:end].toreadonly()

    def _append_to_file(self, path: Path, rest: memoryview) -> None:
        with path.open("ab", buffering=0) as file:
            file.truncate(self.size)
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            size = file.tell()
        with path.open("rb") as file:
            self._view = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))


class RowMemory:
    """The streams of one spool, by part name."""

    def __init__(self) -> None:
        self._streams: dict[str, list[Stream]] = {}

    def look(self, name: str, view: memoryview) -> tuple[Mark, Stream | None]:
        """Return the hash of a buffer and the stream that it belongs to.

        Args:
            name: Of the part.
            view: All valid bytes of it.

        Returns:
            The mark at the whole length, and the stream of which the buffer is a prefix or a continuation; None: it
            is neither.
        """
        best = Match(length=0, mark=None)
        for stream in reversed(self._streams.get(name, [])):
            match = stream.match(view)
            if match.length == view.nbytes:
                return _known(stream, match, view), stream
            if match.length == stream.size and stream.marks:
                return _continued(match, view), stream
            best = max(best, match, key=lambda found: found.length)
        return _continued(best, view), None

    def keep(self, name: str, view: memoryview, mark: Mark, stream: Stream) -> None:
        """Add to a stream what of a buffer it does not have yet, as :meth:`look` has told.

        Raises:
            OSError: The disk or the memory refuses.
        """
        streams = self._streams.setdefault(name, [])
        if stream.size < view.nbytes:
            stream.append(view[stream.size :])
            stream.add(mark)
        if stream not in streams:
            streams.append(stream)


def _known(stream: Stream, match: Match, view: memoryview) -> Mark:
    if match.mark is not None and match.mark.length == view.nbytes:
        return match.mark
    mark = _continued(Match(length=match.mark.length if match.mark else 0, mark=match.mark), view)
    stream.add(mark)
    return mark


def _continued(match: Match, view: memoryview) -> Mark:
    state = match.mark.state.copy() if match.mark else sha256()
    state.update(view[match.length :] if match.mark else view)
    return Mark(view.nbytes, state)


def _equal(left: memoryview, right: memoryview) -> bool:
    return left.nbytes == right.nbytes and (not left.nbytes or equal(opened(left), opened(right)))
