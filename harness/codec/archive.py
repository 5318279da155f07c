"""CKG1: all K/V of a page in one archive, cut every 256 rows, each piece a segment with its own record.

    magic, raw length u64, records u32 | record head (52 bytes), payload | ...

A page is its components one after another (base cache, sliding-window cache); a component is all K layers, all V
layers, then its exact rows (index keys). Reading checks the whole archive before anything is allocated: every head
against its nested segment, every range against the page; ranges must tile the page without a gap or an overlap.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.codec import blocks
from harness.codec.bins import Side, bins_of
from harness.codec.errors import BoundsError, FormatError, GeometryError
from harness.codec.oracle import MAX_ROWS
from harness.codec.paths import Coder, block_values, encode_tile, half_values, quantised_blocks
from harness.codec.segments import Segment, Version, read_segment

MAGIC: Final = b"CKG1"
_HEAD: Final = struct.Struct("<4sQI")
_RECORD: Final = struct.Struct("<BBH6Q")
MAX_PAGE: Final = 1 << 40
"""Bytes of a decoded page that a reader accepts unless it says less."""

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What the values of a record are."""

    number: int
    element: str
    """``f16``, ``f32``, ``q8_0``, ``q4_0``, or ``exact`` for bytes that are not coded."""
    size: int
    """Bytes of an element, or of a block of 32."""
    transposed: bool


KINDS: Final = {
    kind.number: kind
    for kind in (
        Kind(number=0, element="f16", size=2, transposed=False),
        Kind(number=1, element="exact", size=1, transposed=False),
        Kind(number=2, element="f16", size=2, transposed=True),
        Kind(number=3, element="f32", size=4, transposed=False),
        Kind(number=4, element="f32", size=4, transposed=True),
        Kind(number=5, element="q8_0", size=34, transposed=False),
        Kind(number=6, element="q4_0", size=18, transposed=False),
    )
}
ELEMENTS: Final = ("f16", "f32", "q8_0", "q4_0")
"""Element types that a segment can carry. Anything else is not converted behind the caller's back; it is refused."""


def kind_of(element: str, *, transposed: bool = False) -> Kind:
    """The record kind of an element type.

    Raises:
        GeometryError: no such kind; blocks of 32 cannot be cut across a transposition.
    """
    for kind in KINDS.values():
        if kind.element == element and kind.transposed == transposed:
            return kind
    layout = "transposed" if transposed else "row-major"
    raise GeometryError(f"element type: expected one of {ELEMENTS} (blocks never transposed), found {element} {layout}")


def row_bytes(element: str, channels: int) -> int:
    """Bytes of one token's row.

    Raises:
        GeometryError: a blocked row is not whole blocks.
    """
    if element in blocks.BLOCK_BYTES:
        return blocks.row_bytes(element, channels)
    return channels * kind_of(element).size


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One cache of a page: its layers share tokens and widths."""

    layers: int
    tokens: int
    k_element: str
    v_element: str
    k_channels: int
    v_channels: int
    transposed_v: bool = False
    """V lies channel by channel: element (channel, token) at ``channel * tokens + token``."""
    exact_bytes: int = 0
    """Bytes of rows that are carried as they are, after the V layers."""

    @property
    def size(self) -> int:
        """Bytes of the component in the page."""
        rows = row_bytes(self.k_element, self.k_channels) + row_bytes(self.v_element, self.v_channels)
        return self.layers * self.tokens * rows + self.exact_bytes

    def sides(self) -> Iterator[tuple[Side, int, Kind, int]]:
        """Side, layer, kind and channels of every coded layer, in page order."""
        for layer in range(self.layers):
            yield "k", layer, kind_of(self.k_element), self.k_channels
        for layer in range(self.layers):
            yield "v", layer, kind_of(self.v_element, transposed=self.transposed_v), self.v_channels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Record:
    """One validated record; ``payload`` and ``segment`` are views into the archive."""

    kind: Kind
    offset: int
    """Byte of the page where the piece begins; of a transposed one: where its layer begins."""
    decoded: int
    """Bytes of the page that it fills."""
    tokens: int
    start: int
    """First token, of a transposed record; else 0."""
    total: int
    """Tokens of the whole layer, of a transposed record; else 0."""
    payload: memoryview
    segment: Segment | None
    """None for exact bytes."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Archive:
    """A validated archive."""

    raw: int
    """Bytes of the page."""
    records: tuple[Record, ...]

    @property
    def versions(self) -> tuple[int, ...]:
        """Segment versions inside, ascending."""
        return tuple(sorted({one.segment.version for one in self.records if one.segment}))


