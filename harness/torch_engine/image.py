"""The session image: everything a session needs to continue elsewhere, as one checked byte string.

A session describes itself (`ImageDescription`), asks for the size, and exports into a buffer of its
caller. Who imports calls `validate`, which checks everything and writes nothing, and then copies the
views of `parts_of`. So a refused image leaves every session as it was. Every part carries its
SHA-256, and the whole digest covers the header that holds them: one pass over the bytes, none twice.

This module knows buffers, not tensors and not sessions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.torch_engine.image_header import PREFIX, build_header, parse_header, place
from harness.torch_engine.image_wire import (
    Identity,
    ImageCapacityError,
    ImageDescription,
    ImageError,
    ImageFormatError,
    ImageIdentityError,
    ImageInfo,
    ImageStateError,
    ImageUnsupportedError,
    KvModeError,
    PartEntry,
    PartKind,
    PartSpec,
    ShortBufferError,
    check_description,
    flat,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Expectation",
    "ExpectedPart",
    "ImageCapacityError",
    "ImageDescription",
    "ImageError",
    "ImageFormatError",
    "ImageIdentityError",
    "ImageInfo",
    "ImageStateError",
    "ImageUnsupportedError",
    "KvModeError",
    "PartEntry",
    "PartKind",
    "PartSpec",
    "ShortBufferError",
    "export_into",
    "image_size",
    "inspect",
    "parts_of",
    "validate",
]

BLOCK = 1 << 19
"""Bytes copied and hashed in turn, so that the second reads what the first has just read."""
ELEMENT_FIELDS = frozenset({"k_type", "v_type", "recurrent_type", "conv_type", "index_type"})
"""Identity fields that name element types; a difference in them alone is `KvModeError`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedPart:
    """What a destination has room for."""

    name: str
    """The part's name."""
    family: str
    """Its state family."""
    layer: int
    """Its layer, or -1."""
    element_type: str
    """Its element type."""
    kind: PartKind
    """Whether it grows in rows."""
    shape: tuple[int, ...]
    """A fixed part's dimensions, or a row stream's ``(capacity, *row)``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """What an image must be to be imported into one session."""

    identity: Identity
    """The session's identity."""
    identity_free: frozenset[str] = frozenset({"namespace"})
    """Identity fields in which image and session may differ."""
    capacity: int
    """Tokens that the session can hold."""
    parts: tuple[ExpectedPart, ...]
    """The session's parts, in its order."""
    rows_at: Callable[[int], Mapping[str, int]] | None = None
    """Rows that each row stream must have at a position; None where the caller checks them itself."""


def image_size(description: ImageDescription) -> int:
    """Bytes of the image of a session.

    Raises:
        ImageUnsupportedError: there is no state to export, or an unknown element type.
        ImageStateError: the description contradicts itself.
    """
    check_description(description)
    return place(description)[1]


def export_into(buffer: Buffer, description: ImageDescription, parts: Sequence[Buffer]) -> ImageInfo:
    """Write an image into a caller's buffer, one pass over the bytes.

    The header is written last, so a buffer whose export broke off is not an image.

    Args:
        buffer: writable; bytes after the image are left alone.
        description: what the session says of itself.
        parts: the parts' valid bytes in the order of ``description.parts``, on the host.

    Returns:
        The header of what was written; the image is ``buffer[: info.total_bytes]``.

    Raises:
        ShortBufferError: the buffer is smaller than `image_size`; nothing was written.
        ImageUnsupportedError: as for `image_size`; nothing was written.
        ImageStateError: as for `image_size`, or the parts are not those described; nothing was written.
    """
    check_description(description)
    places, total = place(description)
    sources = [flat(part) for part in parts]
    found = [len(source) for source in sources]
    if found != [entry.nbytes for entry in places]:
        raise ImageStateError(f"parts: expected {[entry.nbytes for entry in places]} bytes, found {found}")
    view = flat(buffer)
    if len(view) < total:
        raise ShortBufferError(f"buffer: expected {total} bytes, found {len(view)}")
    if view.readonly:
        raise ImageStateError("buffer: expected a writable one, found a read-only one")
    view[: PREFIX.size] = bytes(PREFIX.size)
    entries = _copy_parts(view, places, sources)
    header = build_header(description, entries, total)
    view[: len(header)] = header
    return parse_header(view[:total])


def _copy_parts(view: memoryview, places: Sequence[PartEntry], sources: Sequence[memoryview]) -> tuple[PartEntry, ...]:
    """Copy every part to its place; the entries with their digests."""
    entries = []
    end = places[0].offset
    for entry, source in zip(places, sources, strict=True):
        view[end : entry.offset] = bytes(entry.offset - end)
        end = entry.offset + entry.nbytes
        sha256 = copy_and_hash(view[entry.offset : end], source)
        entries.append(PartEntry(spec=entry.spec, nbytes=entry.nbytes, offset=entry.offset, sha256=sha256))
    return tuple(entries)


def copy_and_hash(destination: memoryview, source: memoryview) -> bytes:
    """Copy bytes and return the SHA-256 of the source, so that a bad copy does not pass."""
    digest = hashlib.sha256()
    for at in range(0, len(source), BLOCK):
        block = source[at : at + BLOCK]
        destination[at : at + BLOCK] = block
        digest.update(block)
    return digest.digest()


