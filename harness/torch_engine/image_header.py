"""The header of a session image: to bytes and back.

Version 2 is what is written; version 1, without token history and owed forward, keeps being read.
`docs/formats/image.md` has the field tables. Reading allocates nothing whose size a field claims
before that claim has been compared with the buffer.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence

from harness.torch_engine.image_wire import (
    LOGITS_VALID,
    MAX_DIMENSIONS,
    MAX_META_BYTES,
    MAX_PARTS,
    MAX_TOKENS,
    OWED_FORWARD,
    SAMPLER_PRESENT,
    Identity,
    ImageDescription,
    ImageFormatError,
    ImageInfo,
    ImageStateError,
    ImageUnsupportedError,
    PartEntry,
    PartKind,
    PartSpec,
    ShortBufferError,
    aligned,
    contradiction,
)

MAGIC = b"SCIMAGE\x1a"
VERSION = 2
"""Version 2 added the token history: a sampler with penalties and an owed forward need it."""
READABLE = (1, 2)
PREFIX = struct.Struct("<8sIIQQQIIQII32s")
"""Magic, version, flags, total bytes, header bytes, position, parts, identity bytes, tokens of
history, metadata bytes, table bytes, whole digest."""
ENTRY = struct.Struct("<HBBBBHiIQQ32s")
"""Bytes of name, family and element type, kind, dimensions, 0, layer, 0, bytes, offset, digest."""
DIGEST_AT = PREFIX.size - 32
KNOWN_FLAGS = {1: LOGITS_VALID | SAMPLER_PRESENT, 2: LOGITS_VALID | OWED_FORWARD | SAMPLER_PRESENT}
MAX_IDENTITY_BYTES = 1 << 16


# -- writing -----------------------------------------------------------------------------------


def header_size(about: ImageDescription) -> int:
    """Bytes before the first part."""
    fixed = PREFIX.size + len(encode_identity(about.identity)) + len(about.meta) + 4 * len(about.history or ())
    return aligned(fixed + sum(_entry_size(part) for part in about.parts))


def place(about: ImageDescription) -> tuple[tuple[PartEntry, ...], int]:
    """Where every part lies, with empty digests, and the size of the image."""
    entries = []
    end = header_size(about)
    for part in about.parts:
        entries.append(PartEntry(spec=part, nbytes=part.nbytes, offset=aligned(end), sha256=bytes(32)))
        end = entries[-1].offset + part.nbytes
    return tuple(entries), end


def build_header(about: ImageDescription, entries: Sequence[PartEntry], total_bytes: int) -> bytes:
    """The header with its digest; its length is `header_size`."""
    identity = encode_identity(about.identity)
    table = b"".join(_encode_entry(entry) for entry in entries)
    tokens = about.history or ()
    size = header_size(about)
    prefix = PREFIX.pack(
        MAGIC, VERSION, about.flags, total_bytes, size, about.position, len(entries), len(identity),
        len(tokens), len(about.meta), len(table), bytes(32),
    )  # fmt: skip
    body = b"".join((prefix, identity, about.meta, table, struct.pack(f"<{len(tokens)}I", *tokens)))
    header = bytearray(body.ljust(size, b"\0"))
    header[DIGEST_AT : PREFIX.size] = whole_digest(memoryview(header))
    return bytes(header)


def _entry_size(part: PartSpec) -> int:
    texts = (part.name, part.family, part.element_type)
    return ENTRY.size + 8 * len(part.shape) + sum(len(text.encode()) for text in texts)


def _encode_entry(entry: PartEntry) -> bytes:
    spec = entry.spec
    name, family, element = (text.encode() for text in (spec.name, spec.family, spec.element_type))
    fixed = ENTRY.pack(
        len(name), len(family), len(element), spec.kind, len(spec.shape), 0, spec.layer, 0,
        entry.nbytes, entry.offset, entry.sha256,
    )  # fmt: skip
    return fixed + struct.pack(f"<{len(spec.shape)}Q", *spec.shape) + name + family + element


# -- reading -----------------------------------------------------------------------------------


def parse_header(view: memoryview) -> ImageInfo:
    """Read and check a header; the parts' bytes are not looked at.

    Raises:
        ShortBufferError: fewer bytes than the image has.
        ImageUnsupportedError: a version or element type that this build does not know.
        ImageFormatError: anything else that is not as the format says.
    """
    if len(view) < PREFIX.size:
        raise ShortBufferError(f"buffer: expected at least {PREFIX.size} bytes, found {len(view)}")
    magic, version, flags, total, size, position, count, *lengths, digest = PREFIX.unpack_from(view)
    _check(magic == MAGIC, "magic", MAGIC, magic)
    if version not in READABLE:
        raise ImageUnsupportedError(f"version: expected one of {READABLE}, found {version}")
    _check(not flags & ~KNOWN_FLAGS[version], "flags", f"bits of {KNOWN_FLAGS[version]:#b}", f"{flags:#b}")
    if len(view) < total:
        raise ShortBufferError(f"buffer: expected {total} bytes, found {len(view)}")
    _check(len(view) == total, "total bytes", len(view), total)
    identity_bytes, tokens, meta_bytes, table_bytes = lengths
    _check_counts(version, count, identity_bytes, tokens, meta_bytes, table_bytes)
    fields = PREFIX.size + identity_bytes + meta_bytes + table_bytes + 4 * tokens
    _check(size == aligned(fields) and size <= total, "header bytes", f"{aligned(fields)} of {total}", size)
    header = view[:size]
    _check(whole_digest(header) == digest, "whole digest", digest.hex(), "another one")
    _check(not any(header[fields:]), "header padding", "zeros", "other bytes")
    at = PREFIX.size + identity_bytes
    meta = bytes(header[at : at + meta_bytes])
    table = header[at + meta_bytes : at + meta_bytes + table_bytes]
    entries = _parse_table(table, count)
    _check_places(entries, size, total)
    history = struct.unpack_from(f"<{tokens}I", header, fields - 4 * tokens) if version > 1 else None
    about = ImageDescription(
        identity=decode_identity(bytes(header[PREFIX.size : at])),
        position=position,
        history=history,
        meta=meta,
        logits_valid=bool(flags & LOGITS_VALID),
        owed_forward=bool(flags & OWED_FORWARD),
        sampler_present=bool(flags & SAMPLER_PRESENT),
        parts=tuple(entry.spec for entry in entries),
    )
    text = contradiction(about)
    if text:
        raise ImageFormatError(text)
    return ImageInfo(
        version=version, total_bytes=total, header_bytes=size, sha256=digest, description=about, parts=entries
    )


def _check(holds: bool, where: str, expected: object, found: object) -> None:  # noqa: FBT001
    if not holds:
        raise ImageFormatError(f"{where}: expected {expected}, found {found}")


def _check_counts(version: int, count: int, identity: int, tokens: int, meta: int, table: int) -> None:
    """Every count is within the format's limits and within the bytes that would have to hold it."""
    _check(1 <= count <= MAX_PARTS, "parts", f"1..{MAX_PARTS}", count)
    _check(identity <= MAX_IDENTITY_BYTES, "identity bytes", f"at most {MAX_IDENTITY_BYTES}", identity)
    _check(meta <= MAX_META_BYTES, "metadata bytes", f"at most {MAX_META_BYTES}", meta)
    most = 0 if version == 1 else MAX_TOKENS
    _check(tokens <= most, "tokens of history", f"at most {most}", tokens)
    _check(count * (ENTRY.size + 3) <= table, "table bytes", f"at least {count * (ENTRY.size + 3)}", table)


