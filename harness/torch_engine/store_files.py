"""The folder of the disk tier: one lock, one file per link, and a quarantine.

Publishing is write, sync, rename, sync the folder, each step a method of its own. Reading hashes
while it reads: every byte passes once. Nothing follows a symbolic link, and every name is made here
or compared with one that is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.torch_engine.store_header import (
    DIGEST_AT,
    PREFIX,
    TEMP_NAME,
    build_header,
    header_length,
    parse_header,
    place,
    whole_digest,
)
from harness.torch_engine.store_reading import corrupt, verify_sections
from harness.torch_engine.store_record import (
    Header,
    LinkMissingError,
    Placed,
    Record,
    RecordFormatError,
    StoreFolderError,
    StoreLockedError,
)

BLOCK = 1 << 17
"""Bytes hashed and written in turn, small enough to stay in the second-level cache."""
LOCK = ".lock"
QUARANTINE = "quarantine"
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
MOUNTS = Path("/proc/self/mounts")
NETWORKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}
    | {"fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs", "fuse.ceph", "fuse.davfs", "davfs"}
)
"""Kinds of file systems whose bytes lie elsewhere."""
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StoreFolder:
    """A locked folder. The lock is the kernel's, so that of a dead process is free.

    Args:
        path: made if it is not there; its parents too.

    Raises:
        StoreFolderError: the path is a symbolic link or no folder, leads upwards, or lies on a network.
        StoreLockedError: another store has it open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.label = path.name
        _require_local(path)
        for folder in (path, path / QUARANTINE):
            _make_folder(folder)
        self._lock = self._acquire()

    def _acquire(self) -> int:
        """Take the lock or say who has it."""
        try:
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreFolderError(f"store {self.label}: expected a lock file, found {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise StoreLockedError(f"store {self.label}: expected it free, found it open in process {owner}") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock

    def close(self) -> None:
        """Release the lock; the lock file stays."""
        os.close(self._lock)

    def free_bytes(self) -> int:
        """Bytes that the file system has left for this user."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, name: str, build: bytes, record: Record, payload: Sequence[memoryview]) -> Header:
        """Make a link's file appear whole or not at all.

        Raises:
            OSError: it could not be written; nothing of it is left.
        """
        temporary = self.path / f"{name.removesuffix('.snap')}.{os.getpid()}.tmp"
        final = self.path / name
        try:
            file = os.open(temporary, WRITE, 0o600)
            try:
                header = self.write(file, build, record, payload)
                self.sync(file)
            finally:
                os.close(file)
            self.rename(temporary, final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        try:
            self.sync_folder()
        except OSError:
            final.unlink(missing_ok=True)
            raise
        return header

    def write(self, file: int, build: bytes, record: Record, payload: Sequence[memoryview]) -> Header:
        """Write sections, hashing each block while it is warm, and then the header."""
        places, size, total = place(record)
        os.ftruncate(file, total)
        placed = []
        for entry, data in zip(places, payload, strict=True):
            sha256 = _write_section(file, entry.offset, data)
            placed.append(Placed(section=entry.section, offset=entry.offset, sha256=sha256))
        raw = build_header(build, record, placed, size, total)
        _write_all(file, 0, memoryview(raw))
        return parse_header(raw)

    def sync(self, file: int) -> None:
        """The file's bytes are on the disk."""
        os.fsync(file)

    def rename(self, temporary: Path, final: Path) -> None:
        """The file appears under its name."""
        temporary.rename(final)

    def sync_folder(self) -> None:
        """The folder's names are on the disk."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    # -- reading -------------------------------------------------------------------------------

    def names(self) -> tuple[list[str], list[str], int]:
        """Names of entries, names of broken-off publications, and how many other files there are.

        Every name that ends like a link's is an entry, whatever it is; names of other kinds are not
        this tier's and are left alone.
        """
        entries, temporaries, ignored = [], [], 0
        for name in sorted(entry.name for entry in os.scandir(self.path)):
            if name in (LOCK, QUARANTINE):
                continue
            if TEMP_NAME.fullmatch(name):
                temporaries.append(name)
            elif name.endswith(".snap"):
                entries.append(name)
            else:
                ignored += 1
        return entries, temporaries, ignored

    def read_header(self, name: str) -> tuple[Header, int]:
        """A file's header, checked against the file's size, and its time of last use in ns.

        Raises:
            RecordFormatError: it is no link.
            OSError: it cannot be read.
        """
        file = os.open(self.path / name, READ)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise RecordFormatError("not_a_file", f"{name}: expected a file, found mode {facts.st_mode:o}")
            size = header_length(os.pread(file, PREFIX.size, 0), facts.st_size)
            return parse_header(os.pread(file, size, 0)), facts.st_mtime_ns
        finally:
            os.close(file)

    def load(self, name: str, header: Header, into: Sequence[memoryview] | None) -> None:
        """Read and verify a link in one pass.

        Args:
            name: the file.
            header: as it was when the file was indexed.
            into: one writable view per section; None to verify only. After an error they hold
                bytes that must not be used.

        Raises:
            LinkCorruptError: the first section that does not match.
            LinkMissingError: the file is gone.
        """
        with self._opened(name, header) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            _verify_header(file, name, header)
            verify_sections(file, name, header, into)
            if into is not None:
                os.utime(file)

    def check_header(self, name: str, header: Header) -> None:
        """A file's header still is what was indexed; raises as `load` does."""
        with self._opened(name, header) as file:
            _verify_header(file, name, header)

    @contextmanager
    def _opened(self, name: str, header: Header) -> Iterator[int]:
        """An indexed file, open for reading; a failure to read it is damage of that link."""
        try:
            file = os.open(self.path / name, READ)
        except FileNotFoundError:
            boundary = header.record.key.boundary
            raise LinkMissingError(f"link at {boundary} tokens ({name}): expected a file, found none") from None
        except OSError as error:
            raise corrupt(name, header, "file", 0, header.file_bytes, f"not readable: {error.strerror}") from error
        try:
            yield file
        except OSError as error:
            raise corrupt(name, header, "file", 0, header.file_bytes, f"not readable: {error.strerror}") from error
        finally:
            os.close(file)

    # -- removing ------------------------------------------------------------------------------

    def remove(self, name: str) -> None:
        """Delete a file of the tier; one that is gone already is fine."""
        (self.path / name).unlink(missing_ok=True)

    def quarantine(self, name: str, reason: str) -> str:
        """Move an entry out of the tier, whatever it is; its name in the quarantine."""
        stem = name if len(name) <= 40 else hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
        target, number = f"{stem}.{reason}", 0
        while os.path.lexists(self.path / QUARANTINE / target):
            number += 1
            target = f"{stem}.{reason}.{number}"
        (self.path / name).rename(self.path / QUARANTINE / target)
        return target

    def quarantined_bytes(self) -> tuple[int, int]:
        """Entries in the quarantine and their bytes."""
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(self.path / QUARANTINE)]
        return len(sizes), sum(sizes)


