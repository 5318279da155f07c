"""Pages in a folder: each entry with the identity of the codec that made it, published whole or not at all.

An entry is one file: a line of JSON (versioned), then the page's bytes, then the tail's. It is written under another
name, synced and renamed. The line says who coded the page; an identity that is unknown, stripped or newer is refused by
name and its file put aside, and a lossy entry is no answer to a lookup that asks for an exact one. An open reader keeps
its file, whatever is evicted meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final

from harness.codec.errors import CodecError, CodecIdentityError
from harness.codec.identity import Class, CodecIdentity, read_identity, require_payload
from harness.torch_engine.errors import BudgetError, MissingError, SnapshotError

VERSION: Final = 2
"""Of the line. Version 1 had no identity and held exact pages only; it is still read."""
SUFFIX: Final = ".page"
UNFINISHED: Final = ".new"
ASIDE: Final = ".aside"
_LONGEST_LINE: Final = 4096
_FIELDS: Final = {
    1: frozenset({"version", "key", "page", "tail", "sha256"}),
    2: frozenset({"version", "key", "page", "tail", "sha256", "codec"}),
}
_KEY: Final = re.compile(r"[a-z0-9_.-]{1,64}")


class PageCorruptError(SnapshotError):
    """An entry whose bytes are not those of its digest; nothing of it was served."""

    code: ClassVar[str] = "corrupt"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What was found."""

    identity: CodecIdentity
    page: bytes
    tail: bytes