def _parse_table(table: memoryview, count: int) -> tuple[PartEntry, ...]:
    """The entries, which must fill the table exactly."""
    entries = []
    at = 0
    for index in range(count):
        entry, at = _parse_entry(table, at, f"parts[{index}]")
        entries.append(entry)
    _check(at == len(table), "table bytes", len(table), at)
    return tuple(entries)


def _parse_entry(table: memoryview, at: int, where: str) -> tuple[PartEntry, int]:
    _check(at + ENTRY.size <= len(table), where, f"{ENTRY.size} bytes of table", len(table) - at)
    name, family, element, kind, dimensions, zero, layer, zero2, nbytes, offset, digest = ENTRY.unpack_from(table, at)
    at += ENTRY.size
    end = at + 8 * dimensions + name + family + element
    _check(zero == 0 and zero2 == 0, f"{where} reserved", 0, (zero, zero2))
    _check(kind in (PartKind.FIXED, PartKind.ROWS), f"{where} kind", "0 or 1", kind)
    _check(kind <= dimensions <= MAX_DIMENSIONS, f"{where} dimensions", f"{kind}..{MAX_DIMENSIONS}", dimensions)
    _check(min(name, family, element) > 0, f"{where} texts", "none empty", (name, family, element))
    _check(layer >= -1, f"{where} layer", "-1 or more", layer)
    _check(end <= len(table), where, f"{end - at} bytes of table", len(table) - at)
    shape = struct.unpack_from(f"<{dimensions}Q", table, at)
    texts = _texts(bytes(table[at + 8 * dimensions : end]), (name, family, element), where)
    spec = PartSpec(
        name=texts[0], family=texts[1], element_type=texts[2], layer=layer, kind=PartKind(kind), shape=shape
    )
    _check(_fits(spec, nbytes), f"{where} {spec.name} bytes", f"those of {shape} {spec.element_type}", nbytes)
    return PartEntry(spec=spec, nbytes=nbytes, offset=offset, sha256=digest), end


