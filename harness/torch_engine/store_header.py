"""The header of a link's file: to bytes and back.

It holds the digest of every section and its own, so one pass over a file checks all of it.
`docs/formats/store.md` has the field tables. Reading allocates nothing whose size a field claims
before that claim has been compared with the size of the file.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence

from harness.torch_engine.keys import CacheKey
from harness.torch_engine.store_record import (
    MAX_SECTIONS,
    Header,
    Placed,
    Record,
    RecordError,
    RecordFormatError,
    Section,
    SectionKind,
    check_record,
)

MAGIC = b"SCDELTA\x1a"
VERSION = 1
PREFIX = struct.Struct("<8sIIQQ32s32sIIIIQQQQQ")
"""Magic, version, flags, file bytes, header bytes, build digest, whole digest, domain bytes,
sections, metadata bytes, table bytes, boundary, fingerprint, position, parent boundary, parent
fingerprint."""
DIGEST_AT = 64
ENTRY = struct.Struct("<HBBIQQQQ32s")
"""Name bytes, kind, 0, 0, row bytes, start, stop, offset, digest."""
HAS_PARENT = 1
PAGE = 4096
"""Alignment of the header's end, in bytes."""
ALIGN = 64
"""Alignment of every section, in bytes; bytes in between are zero."""
MAX_HEADER = 4 << 20
"""Most bytes of a header."""
TEMP_NAME = re.compile(r"[0-9a-f]{32}\.[0-9]+\.tmp")


def file_name(build: bytes, key: CacheKey) -> str:
    """The only name that a link of this build and key may have."""
    tail = key.boundary.to_bytes(8, "little") + key.fingerprint.to_bytes(8, "little")
    head = build + len(key.domain).to_bytes(8, "little") + key.domain
    return f"{hashlib.sha256(head + tail).hexdigest()[:32]}.snap"