def _require_local(path: Path) -> None:
    """Locks and syncs of a file system elsewhere are not to be relied on, and a name that leads upwards is none.

    Raises:
        StoreFolderError: the path has ``..`` in it, reads like an address, or lies on a network.
    """
    text = os.fspath(path)
    if ".." in path.parts:
        raise StoreFolderError(f"store {path.name}: expected a plain path, found one with '..'")
    if text.startswith(("//", "\\\\")) or ADDRESS.match(text):
        raise StoreFolderError(f"store {path.name}: expected a local folder, found an address")
    kind = file_system_of(path)
    if kind in NETWORKS:
        raise StoreFolderError(f"store {path.name}: expected a local file system, found {kind}")


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of the file system that a path lies on, by the table of mounts; empty where there is no such table."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    found = ("", "")
    for line in lines:
        fields = line.split(" ")
        place = _unescaped(fields[1]) if len(fields) > 2 else ""
        inside = real == place or real.startswith(place.rstrip("/") + "/")
        if place and inside and len(place) >= len(found[0]):
            found = (place, fields[2])
    return found[1]


def _unescaped(place: str) -> str:
    """Spaces and tabs stand as octal numbers in the table of mounts."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place)


def _make_folder(path: Path) -> None:
    if path.is_symlink():
        raise StoreFolderError(f"store {path.name}: expected a folder, found a symbolic link")
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreFolderError(f"store {path.name}: expected a folder, found {error.strerror}") from error


def _write_section(file: int, offset: int, data: memoryview) -> bytes:
    """Write bytes at an offset; their SHA-256."""
    digest = hashlib.sha256()
    for at in range(0, len(data), BLOCK):
        block = data[at : at + BLOCK]
        digest.update(block)
        _write_all(file, offset + at, block)
    return digest.digest()


def _write_all(file: int, offset: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], offset + done)


def _verify_header(file: int, name: str, header: Header) -> None:
    """Size and header are those that were indexed."""
    size = os.fstat(file).st_size
    if size != header.file_bytes:
        raise corrupt(name, header, "file", 0, size, f"expected {header.file_bytes} bytes, found {size}")
    raw = os.pread(file, header.header_bytes, 0)
    if (
        len(raw) < PREFIX.size
        or raw[DIGEST_AT : DIGEST_AT + 32] != header.sha256
        or whole_digest(memoryview(raw)) != header.sha256
    ):
        what = f"expected whole digest {header.sha256.hex()}, found another one"
        raise corrupt(name, header, "header", 0, header.header_bytes, what)