def _texts(raw: bytes, sizes: Sequence[int], where: str) -> list[str]:
    texts = []
    at = 0
    for size in sizes:
        try:
            texts.append(raw[at : at + size].decode())
        except UnicodeDecodeError:
            raise ImageFormatError(f"{where}: expected UTF-8, found {raw[at : at + size]!r}") from None
        at += size
    return texts


def _fits(spec: PartSpec, nbytes: int) -> bool:
    try:
        return spec.nbytes == nbytes
    except ImageStateError:
        return False


def _check_places(entries: Sequence[PartEntry], header_bytes: int, total_bytes: int) -> None:
    """Parts follow one another without overlap, gap or anything behind them."""
    end = header_bytes
    for entry in entries:
        _check(entry.offset == aligned(end), f"{entry.spec.name} offset", aligned(end), entry.offset)
        end = entry.offset + entry.nbytes
    _check(end == total_bytes, "total bytes", end, total_bytes)


# -- identity ----------------------------------------------------------------------------------


def encode_identity(identity: Identity) -> bytes:
    """Canonical bytes of an identity: JSON, sorted keys, no spaces, ASCII; equal iff all fields are.

    Raises:
        ImageStateError: a value that is neither text nor integer, or too many bytes.
    """
    for name, value in identity.items():
        if not isinstance(name, str) or not isinstance(value, str | int):
            raise ImageStateError(f"identity.{name}: expected text or an integer, found {type(value).__name__}")
    raw = json.dumps(dict(identity), sort_keys=True, separators=(",", ":")).encode()
    if len(raw) > MAX_IDENTITY_BYTES:
        raise ImageStateError(f"identity: expected at most {MAX_IDENTITY_BYTES} bytes, found {len(raw)}")
    return raw


def decode_identity(raw: bytes) -> dict[str, str | int | bool]:
    """Read what `encode_identity` wrote.

    Raises:
        ImageFormatError: other bytes than the canonical ones.
    """
    try:
        value = json.loads(raw.decode("ascii"))
        canonical = isinstance(value, dict) and encode_identity(value) == raw
    except (ValueError, RecursionError, ImageStateError):
        canonical = False
    if not canonical:
        raise ImageFormatError("identity: expected the canonical bytes of a flat mapping")
    return dict(value)


# -- digests -----------------------------------------------------------------------------------


def whole_digest(header: memoryview) -> bytes:
    """SHA-256 over a header with its own digest field read as zero."""
    digest = hashlib.sha256(header[:DIGEST_AT])
    digest.update(bytes(32))
    digest.update(header[PREFIX.size :])
    return digest.digest()