def aligned(offset: int, align: int) -> int:
    """The first multiple of ``align`` from ``offset`` on."""
    return -(-offset // align) * align


# -- writing -----------------------------------------------------------------------------------


def place(record: Record) -> tuple[tuple[Placed, ...], int, int]:
    """Where every section lies, with empty digests; bytes of the header and of the file.

    Raises:
        RecordError: the header would be larger than a header may be.
    """
    table = sum(ENTRY.size + len(section.name.encode()) for section in record.sections)
    header = aligned(PREFIX.size + len(record.key.domain) + len(record.meta) + table, PAGE)
    if header > MAX_HEADER:
        raise RecordError(f"header: expected at most {MAX_HEADER} bytes, found {header}")
    placed = []
    end = header
    for section in record.sections:
        placed.append(Placed(section=section, offset=aligned(end, ALIGN), sha256=bytes(32)))
        end = placed[-1].stop
    return tuple(placed), header, end


def build_header(build: bytes, record: Record, placed: Sequence[Placed], size: int, file_bytes: int) -> bytes:
    """The header with its digest, ``size`` bytes."""
    table = b"".join(_encode_entry(entry) for entry in placed)
    key, parent = record.key, record.parent
    prefix = PREFIX.pack(
        MAGIC, VERSION, HAS_PARENT if parent else 0, file_bytes, size, build, bytes(32),
        len(key.domain), len(placed), len(record.meta), len(table),
        key.boundary, key.fingerprint, record.position,
        parent.boundary if parent else 0, parent.fingerprint if parent else 0,
    )  # fmt: skip
    header = bytearray((prefix + key.domain + record.meta + table).ljust(size, b"\0"))
    header[DIGEST_AT : DIGEST_AT + 32] = whole_digest(memoryview(header))
    return bytes(header)


def _encode_entry(entry: Placed) -> bytes:
    section = entry.section
    name = section.name.encode()
    fixed = ENTRY.pack(
        len(name), section.kind, 0, 0, section.row_bytes, section.start, section.stop, entry.offset, entry.sha256
    )
    return fixed + name


def whole_digest(header: memoryview) -> bytes:
    """SHA-256 over a header with its own digest field read as zero."""
    digest = hashlib.sha256(header[:DIGEST_AT])
    digest.update(bytes(32))
    digest.update(header[DIGEST_AT + 32 :])
    return digest.digest()


# -- reading -----------------------------------------------------------------------------------


def header_length(prefix: bytes, file_bytes: int) -> int:
    """Bytes of the header of a file, from its first `PREFIX` bytes; checked against the file's size.

    Raises:
        RecordFormatError: no link, another version, or sizes that cannot be.
    """
    if len(prefix) < PREFIX.size:
        raise RecordFormatError("length", f"file: expected at least {PREFIX.size} bytes, found {len(prefix)}")
    magic, version, _, total, size, *_ = PREFIX.unpack_from(prefix)
    if magic != MAGIC:
        raise RecordFormatError("magic", f"magic: expected {MAGIC!r}, found {magic!r}")
    if version != VERSION:
        raise RecordFormatError("version", f"version: expected {VERSION}, found {version}")
    if total != file_bytes:
        raise RecordFormatError("length", f"file: expected {total} bytes, found {file_bytes}")
    if size % PAGE or not PREFIX.size <= size <= min(MAX_HEADER, file_bytes):
        raise RecordFormatError("header", f"header bytes: expected pages up to {MAX_HEADER}, found {size}")
    return int(size)


def parse_header(header: bytes) -> Header:
    """Read and check a header of the length that `header_length` gave.

    Raises:
        RecordFormatError: anything that is not as the format says; ``reason`` is one word.
    """
    view = memoryview(header)
    fields = PREFIX.unpack_from(view)
    _, _, flags, total, size, build, digest, domain_bytes, count, meta_bytes, table_bytes, *words = fields
    if whole_digest(view) != digest:
        raise RecordFormatError("digest", f"whole digest: expected {digest.hex()}, found another one")
    end = PREFIX.size + domain_bytes + meta_bytes + table_bytes
    _check(aligned(end, PAGE) == size and not any(view[end:]), "header bytes", end, size)
    _check(flags in (0, HAS_PARENT), "flags", "0 or 1", flags)
    _check(1 <= count <= MAX_SECTIONS and count * ENTRY.size <= table_bytes, "sections", table_bytes, count)
    at = PREFIX.size + domain_bytes
    domain, meta = bytes(view[PREFIX.size : at]), bytes(view[at : at + meta_bytes])
    placed = _parse_table(view[at + meta_bytes : end], count)
    _check_places(placed, size, total)
    boundary, fingerprint, position, parent_boundary, parent_fingerprint = words
    parent = CacheKey(domain=domain, boundary=parent_boundary, fingerprint=parent_fingerprint) if flags else None
    _check(flags == HAS_PARENT or not (parent_boundary or parent_fingerprint), "parent", "zeros", parent_boundary)
    record = Record(
        key=CacheKey(domain=domain, boundary=boundary, fingerprint=fingerprint),
        parent=parent,
        position=position,
        meta=meta,
        sections=tuple(entry.section for entry in placed),
    )
    try:
        check_record(record)
    except RecordError as error:
        raise RecordFormatError(error.code, str(error)) from error
    return Header(build=build, record=record, placed=placed, header_bytes=size, file_bytes=total, sha256=digest)


def _check(holds: bool, where: str, expected: object, found: object) -> None:  # noqa: FBT001
    if not holds:
        raise RecordFormatError("header", f"{where}: expected {expected}, found {found}")


def _parse_table(table: memoryview, count: int) -> tuple[Placed, ...]:
    """The entries, which must fill the table exactly."""
    placed = []
    at = 0
    for index in range(count):
        where = f"sections[{index}]"
        _check(at + ENTRY.size <= len(table), where, f"{ENTRY.size} bytes", len(table) - at)
        size, kind, zero, zero2, row_bytes, start, stop, offset, digest = ENTRY.unpack_from(table, at)
        at += ENTRY.size
        _check(kind in (SectionKind.FIXED, SectionKind.ROWS) and not zero and not zero2, where, "kind 0 or 1", kind)
        _check(at + size <= len(table), where, f"a name of {size} bytes", len(table) - at)
        section = Section(
            name=_text(bytes(table[at : at + size]), where),
            kind=SectionKind(kind),
            row_bytes=row_bytes,
            start=start,
            stop=stop,
        )
        placed.append(Placed(section=section, offset=offset, sha256=digest))
        at += size
    _check(at == len(table), "table bytes", len(table), at)
    return tuple(placed)


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise RecordFormatError("header", f"{where}: expected UTF-8, found {raw!r}") from None


def _check_places(placed: Sequence[Placed], header_bytes: int, file_bytes: int) -> None:
    """Sections follow one another without overlap, gap or anything behind them."""
    end = header_bytes
    for entry in placed:
        _check(entry.offset == aligned(end, ALIGN), f"{entry.section.name} offset", aligned(end, ALIGN), entry.offset)
        _check(entry.section.stop >= entry.section.start, entry.section.name, "rows in order", entry.section.start)
        end = entry.stop
    _check(end == file_bytes, "file bytes", end, file_bytes)