def encode_page(page: bytes | memoryview, components: Sequence[Component], *, version: Version, path: Coder) -> bytes:
    """The archive of a page.

    Raises:
        GeometryError: the page is not what its components say.
        CodecError: a value that cannot be coded.
    """
    view = memoryview(page).cast("B")
    raw = sum(component.size for component in components)
    if len(view) != raw:
        raise GeometryError(f"page: expected {raw} bytes for its components, found {len(view)}")
    records: list[bytes] = []
    at = 0
    for component in components:
        for side, layer, kind, channels in component.sides():
            bins = bins_of(layer=layer, layers=component.layers, side=side)
            size = component.tokens * row_bytes(kind.element, channels)
            values = _values(view[at : at + size], kind, component.tokens, channels, path)
            for first in range(0, component.tokens, MAX_ROWS):
                tile = values[first : first + MAX_ROWS]
                payload = encode_tile(tile, bins=bins, version=version, path=path)
                records.append(_record(kind, at, first, len(tile), component.tokens, channels, payload))
            at += size
        if component.exact_bytes:
            payload = view[at : at + component.exact_bytes].tobytes()
            records.append(_RECORD.pack(1, 1, 0, at, len(payload), 0, 0, 0, len(payload)) + payload)
            at += component.exact_bytes
    return b"".join((_HEAD.pack(MAGIC, raw, len(records)), *records))


def _record(kind: Kind, at: int, first: int, rows: int, total: int, channels: int, payload: bytes) -> bytes:
    width = row_bytes(kind.element, channels)
    where = (
        (at, rows * width, rows, first, total) if kind.transposed else (at + first * width, rows * width, rows, 0, 0)
    )
    return _RECORD.pack(kind.number, kind.size, 0, *where, len(payload)) + payload


def _values(data: memoryview, kind: Kind, tokens: int, channels: int, path: Coder) -> F32:
    """Values of a layer as f32 [tokens, channels]; f16 rounding is the tile encoder's."""
    if kind.element in blocks.BLOCK_BYTES:
        return block_values(kind.element, np.frombuffer(data, np.uint8).reshape(tokens, -1), path=path)
    dtype = "<f2" if kind.element == "f16" else "<f4"
    flat = np.frombuffer(data, dtype)
    shaped = flat.reshape(channels, tokens).T if kind.transposed else flat.reshape(tokens, channels)
    return shaped.astype(np.float32)


def read_archive(data: bytes | memoryview, *, limit: int = MAX_PAGE) -> Archive:
    """Validate an archive whole: nothing is decoded, nothing of the page's size allocated.

    Args:
        data: the archive.
        limit: bytes of the decoded page that the caller can take.

    Raises:
        CodecError: naming the record and field that is wrong.
    """
    view = memoryview(data).cast("B")
    if len(view) < _HEAD.size:
        raise FormatError(f"archive: expected a head of {_HEAD.size} bytes, found {len(view)} bytes")
    magic, raw, count = _HEAD.unpack_from(view)
    if magic != MAGIC:
        raise FormatError(f"archive: expected magic CKG1, found {bytes(magic)!r}")
    if raw > limit:
        raise BoundsError(f"archive: expected a page of at most {limit} bytes, found {raw}")
    if count > (len(view) - _HEAD.size) // _RECORD.size:
        raise BoundsError(
            f"archive: expected at most {(len(view) - _HEAD.size) // _RECORD.size} records, found {count}"
        )
    records, at = [], _HEAD.size
    for index in range(count):
        record, at = _read_record(view, at, index, raw)
        records.append(record)
    if at != len(view):
        raise FormatError(f"archive: expected its end after {at} bytes, found {len(view) - at} bytes more")
    _check_tiling(records, raw)
    return Archive(raw=raw, records=tuple(records))


def _read_record(view: memoryview, at: int, index: int, raw: int) -> tuple[Record, int]:
    where = f"record {index}"
    if len(view) - at < _RECORD.size:
        raise FormatError(f"{where}: expected a head of {_RECORD.size} bytes, found {len(view) - at} bytes")
    number, size, zero, offset, decoded, tokens, start, total, length = _RECORD.unpack_from(view, at)
    at += _RECORD.size
    if number not in KINDS or zero:
        raise FormatError(f"{where}: expected a kind of {tuple(KINDS)} and two zero bytes, found {number} and {zero}")
    kind = KINDS[number]
    if size != kind.size:
        raise FormatError(f"{where}: expected {kind.size} bytes an element of kind {number}, found {size}")
    if length > len(view) - at:
        raise BoundsError(f"{where}: expected a payload of at most {len(view) - at} bytes, found {length}")
    if offset > raw or decoded > raw or decoded < 1:
        raise BoundsError(f"{where}: expected 1 to {raw} bytes inside a page of {raw}, found {decoded} at {offset}")
    payload = view[at : at + length]
    segment = None if kind.element == "exact" else _nested(payload, where)
    record = Record(
        kind=kind,
        offset=offset,
        decoded=decoded,
        tokens=tokens,
        start=start,
        total=total,
        payload=payload,
        segment=segment,
    )
    _check_geometry(record, raw, where)
    return record, at + length


def _nested(payload: memoryview, where: str) -> Segment:
    try:
        return read_segment(payload)
    except FormatError as error:
        raise FormatError(f"{where}, {error}") from error
    except BoundsError as error:
        raise BoundsError(f"{where}, {error}") from error


