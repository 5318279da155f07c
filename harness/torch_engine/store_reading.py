"""Reading a link's sections and hashing them, one pass.

A large link is read by a second thread, a few blocks ahead of the one that hashes, so that with two
processors a verified load costs little more than the hash alone. Both release the interpreter.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from harness.torch_engine.store_record import Header, LinkCorruptError, Placed

BLOCK = 1 << 20
"""Bytes hashed at a time, while they are warm."""
BATCH = 1 << 20
"""Bytes read at a time."""
BATCH_PIECES = 256
"""Pieces read at a time; the system's own limit is not lower."""
AHEAD_FROM = 1 << 20
"""Bytes of a link from which on a second thread reads."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file and where they go."""

    offset: int
    view: memoryview
    owner: int
    """Index of the section that they belong to, or stand before."""
    padding: bool = False
    last: bool = False


def corrupt(name: str, header: Header, section: str, start: int, stop: int, what: str) -> LinkCorruptError:
    """The error for a range of bytes of a link."""
    boundary = header.record.key.boundary
    return LinkCorruptError(name=name, boundary=boundary, section=section, start=start, stop=stop, what=what)


def verify_sections(file: int, name: str, header: Header, into: Sequence[memoryview] | None) -> None:
    """Read every section once and compare its digest.

    Args:
        file: open for reading.
        name: the file's name, for errors.
        header: says where the sections lie and what they hash to.
        into: one writable view per section, or None to keep nothing.

    Raises:
        LinkCorruptError: the first range that does not match, or cannot be read.
    """
    batches = _batches(_pieces(header, into), 1 if into is None else BATCH_PIECES)
    ahead = into is not None and header.file_bytes >= AHEAD_FROM
    blocks = _ahead(file, batches) if ahead else _in_turn(file, batches)
    digest = hashlib.sha256()
    try:
        for piece, is_read in blocks:
            digest.update(piece.view if not piece.padding else b"")
            text = _objection(piece, header.placed[piece.owner], digest) if is_read else "not readable"
            if text:
                raise _located(name, header, piece, text)
            digest = hashlib.sha256() if piece.last else digest
    finally:
        blocks.close()


def _objection(piece: Piece, entry: Placed, digest: hashlib._Hash) -> str:
    """What is wrong with a piece that was read, or an empty text."""
    if piece.padding:
        return "expected zeros, found other bytes" if any(piece.view) else ""
    if piece.last and digest.digest() != entry.sha256:
        return f"expected SHA-256 {entry.sha256.hex()}, found {digest.hexdigest()}"
    return ""


def _located(name: str, header: Header, piece: Piece, what: str) -> LinkCorruptError:
    entry = header.placed[piece.owner]
    if piece.padding:
        return corrupt(name, header, "padding", piece.offset, entry.offset, what)
    return corrupt(name, header, entry.section.name, entry.offset, entry.stop, what)


def _pieces(header: Header, into: Sequence[memoryview] | None) -> Iterator[Piece]:
    """The payload in order, without a gap; without views all of it goes to the same scratch memory."""
    scratch = memoryview(bytearray(BLOCK))
    end = header.header_bytes
    for owner, entry in enumerate(header.placed):
        if entry.offset > end:
            yield Piece(end, memoryview(bytearray(entry.offset - end)), owner, padding=True)
        end = entry.stop
        size = entry.section.nbytes
        for at in range(0, max(size, 1), BLOCK):
            stop = min(at + BLOCK, size)
            view = scratch[: stop - at] if into is None else into[owner][at:stop]
            yield Piece(entry.offset + at, view, owner, last=stop == size)


def _batches(pieces: Iterator[Piece], most: int) -> Iterator[list[Piece]]:
    """Pieces to be read by one call, each batch at most `BATCH` bytes unless one piece is larger."""
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        if batch and (size + len(piece.view) > BATCH or len(batch) == most):
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += len(piece.view)
    if batch:
        yield batch


def _in_turn(file: int, batches: Iterator[list[Piece]]) -> Generator[tuple[Piece, bool]]:
    """Every piece, and whether it could be read."""
    for batch in batches:
        whole = _read(file, batch)
        yield from ((piece, at < whole) for at, piece in enumerate(batch))


def _ahead(file: int, batches: Iterator[list[Piece]]) -> Generator[tuple[Piece, bool]]:
    """As `_in_turn`, read by a second thread that has ended when this is closed."""
    listed = list(batches)
    done: SimpleQueue[int] = SimpleQueue()
    stop = threading.Event()

    def read() -> None:
        for batch in listed:
            whole = 0 if stop.is_set() else _read(file, batch)
            done.put(whole)
            if whole < len(batch):
                return

    thread = threading.Thread(target=read, name="statecert-store-read", daemon=True)
    thread.start()
    try:
        for batch in listed:
            whole = done.get()
            yield from ((piece, at < whole) for at, piece in enumerate(batch))
    finally:
        stop.set()
        thread.join()


def _read(file: int, batch: Sequence[Piece]) -> int:
    """Read a batch with one call, or piece by piece where that does not give all; the pieces read."""
    size = sum(len(piece.view) for piece in batch)
    try:
        if os.preadv(file, [piece.view for piece in batch], batch[0].offset) == size:
            return len(batch)
    except OSError:
        pass  # the piece that cannot be read is looked for below
    for number, piece in enumerate(batch):
        if not _read_piece(file, piece):
            return number
    return len(batch)


def _read_piece(file: int, piece: Piece) -> bool:
    """Fill a view; False where the file does not give the bytes."""
    done = 0
    while done < len(piece.view):
        try:
            count = os.preadv(file, [piece.view[done:]], piece.offset + done)
        except OSError:
            return False
        if count == 0:
            return False
        done += count
    return True
