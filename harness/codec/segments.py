"""Containers of one coded tile, LCG1 and LCG2: at most 256 rows of one K or V layer.

Reading checks every field and every length against the bytes at hand before anything is allocated or decoded. All
integers are little-endian.

    LCG1   magic, bins u8, 0 u8, rows u16, channels u32, stream bytes u32
           | maxima f32[R] | CDFs u16[C, 33] | lengths u16[C] | streams
    LCG2   magic, bins u8, bits u8, rows u16, channels u32, packed bytes u32
           | maxima f32[R] | packed symbols, token-major
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from harness.codec.bins import BITS
from harness.codec.errors import BoundsError, FormatError, GeometryError, ValueRefusedError
from harness.codec.oracle import CDF_ENTRIES, MAX_ROWS

LCG1: Final = b"LCG1"
LCG2: Final = b"LCG2"
Version = Literal[1, 2]
MAX_VALUES: Final = 1 << 24
"""Rows times channels of one segment."""
MAX_STREAM: Final = 256
"""Bytes of one channel's stream."""
_INFINITE: Final = 0x7F800000
"""Bits of an f32 from which on it is not finite, or negative."""
_TOP: Final = 65535
_HEAD: Final = struct.Struct("<4sBBHII")

Bytes = bytes | bytearray | memoryview
F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
U16 = npt.NDArray[np.uint16]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Segment:
    """A validated segment; its arrays are views into the bytes it was read from."""

    version: Version
    bins: int
    rows: int
    channels: int
    maxima: F32
    """[rows], finite, not negative."""
    payload: U8
    """Version 1: the streams one after another. Version 2: the packed symbols."""
    cdfs: U16
    """[channels, 33] of version 1; empty in version 2."""
    lengths: U16
    """[channels], bytes of each stream of version 1; empty in version 2."""


def packed_size(*, rows: int, channels: int, bins: int) -> int:
    """Bytes of LCG2's packed symbols."""
    return (rows * channels * BITS[bins] + 7) // 8


def lcg2_size(*, rows: int, channels: int, bins: int) -> int:
    """Bytes of a whole LCG2 segment; it does not depend on the data."""
    return _HEAD.size + 4 * rows + packed_size(rows=rows, channels=channels, bins=bins)


def read_segment(data: Bytes) -> Segment:
    """Validate one segment whole.

    Raises:
        FormatError: magic, reserved byte, bits or total length.
        BoundsError: rows, channels, or a stream length out of range.
        GeometryError: stream lengths that do not add up.
        ValueRefusedError: a maximum that is not finite or negative; a CDF that does not rise from 0 to 65535.
    """
    view = memoryview(data).cast("B")
    if len(view) < _HEAD.size:
        raise FormatError(f"segment: expected a head of {_HEAD.size} bytes, found {len(view)} bytes")
    magic, bins, second, rows, channels, size = _HEAD.unpack_from(view)
    if magic not in (LCG1, LCG2):
        raise FormatError(f"segment: expected magic LCG1 or LCG2, found {magic!r}")
    version: Version = 1 if magic == LCG1 else 2
    if bins not in BITS:
        raise FormatError(f"segment: expected 16 or 32 bins, found {bins}")
    expected = 0 if version == 1 else BITS[bins]
    if second != expected:
        raise FormatError(f"segment, byte 5: expected {expected}, found {second}")
    if not 1 <= rows <= MAX_ROWS:
        raise BoundsError(f"segment: expected 1 to {MAX_ROWS} rows, found {rows}")
    if not (channels >= 1 and rows * channels <= MAX_VALUES):
        raise BoundsError(f"segment: expected 1 to {MAX_VALUES // rows} channels for {rows} rows, found {channels}")
    tables = 0 if version == 2 else 2 * (CDF_ENTRIES + 1) * channels
    total = _HEAD.size + 4 * rows + tables + size
    if len(view) != total:
        raise FormatError(f"segment: expected {total} bytes for its own counts, found {len(view)}")
    if version == 2 and size != packed_size(rows=rows, channels=channels, bins=bins):
        raise GeometryError(
            f"segment: expected {packed_size(rows=rows, channels=channels, bins=bins)} packed bytes, found {size}"
        )
    at = _HEAD.size
    maxima = np.frombuffer(view, "<f4", rows, at)
    if int(np.frombuffer(view, "<u4", rows, at).max()) >= _INFINITE:
        bad = np.flatnonzero(~(np.isfinite(maxima) & ~np.signbit(maxima)))
        raise ValueRefusedError(
            f"segment, row {bad[0]}: expected a finite maximum of at least 0, found {maxima[bad[0]]}"
        )
    at += 4 * rows
    cdfs = np.frombuffer(view, "<u2", tables // (2 * (CDF_ENTRIES + 1)) * CDF_ENTRIES, at).reshape(-1, CDF_ENTRIES)
    lengths = np.frombuffer(view, "<u2", len(cdfs), at + cdfs.nbytes)
    if version == 1:
        _check_tables(cdfs, lengths, size)
    payload = np.frombuffer(view, "u1", size, at + tables)
    return Segment(
        version=version,
        bins=bins,
        rows=rows,
        channels=channels,
        maxima=maxima,
        payload=payload,
        cdfs=cdfs,
        lengths=lengths,
    )


def _check_tables(cdfs: U16, lengths: U16, size: int) -> None:
    if cdfs[:, 0].any() or int(cdfs[:, -1].min()) != _TOP or (cdfs[:, 1:] <= cdfs[:, :-1]).any():
        wrong = np.flatnonzero((cdfs[:, 0] != 0) | (cdfs[:, -1] != _TOP) | (cdfs[:, 1:] <= cdfs[:, :-1]).any(axis=1))
        raise ValueRefusedError(f"segment, channel {wrong[0]}: expected a CDF that rises strictly from 0 to 65535")
    if not 1 <= int(lengths.min()) <= int(lengths.max()) <= MAX_STREAM:
        short = np.flatnonzero((lengths < 1) | (lengths > MAX_STREAM))
        raise BoundsError(
            f"segment, channel {short[0]}: expected a stream of 1 to {MAX_STREAM} bytes, found {lengths[short[0]]}"
        )
    total = int(lengths.sum(dtype=np.int64))
    if total != size:
        raise GeometryError(f"segment: expected streams of {size} bytes together, found {total}")


def write_lcg1(*, bins: int, maxima: F32, cdfs: U16, lengths: U16, streams: Bytes) -> bytes:
    """An LCG1 segment of its pieces; what is written has been read back through `read_segment`'s checks.

    Raises:
        CodecError: as `read_segment`.
    """
    head = _HEAD.pack(LCG1, bins, 0, len(maxima), len(cdfs), len(memoryview(streams)))
    data = b"".join(
        (head, maxima.astype("<f4").tobytes(), cdfs.astype("<u2").tobytes(), lengths.astype("<u2").tobytes(), streams)
    )
    read_segment(data)
    return data


def write_lcg2(*, bins: int, maxima: F32, channels: int, packed: Bytes) -> bytes:
    """An LCG2 segment of its pieces, checked like `write_lcg1`.

    Raises:
        CodecError: as `read_segment`.
    """
    head = _HEAD.pack(LCG2, bins, BITS[bins], len(maxima), channels, len(memoryview(packed)))
    data = b"".join((head, maxima.astype("<f4").tobytes(), packed))
    read_segment(data)
    return data