def _check_geometry(record: Record, raw: int, where: str) -> None:
    segment = record.segment
    if segment is None:
        if (record.tokens, record.start, record.total) != (0, 0, 0) or len(record.payload) != record.decoded:
            raise GeometryError(
                f"{where}: expected {record.decoded} exact bytes and no tokens, found {len(record.payload)}"
            )
        if record.offset + record.decoded > raw:
            raise BoundsError(f"{where}: expected its end within {raw} bytes, found {record.offset + record.decoded}")
        return
    width = row_bytes(record.kind.element, segment.channels)
    if record.tokens != segment.rows or record.decoded != segment.rows * width:
        raise GeometryError(
            f"{where}: expected {segment.rows} tokens and {segment.rows * width} bytes as its segment has, "
            f"found {record.tokens} and {record.decoded}"
        )
    if record.kind.transposed:
        if record.start + record.tokens > record.total:
            raise BoundsError(f"{where}: expected tokens within {record.total}, found {record.start} + {record.tokens}")
        end = record.offset + record.total * width
    else:
        if record.start or record.total:
            raise GeometryError(
                f"{where}: expected token start and total 0 in rows, found {record.start} and {record.total}"
            )
        end = record.offset + record.decoded
    if end > raw:
        raise BoundsError(f"{where}: expected its end within {raw} bytes, found {end}")


def _check_tiling(records: Sequence[Record], raw: int) -> None:
    """Sorted by (offset, start); the ranges follow one another from 0 to ``raw``."""
    keys = [(one.offset, one.start) for one in records]
    for index, (before, after) in enumerate(itertools.pairwise(keys), start=1):
        if after <= before:
            raise GeometryError(
                f"record {index}: expected records in the order of the page, found {after} after {before}"
            )
    at, index = 0, 0
    while index < len(records):
        one = records[index]
        if one.offset != at:
            found = "a gap" if one.offset > at else "an overlap"
            raise GeometryError(
                f"record {index}: expected to begin at byte {at}, found {found}: it begins at {one.offset}"
            )
        if not one.kind.transposed:
            at, index = at + one.decoded, index + 1
            continue
        index, at = _transposed_group(records, index)
    if at != raw:
        raise GeometryError(f"archive: expected records that fill {raw} bytes, found {at}")


def _transposed_group(records: Sequence[Record], index: int) -> tuple[int, int]:
    """The index after a transposed layer's pieces, and the byte where the layer ends."""
    first, token = records[index], 0
    while index < len(records) and records[index].offset == first.offset:
        one = records[index]
        same = (one.kind.number, one.total) == (first.kind.number, first.total)
        if not (same and _channels(one) == _channels(first)):
            raise GeometryError(
                f"record {index}: expected pieces of one layer alike, found another kind, width or total"
            )
        if one.start != token:
            raise GeometryError(f"record {index}: expected token {token} next, found {one.start}")
        token, index = token + one.tokens, index + 1
    if token != first.total:
        raise GeometryError(f"record {index - 1}: expected {first.total} tokens of its layer, found {token}")
    return index, first.offset + first.total * row_bytes(first.kind.element, _channels(first))


def _channels(record: Record) -> int:
    return record.segment.channels if record.segment else 0


def decode_page(data: bytes | memoryview, *, path: Coder, limit: int = MAX_PAGE) -> bytearray:
    """The page of an archive. The archive is validated first; symbols are checked tile by tile.

    Raises:
        CodecError: as `read_archive`, or a symbol outside its bins.
    """
    archive = read_archive(data, limit=limit)
    page = bytearray(archive.raw)
    out = np.frombuffer(page, np.uint8)
    for record in archive.records:
        _place(out, record, path)
    return page


def tile_values(record: Record, *, path: Coder) -> npt.NDArray[np.float16]:
    """The f16 values of a coded record, [tokens, channels].

    Raises:
        GeometryError: the record holds exact bytes.
        ValueRefusedError: a symbol outside its bins, or a value outside f16.
    """
    if record.segment is None:
        raise GeometryError("record: expected coded rows, found exact bytes")
    return half_values(record.segment, path=path)


def _place(out: U8, record: Record, path: Coder) -> None:
    if record.segment is None:
        out[record.offset : record.offset + record.decoded] = np.frombuffer(record.payload, np.uint8)
        return
    values = tile_values(record, path=path)
    kind = record.kind
    if kind.element in blocks.BLOCK_BYTES:
        data = quantised_blocks(kind.element, values.astype(np.float32), path=path)
        out[record.offset : record.offset + record.decoded] = data.reshape(-1)
        return
    typed = values.astype("<f2" if kind.element == "f16" else "<f4", copy=False)
    if not kind.transposed:
        out[record.offset : record.offset + record.decoded] = np.ascontiguousarray(typed).view(np.uint8).reshape(-1)
        return
    size = record.total * record.segment.channels * kind.size
    layer = out[record.offset : record.offset + size].view(typed.dtype).reshape(record.segment.channels, record.total)
    layer[:, record.start : record.start + record.tokens] = typed.T