class PageShelf:
    """A folder of entries under a byte budget; every step is a method to override.

    Args:
        folder: made if it is not there; what a crash left unfinished is removed.
        budget: bytes that all entries may take; the least recently used go first.
    """

    def __init__(self, folder: Path, budget: int) -> None:
        self.folder, self.budget = folder, budget
        self.asks: dict[str, Callable[[], object]] = {}
        """What is asked, once, in the middle of the next ``publish`` or ``find``."""
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"*{UNFINISHED}"):
            left.unlink()

    def publish(self, key: str, identity: CodecIdentity, page: bytes, tail: bytes) -> None:
        """Store an entry; one of the same key and class is replaced.

        Raises:
            MissingError: the key is none.
            BudgetError: it is larger than the budget; nothing was written.
        """
        line = self.line(key, identity, page, tail)
        size = len(line) + len(page) + len(tail)
        if size > self.budget:
            raise BudgetError(f"shelf: expected at most {self.budget} bytes, found {size}")
        place = self.place(key, identity.kind)
        place.unlink(missing_ok=True)
        self.make_room(size)
        unfinished = place.with_suffix(UNFINISHED)
        with unfinished.open("wb") as file:
            file.write(line + page)
            file.flush()
            self.within("publish")
            file.write(tail)
            file.flush()
            self.used(file)
            os.fsync(file.fileno())
        self.finish(unfinished, place)

    def used(self, file: IO[bytes]) -> None:
        """Note that an entry was used now, finer than the kernel's clock, to which a few milliseconds are one time."""
        now = time.time_ns()
        os.utime(file.fileno(), ns=(now, now))

    def within(self, what: str) -> None:
        """Ask what is to be asked in the middle of a call."""
        self.asks.pop(what, lambda: None)()

    def finish(self, unfinished: Path, place: Path) -> None:
        """Make a written entry visible."""
        unfinished.replace(place)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def line(self, key: str, identity: CodecIdentity, page: bytes, tail: bytes) -> bytes:
        """The head of an entry."""
        about = {
            "version": VERSION, "key": key, "page": len(page), "tail": len(tail),
            "sha256": hashlib.sha256(page + tail).hexdigest(), "codec": identity.record(),
        }  # fmt: skip
        return json.dumps(about, sort_keys=True).encode() + b"\n"

    def place(self, key: str, kind: Class) -> Path:
        """Where an entry of a key and class lies.

        Raises:
            MissingError: the key is none.
        """
        if not _KEY.fullmatch(key):
            raise MissingError(f"shelf key: expected 1 to 64 of a-z 0-9 _ . -, found {key!r}")
        return self.folder / f"{key}.{kind}{SUFFIX}"

    # -- reading -------------------------------------------------------------------------------

    def find(self, key: str, wanted: Class) -> Entry | None:
        """The entry that serves a lookup: an exact one always, a lossy one only where that was asked for.

        Returns:
            None if there is none: a clean miss.

        Raises:
            CodecIdentityError: its identity is unknown, stripped, newer or contradicts its bytes; it was put aside.
            PageCorruptError: its bytes are not those of its digest; it was put aside.
        """
        for kind in self.serving(wanted):
            with contextlib.suppress(FileNotFoundError), self.place(key, kind).open("rb") as file:
                self.used(file)
                return self.read(file, key, wanted)
        return None

    def serving(self, wanted: Class) -> tuple[Class, ...]:
        """Classes that answer a lookup, the better one first."""
        return ("exact",) if wanted == "exact" else ("exact", "lossy")

    def read(self, file: IO[bytes], key: str, wanted: Class) -> Entry:
        """An open entry, checked whole."""
        try:
            return self.checked(file, key, wanted)
        except (CodecError, PageCorruptError):
            place = Path(file.name)
            with contextlib.suppress(OSError):
                place.replace(place.with_suffix(ASIDE))
            raise

    def checked(self, file: IO[bytes], key: str, wanted: Class) -> Entry:
        """The same; what is wrong with it stays where it is."""
        about, identity = self.head(file.readline(_LONGEST_LINE), key, wanted)
        sizes = [about[name] for name in ("page", "tail")]
        if not all(type(size) is int and 0 <= size <= self.budget for size in sizes):
            raise PageCorruptError(f"entry {key}: expected sizes up to {self.budget}, found {sizes}")
        page = file.read(sizes[0])
        self.within("find")
        tail = file.read(sizes[1])
        if hashlib.sha256(page + tail).hexdigest() != about["sha256"] or file.read(1):
            raise PageCorruptError(f"entry {key}: expected the bytes of its digest, found others")
        require_payload(identity, page)
        return Entry(identity=identity, page=page, tail=tail)

    def head(self, line: bytes, key: str, wanted: Class) -> tuple[Mapping[str, Any], CodecIdentity]:
        """The line of an entry, and who coded it."""
        try:
            about = json.loads(line)
            version = about["version"]
        except (ValueError, TypeError, KeyError) as error:
            raise PageCorruptError(f"entry {key}: expected its head, found {type(error).__name__}") from error
        if version not in _FIELDS or set(about) != _FIELDS[version] or about["key"] != key:
            raise CodecIdentityError(f"entry {key}: expected a head of a version {tuple(_FIELDS)}, found {version}")
        if version == 1:
            own = CodecIdentity(name="raw", version=1, kind="exact", decoded_length=about["page"], calibration=_NOTHING)
            return about, own
        return about, self.identity(about["codec"], wanted)

    def identity(self, record: Mapping[str, object], wanted: Class) -> CodecIdentity:
        """A stored identity, checked against what was asked for."""
        return read_identity(record, wanted=wanted)

    # -- room ----------------------------------------------------------------------------------

    def entries(self) -> Iterator[tuple[int, int, Path]]:
        """When last used, bytes and file of each entry."""
        for place in self.folder.glob(f"*{SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                about = place.stat()
                yield about.st_mtime_ns, about.st_size, place

    def make_room(self, size: int) -> int:
        """Evict least recently used entries until ``size`` more bytes fit; how many went."""
        held, gone = sorted(self.entries(), key=lambda one: (one[0], one[2].name)), 0
        total = sum(bytes_ for _, bytes_, _ in held)
        for _, bytes_, place in held:
            if total + size <= self.budget:
                break
            place.unlink(missing_ok=True)
            total, gone = total - bytes_, gone + 1
        return gone


_NOTHING: Final = hashlib.sha256(b"").hexdigest()
