"""The nouns and the errors of the disk tier, and what must hold of a link.

The tree, with each branch's code:

    StoreError                        root of what the disk tier refuses
    ├── StoreFolderError   folder     the folder cannot be used
    ├── StoreLockedError   locked     another store has the folder open
    ├── StoreClosedError   state      a call on a closed store
    ├── RecordError        record     a snapshot that must not be stored as it is described
    ├── ShortKeyError      key        a key that does not cover exactly the snapshot's position
    ├── RecordFormatError  format     bytes that are no link, or not the one their name says
    ├── LinkMissingError   missing    a link of a chain is not there
    ├── LinkCorruptError   corrupt    a link's bytes do not match its digests; located
    └── ChainError         chain      two links that do not continue one another
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from harness.torch_engine.errors import MissingError, SessionStateError, SnapshotError
from harness.torch_engine.keys import CacheKey

MAX_SECTIONS = 16_384
MAX_NAME = 1024
U64 = 1 << 64


class StoreError(SnapshotError):
    """Root of what the disk tier refuses."""

    code: ClassVar[str] = "store"


class StoreFolderError(StoreError):
    """The folder cannot be used."""

    code: ClassVar[str] = "folder"


class StoreLockedError(StoreError):
    """Another store, of this or another process, has the folder open."""

    code: ClassVar[str] = "locked"


class StoreClosedError(StoreError, SessionStateError):
    """A call on a store that has been closed."""

    code: ClassVar[str] = "state"


class RecordError(StoreError):
    """A snapshot that must not be stored as it is described; nothing was written."""

    code: ClassVar[str] = "record"


class ShortKeyError(RecordError):
    """A key that does not cover exactly the tokens that the snapshot's state has seen."""

    code: ClassVar[str] = "key"


class RecordFormatError(StoreError):
    """Bytes that are no link, or not the link that their file name says."""

    code: ClassVar[str] = "format"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """One word for tables and file names, like ``length``."""


class LinkMissingError(StoreError, MissingError):
    """A link of a chain is not there."""

    code: ClassVar[str] = "missing"


class ChainError(StoreError):
    """Two links that do not continue one another."""

    code: ClassVar[str] = "chain"


class LinkCorruptError(StoreError):
    """A link's bytes do not match its digests; nothing of it was served."""

    code: ClassVar[str] = "corrupt"

    def __init__(self, *, name: str, boundary: int, section: str, start: int, stop: int, what: str) -> None:
        super().__init__(f"link at {boundary} tokens ({name}), {section}, bytes {start}..{stop}: {what}")
        self.name = name
        """File name of the link that is damaged."""
        self.boundary = boundary
        """Tokens of that link."""
        self.section = section
        """``header``, ``padding`` or the section's name."""
        self.start = start
        """First byte of the range in the file that the failed check covers."""
        self.stop = stop
        """Byte after the last one of that range."""
        self.what = what
        """What was expected and found."""

    def again(self) -> LinkCorruptError:
        """The same refusal once more, as for a descendant of the damaged link."""
        return LinkCorruptError(
            name=self.name,
            boundary=self.boundary,
            section=self.section,
            start=self.start,
            stop=self.stop,
            what=self.what,
        )


