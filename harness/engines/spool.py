"""Bytes of reference parts, kept for as long as a comparison may need them.

A spool belongs to one cell. It fills memory first, then files of a folder in the run folder; above both budgets nothing
is kept, and whoever needs the bytes makes them again, as after the loss of the child that held them. Row streams share
their bytes, since each look at one mostly repeats the one before (:mod:`harness.engines.rowmemory`).
"""

from __future__ import annotations

import mmap
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.digest.blocks import address_of, copy_bytes
from harness.digest.parts import part_digest
from harness.engines.helpers import Helpers, Pieces
from harness.engines.rowmemory import Found, RowMemory, Stream
from harness.errors import ProtocolError, StorageError

_SMALL: Final = 64 * 1024
"""Below this a part is hashed and kept whole: comparing would cost as much."""
_WORTH_A_THREAD: Final = 1 << 20
"""Bytes of row streams in one look from which on a second thread takes over a part of them."""


def _nothing() -> None:
    """Do nothing meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolBudget:
    """Bytes that one cell may keep."""

    memory: int = 256 * 1024**2
    disk: int = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a look."""

    name: str
    view: memoryview
    """All valid bytes, flat."""
    rows: bool
    """Whether it is a row stream."""


class Spool:
    """Part bytes by digest.

    Args:
        folder: Takes the files; made when the first one is needed.
        budget: What may be kept.
    """

    def __init__(self, folder: Path, budget: SpoolBudget) -> None:
        self._folder = folder
        self._memory_left = budget.memory
        self._memory_half = budget.memory // 2
        self._disk_left = budget.disk
        self._files = 0
        self._places: dict[str, tuple[Stream, int]] = {}
        self._rows = RowMemory()
        self._helpers = Helpers()
        self._counting = threading.Lock()

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._places

    def hashed(
        self,
        parts: Sequence[Part],
        *,
        keep: bool,
        threads: int = 1,
        meanwhile: Callable[[], object] = _nothing,
    ) -> tuple[Sequence[str], bool]:
        """Return the digests of all parts of one look, and whether all bytes that were to be kept are kept.

        Args:
            parts: In table order.
            keep: Whether their bytes are to be kept. New rows of others are kept too while memory is plenty, so that
                the next look at them compares instead of hashing.
            threads: How many threads compare and hash row streams.
            meanwhile: What this thread does before it takes part in that.

        Raises:
            StorageError: The disk refuses.
            ProtocolError: A part changed while it was looked at.
        """
        large = [part.rows and part.view.nbytes >= _SMALL for part in parts]
        streams = [part for part, apart in zip(parts, large, strict=True) if apart]
        with self._shared(streams, threads, keep=keep) as pieces:
            # hashing lets go of the interpreter's lock, so that the others can begin; what is done meanwhile may not
            whole = [None if apart else part_digest(part.view) for part, apart in zip(parts, large, strict=True)]
            meanwhile()
            found = pieces.results()
        digests: list[str] = []
        kept = True
        looked = iter(found)
        for part, digest in zip(parts, whole, strict=True):
            if digest is None:
                stream = next(looked)
                digests.append(stream.mark.digest)
                here = self._keep_rows(part, stream, digests[-1])
                kept &= here or not keep
            else:
                digests.append(digest)
                kept &= not keep or self.keep(digest, part.view, name=part.name)
        return digests, kept

    def keep(self, sha256: str, view: memoryview, *, name: str = "a part", beyond_budget: bool = False) -> bool:
        """Keep a part unless it is there; return whether it is there now.

        Args:
            sha256: Digest of ``view``; the name under which it can be read.
            view: All valid bytes.
            name: What to call the part in an error.
            beyond_budget: Keep it even if the budget is spent (for the one part that must be located).

        Raises:
            StorageError: The disk refuses.
            ProtocolError: The bytes are not those of the digest any more.
        """
        if sha256 in self._places:
            return True
        if beyond_budget:
            self._memory_left += view.nbytes
        copy = self._copied(view)
        if copy is None:
            return False
        if part_digest(copy) != sha256:
            raise ProtocolError(f"{name}: the bytes changed after they were hashed; expected a session at rest")
        self._places[sha256] = Stream([copy]), view.nbytes
        return True

    def read(self, sha256: str) -> memoryview:
        """Return the bytes of a part.

        Raises:
            StorageError: The part is not there.
        """
        if sha256 not in self._places:
            raise StorageError(f"part {sha256[:12]} is not in the spool; its arm must be run again")
        stream, size = self._places[sha256]
        return stream.read(size)

    def close(self) -> None:
        """End the threads; the memory goes with the object."""
        self._helpers.close()

    @contextmanager
    def _shared(self, parts: Sequence[Part], threads: int, *, keep: bool) -> Iterator[Pieces[Found]]:
        """Let others begin to compare and hash row streams, the largest first, each by whichever thread is free.

        This thread takes its turns when it asks for the results. A helper that gets no core, while an engine's own
        threads still spin on it, takes nothing over and is not waited for.
        """
        copied = self._copied if keep else self._copied_if_plenty

        def look(at: int) -> Found:
            return self._rows.finish(self._rows.seek(parts[at].name, parts[at].view), copied)

        sizes = [part.view.nbytes for part in parts]
        pieces = Pieces(sorted(range(len(parts)), key=lambda at: -sizes[at]), look)
        if sum(sizes) >= _WORTH_A_THREAD:
            self._helpers.call(pieces.work, min(threads, len(parts)) - 1)
        try:
            yield pieces
        finally:
            pieces.stop()  # no part is read any more when this look ends, badly too

    def _keep_rows(self, part: Part, found: Found, sha256: str) -> bool:
        if found.kept < part.view.nbytes and found.piece is None:
            return sha256 in self
        stream = self._rows.keep(part.name, found)
        self._places.setdefault(sha256, (stream, part.view.nbytes))
        return True

    def _copied_if_plenty(self, view: memoryview) -> memoryview | None:
        """Return a copy in memory while half of the budget stays for references; None: it would not."""
        with self._counting:
            plenty = view.nbytes <= self._memory_left - self._memory_half
        return self._copied(view) if plenty else None

    def _copied(self, view: memoryview) -> memoryview | None:
        """Return a copy in memory, else in a file; None: neither budget has room."""
        with self._counting:
            in_memory = view.nbytes <= self._memory_left
            if in_memory:
                self._memory_left -= view.nbytes
            elif view.nbytes <= self._disk_left:
                self._disk_left -= view.nbytes
                self._files += 1
                number = self._files
            else:
                return None
        if in_memory:
            return _copy(view)
        with _storage("keeping a part"):
            return self._in_file(view, number)

    def _in_file(self, view: memoryview, number: int) -> memoryview:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"piece-{number}"
        path.write_bytes(view)
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _copy(view: memoryview) -> memoryview:
    """Return a copy; of a large view one that is made without the interpreter's lock.

    Its memory is the allocator's, which hands out again what forwards and earlier copies have freed, to every thread
    alike (:func:`harness.engines.process.process_environment`): memory that is mapped anew for each copy is zeroed page
    by page while it is first written, and that takes longer than copying.
    """
    import numpy as np

    if view.nbytes < _SMALL:
        return memoryview(bytes(view))
    copy = np.empty(view.nbytes, np.uint8).data
    copy_bytes(address_of(copy), address_of(view), view.nbytes)
    return copy.toreadonly()


def remove(folder: Path) -> None:
    """Remove the files of a spool; nothing happens if there are none."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _storage(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the spool: {doing} failed ({error.strerror}); free some space") from error
