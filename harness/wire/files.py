"""Files that are whole or absent, and a log that tells whether it was closed.

Rules kept here:

- A document is written to a hidden neighbour, flushed to the disk, then linked or renamed into
  place. A reader sees the old bytes, the new bytes or no file, never a part.
- :func:`write_new` never overwrites, also not when two writers meet.
- A failure leaves nothing behind and is a :class:`StorageError` that says what is still intact.
- A log line counts when its line feed is there. A last line without one is the trace of an
  interruption and is reported, not parsed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import orjson

from harness.errors import StorageError
from harness.model.noun import dataclass

_MODE: Final = 0o644


def write_new(path: Path, data: bytes) -> None:
    """Create ``path`` with ``data``, durably; an existing file is never touched.

    Raises:
        StorageError: The file exists already, or the folder or disk refuses.
    """
    with _translated(path, "creating it", "no file of that name was made or changed"):
        hidden = _write_hidden(path, data)
        try:
            os.link(hidden, path)
        finally:
            hidden.unlink(missing_ok=True)
        _sync_folder(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``path``, durably and in one step.

    Raises:
        StorageError: The folder or disk refuses; the earlier content is intact then, or there is still no file.
    """
    kept = "its earlier content is intact" if os.path.lexists(path) else "no file of that name was made"
    with _translated(path, "replacing it", kept):
        hidden = _write_hidden(path, data)
        try:
            hidden.replace(path)
        finally:
            hidden.unlink(missing_ok=True)
        _sync_folder(path.parent)


def append(path: Path, data: bytes) -> None:
    """Add ``data`` at the end of ``path``, which is made if it is not there.

    Raises:
        StorageError: The folder or disk refuses.
    """
    kept = "its earlier content is intact" if os.path.lexists(path) else "there was none before; it may hold a part now"
    with _translated(path, "appending to it", kept), path.open("ab") as file:
        file.write(data)


def read(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of a regular file of at most ``max_bytes``.

    A larger file gives its first ``max_bytes + 1`` bytes, so that the strict reader can refuse it
    by size without anybody having loaded it whole.

    Raises:
        StorageError: The file is absent, unreadable or not a regular file.
    """
    with _translated(path, "reading it", "nothing was changed"), path.open("rb") as file:
        return file.read(max_bytes + 1)


def _write_hidden(path: Path, data: bytes) -> Path:
    """Write and flush a neighbour of ``path``; on any failure it is gone again."""
    hidden = path.with_name(f".{path.name[:64]}.{os.urandom(8).hex()}.partial")
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    return hidden


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    """Make the new name durable too; some file systems cannot and say so, which is fine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translated(path: Path, doing: str, intact: str) -> Iterator[None]:
    """Turn an :class:`OSError` into the named error; ``intact`` says what was not harmed."""
    try:
        yield
    except FileExistsError:
        raise StorageError(
            f"{path}: {doing} failed, the name is taken; {intact}. Records are never overwritten: choose another name"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"{path}: {doing} failed ({reason}); {intact}") from error


class AppendLog:
    """An append-only file of lines that survives an interruption at any byte.

    Each record is handed to the operating system as it comes, so a process that dies loses nothing
    that it has appended. The log counts and digests its lines, for the record that ends it: a file
    whose last line holds that count (``records``) and digest (``sha256``) is closed, and any other
    was cut off.

    Raises:
        StorageError: The file exists already, or the folder or disk refuses.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._records = 0
        self._hash = hashlib.sha256()
        self._broken = False
        with _translated(path, "creating the log", "no file of that name was made or changed"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, _MODE)

    @property
    def path(self) -> Path:
        """The file that is appended to."""
        return self._path

    @property
    def size(self) -> int:
        """Bytes of all whole lines so far."""
        return self._size

    @property
    def records(self) -> int:
        """Whole lines so far."""
        return self._records

    @property
    def sha256(self) -> str:
        """SHA-256 of all bytes so far, 64 hex digits."""
        return self._hash.hexdigest()

    def append(self, line: bytes) -> None:
        """Append one record; ``line`` ends in its only line feed, as ``canonical.line`` gives it.

        An interruption or a full disk in the middle of a line cuts the file back to the last whole
        line before the error goes on.

        Raises:
            StorageError: The disk refuses, the log is closed, or ``line`` is not one line.
        """
        if self._descriptor < 0 or self._broken:
            raise StorageError(f"{self._path}: the log takes no more lines (closed or broken)")
        if not line.endswith(b"\n") or line.find(b"\n") != len(line) - 1:
            raise StorageError(f"{self._path}: a record must be one line with its line feed")
        with _translated(self._path, "appending a line", "all earlier lines are intact"):
            try:
                _write_all(self._descriptor, line)
            except BaseException:
                self._settle(line)
                raise
            self._take(line)

    def close(self) -> None:
        """Flush everything to the disk and let go of the file; a second call does nothing.

        Raises:
            StorageError: The disk refuses; what it took before is intact.
        """
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        with _translated(self._path, "closing the log", "the lines that were flushed are intact"):
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _sync_folder(self._path.parent)

    def _take(self, line: bytes) -> None:
        self._size += len(line)
        self._records += 1
        self._hash.update(line)

    def _settle(self, line: bytes) -> None:
        """After an interruption: keep the line if all of it arrived, else cut the file back."""
        try:
            if os.fstat(self._descriptor).st_size == self._size + len(line):
                self._take(line)
            else:
                os.ftruncate(self._descriptor, self._size)
        except OSError:
            self._broken = True  # the torn line stays and the reader reports it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file. Whether the log is closed in meaning is for its last record to say."""
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """What a log file holds."""

    lines: tuple[bytes, ...]
    """The whole lines, each without its line feed; the ending record is the last of them."""
    closed: bool
    """Whether the last line counts and digests exactly the lines before it."""
    torn: bytes
    """Bytes after the last line feed; empty unless a write was interrupted."""
    sha256: str
    """SHA-256 of the whole file, 64 hex digits."""
    size: int
    """Bytes of the whole file."""


def read_lines(path: Path) -> LogLines:
    """Read a log, whole or partial.

    Raises:
        StorageError: The file is absent or unreadable.
    """
    with _translated(path, "reading the log", "nothing was changed"):
        data = path.read_bytes()
    return split_lines(data)


def split_lines(data: bytes) -> LogLines:
    """Return the lines of a log that is at hand as bytes (from a git object, say)."""
    whole, feed, torn = data.rpartition(b"\n")
    lines = tuple(whole.split(b"\n")) if feed else ()
    return LogLines(
        lines=lines,
        closed=bool(lines) and not torn and _ends_in_its_count(data, lines),
        torn=torn,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )


def _ends_in_its_count(data: bytes, lines: tuple[bytes, ...]) -> bool:
    before = memoryview(data)[: len(data) - len(lines[-1]) - 1]
    try:
        last: object = orjson.loads(lines[-1])
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(last, dict)
        and last.get("type") == "end"
        and last.get("records") == len(lines) - 1
        and last.get("sha256") == hashlib.sha256(before).hexdigest()
    )