class SectionKind(IntEnum):
    """How a section continues its parent's."""

    FIXED = 0
    """Whole in every link; the leaf's counts."""
    ROWS = 1
    """Rows from the parent's end on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One piece of a link's payload, without its bytes."""

    name: str
    """Unique in its link, like ``layer3.k``."""
    kind: SectionKind
    """Whether it holds a fixed part or rows of a stream."""
    row_bytes: int
    """Bytes of one row; of a fixed part, all of it."""
    start: int = 0
    """First row; 0 for a fixed part."""
    stop: int = 1
    """Row after the last one; 1 for a fixed part."""

    @property
    def nbytes(self) -> int:
        """Bytes of the section."""
        return (self.stop - self.start) * self.row_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What one link says of itself."""

    key: CacheKey
    """Its name: domain, boundary, fingerprint."""
    parent: CacheKey | None
    """The link that it continues; in the same domain and shallower. None for a root."""
    position: int
    """Tokens that the state has really seen; must equal the key's boundary."""
    meta: bytes = field(repr=False)
    """Part 0 at the boundary, opaque here."""
    sections: tuple[Section, ...]
    """Fixed parts, then row streams, in the layout's order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """Where a section lies in its file and what it hashes to."""

    section: Section
    """What it is."""
    offset: int
    """Its first byte in the file."""
    sha256: bytes = field(repr=False)
    """SHA-256 over exactly its bytes."""

    @property
    def stop(self) -> int:
        """The byte after its last one."""
        return self.offset + self.section.nbytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A file's header, checked."""

    build: bytes
    """Digest of the build that wrote the file."""
    record: Record
    """What the link says of itself."""
    placed: tuple[Placed, ...]
    """The sections in the order of their bytes."""
    header_bytes: int
    """Bytes before the first section."""
    file_bytes: int
    """Size of the file."""
    sha256: bytes = field(repr=False)
    """The whole digest: SHA-256 over the header with this field zero."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A link that was read and verified."""

    record: Record
    """What it says of itself."""
    payload: tuple[memoryview, ...] = field(repr=False)
    """One view per section, in order: the caller's buffers, or memory of its own."""


# -- checks ------------------------------------------------------------------------------------


def check_record(record: Record) -> None:
    """What must hold of a link, whether it is to be written or was read.

    Raises:
        ShortKeyError: the key's boundary is not the snapshot's position.
        RecordError: anything else, with its place.
    """
    key, parent = record.key, record.parent
    if key.boundary != record.position:
        raise ShortKeyError(
            f"key: expected a boundary at the snapshot's {record.position} tokens, found {key.boundary}"
        )
    if not 0 < key.boundary < U64 or not 0 <= key.fingerprint < U64 or not key.domain:
        raise RecordError(f"key: expected a domain, tokens and a fingerprint of 64 bits, found {key.boundary} tokens")
    if parent is not None and (parent.domain != key.domain or not 0 < parent.boundary < key.boundary):
        raise RecordError(f"parent: expected a shallower one in the same domain, found {parent.boundary} tokens")
    if not 1 <= len(record.sections) <= MAX_SECTIONS:
        raise RecordError(f"sections: expected 1..{MAX_SECTIONS}, found {len(record.sections)}")
    names: set[str] = set()
    for section in record.sections:
        _check_section(section, is_root=parent is None)
        if section.name in names:
            raise RecordError(f"{section.name}: expected unique section names, found it twice")
        names.add(section.name)


def _check_section(section: Section, *, is_root: bool) -> None:
    name = section.name
    if not name.isprintable() or not 0 < len(name.encode()) <= MAX_NAME or set(name) & set("/\\"):
        raise RecordError(f"section name: expected printable text without a slash, found {name!r}")
    if not 0 <= section.start <= section.stop < U64 or not 0 <= section.row_bytes < U64 or section.nbytes >= 1 << 62:
        raise RecordError(f"{name}: expected rows in order, found {section.start}..{section.stop}")
    if section.kind is SectionKind.FIXED and (section.start, section.stop) != (0, 1):
        raise RecordError(f"{name}: expected a fixed part as row 0..1, found {section.start}..{section.stop}")
    if section.kind is SectionKind.ROWS and is_root and section.start:
        raise RecordError(f"{name}: expected rows from 0 on without a parent, found {section.start}")


def check_continues(child: Record, parent: Record) -> None:
    """A child's sections start where its parent's end.

    Raises:
        ChainError: the first section that does not.
    """
    where = f"link at {child.key.boundary} tokens on {parent.key.boundary}"
    shapes = [[(s.name, s.kind, s.row_bytes) for s in record.sections] for record in (parent, child)]
    if shapes[0] != shapes[1]:
        raise ChainError(f"{where}: expected sections {shapes[0]}, found {shapes[1]}")
    for above, below in zip(parent.sections, child.sections, strict=True):
        if below.kind is SectionKind.ROWS and below.start != above.stop:
            raise ChainError(f"{where}, {below.name}: expected rows from {above.stop} on, found {below.start}")