def inspect(buffer: Buffer) -> ImageInfo:
    """Read and check an image's header, without a session and without hashing the parts.

    Raises:
        ShortBufferError: fewer bytes than the image has.
        ImageUnsupportedError: a version or element type that this build does not know.
        ImageFormatError: anything else that is not as the format says.
    """
    return parse_header(flat(buffer))


def validate(buffer: Buffer, expectation: Expectation) -> ImageInfo:
    """Check everything about an image; nothing is written anywhere.

    In this order: header, identity, element types, parts, capacity, lengths, digests.

    Raises:
        ShortBufferError, ImageUnsupportedError, ImageFormatError: as for `inspect`; the last one also
            for other parts, lengths that do not belong together, and digests.
        ImageIdentityError: another engine, model or schedule.
        KvModeError: other element types.
        ImageCapacityError: more tokens or rows than the session holds.
    """
    view = flat(buffer)
    info = parse_header(view)
    check_identity(info.description.identity, expectation)
    check_parts(info.description.parts, expectation.parts)
    check_lengths(info.description, expectation)
    check_digests(info, view)
    return info


def check_identity(found: Identity, expectation: Expectation) -> None:
    """The image comes from the same engine, model, schedule and element types.

    Raises:
        ImageIdentityError, KvModeError: the first field that differs.
    """
    expected = expectation.identity
    names = sorted((found.keys() | expected.keys()) - expectation.identity_free)
    differing = [name for name in names if _differ(found.get(name), expected.get(name))]
    others = [name for name in differing if name not in ELEMENT_FIELDS]
    for name in others or differing:
        kind = ImageIdentityError if others else KvModeError
        raise kind(f"identity.{name}: expected {expected.get(name)!r}, found {found.get(name)!r}")


def _differ(found: object, expected: object) -> bool:
    """Whether two values differ; True and 1 do."""
    return type(found) is not type(expected) or found != expected


def check_parts(found: Sequence[PartSpec], expected: Sequence[ExpectedPart]) -> None:
    """Every part is one that the session has, in the session's order.

    Raises:
        KvModeError: a part of another element type.
        ImageCapacityError: more rows than the session's buffer holds.
        ImageFormatError: another part, order, layer or shape.
    """
    names = [[part.name for part in parts] for parts in (expected, found)]
    if names[0] != names[1]:
        raise ImageFormatError(f"parts: expected {names[0]}, found {names[1]}")
    for part, room in zip(found, expected, strict=True):
        if part.element_type != room.element_type:
            raise KvModeError(f"{part.name}: expected {room.element_type}, found {part.element_type}")
        is_rows = part.kind is PartKind.ROWS
        facts = [(p.family, p.layer, p.kind, p.shape[1:] if is_rows else p.shape) for p in (part, room)]
        if facts[0] != facts[1]:
            raise ImageFormatError(f"{part.name}: expected {facts[1]}, found {facts[0]}")
        if part.rows > (room.shape[0] if is_rows else 0):
            raise ImageCapacityError(f"{part.name}: expected at most {room.shape[0]} rows, found {part.rows}")


def check_lengths(about: ImageDescription, expectation: Expectation) -> None:
    """Position, history and rows fit the session and one another.

    Raises:
        ImageCapacityError: more tokens than the session holds.
        ImageFormatError: a row stream of another length than the position asks for.
    """
    tokens = about.position if about.history is None else len(about.history)
    if tokens > expectation.capacity:
        raise ImageCapacityError(f"tokens: expected at most {expectation.capacity}, found {tokens}")
    if expectation.rows_at is None:
        return
    expected = expectation.rows_at(about.position)
    for part in about.parts:
        if part.kind is PartKind.ROWS and part.rows != expected.get(part.name):
            raise ImageFormatError(
                f"{part.name}: expected {expected.get(part.name)} rows at {about.position} tokens, found {part.rows}"
            )


def check_digests(info: ImageInfo, view: memoryview) -> None:
    """Every part hashes to its digest and the bytes between parts are zero.

    Raises:
        ImageFormatError: the first part that does not, with its range of bytes.
    """
    end = info.header_bytes
    for entry in info.parts:
        if any(view[end : entry.offset]):
            raise ImageFormatError(f"padding before {entry.spec.name}: expected zeros, found other bytes")
        end = entry.offset + entry.nbytes
        found = hashlib.sha256(view[entry.offset : end]).digest()
        if found != entry.sha256:
            where = f"{entry.spec.name} (bytes {entry.offset}..{end})"
            raise ImageFormatError(f"{where}: expected SHA-256 {entry.sha256.hex()}, found {found.hex()}")


def parts_of(info: ImageInfo, buffer: Buffer) -> dict[str, memoryview]:
    """Read-only views of the parts' bytes by name, in the order of the image; no copies.

    Args:
        info: what `validate` returned for this buffer, unchanged since.
        buffer: the image.

    Raises:
        ShortBufferError: the buffer is not the one that was validated.
    """
    view = flat(buffer).toreadonly()
    if len(view) < info.total_bytes:
        raise ShortBufferError(f"buffer: expected {info.total_bytes} bytes, found {len(view)}")
    return {entry.spec.name: view[entry.offset : entry.offset + entry.nbytes] for entry in info.parts}
