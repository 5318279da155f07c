"""One tile encoded or decoded by a path that the caller names: ``oracle``, ``numpy`` or ``compiled``.

The paths give the same bytes and the same values. A path that is not available is refused; none stands in for another,
so a certificate that names a path tells what ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.codec import blocks, compiled, oracle, vectorised
from harness.codec.bins import BITS
from harness.codec.errors import PathError, ValueRefusedError
from harness.codec.segments import F16, F32, U8, U16, Segment, Version, read_segment, write_lcg1, write_lcg2

LARGEST_F16: Final = 65504.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Coder:
    """The steps of one path. Arrays are C-contiguous; ``symbols`` is u8 [rows, channels]."""

    name: str
    quantise: Callable[[F32, int], tuple[U8, F32]]
    """f32 [rows, channels] (f16 values) and bins to symbols and maxima."""
    cdfs: Callable[[U8], U16]
    """Symbols to [channels, 33]."""
    encode: Callable[[U8, U16], tuple[U16, U8]]
    """Symbols and CDFs to stream lengths and the streams one after another."""
    decode: Callable[[Segment], U8]
    """A validated LCG1 segment to symbols."""
    pack: Callable[[U8, int], U8]
    unpack: Callable[[U8, int, int], U8]
    """Packed bytes, count, bits."""
    dequantise: Callable[[U8, F32, int], F32]
    halves: Callable[[U8, F32, int], F16 | None] | None = None
    """`dequantise` and the rounding to f16 in one; None where a value may leave f16. Paths without it do both steps."""
    quantise_blocks: Callable[[str, F32], U8 | None] | None = None
    """`blocks.quantise`, or None where a block cannot be stored."""
    read_blocks: Callable[[str, U8], F32 | None] | None = None
    """`blocks.dequantise`, or None where a scale is not finite."""


def coder(name: str) -> Coder:
    """The path of a name.

    Raises:
        PathError: no such path, or its library is not installed.
    """
    if name == "oracle":
        return _ORACLE
    if name == "numpy":
        return _NUMPY
    if name == "compiled":
        kernels = compiled.kernels()
        return Coder(
            name=name, quantise=kernels.quantise, cdfs=kernels.cdfs, encode=kernels.encode, decode=kernels.decode,
            pack=kernels.pack, unpack=kernels.unpack, dequantise=kernels.dequantise, halves=kernels.halves,
            quantise_blocks=kernels.quantise_blocks, read_blocks=kernels.read_blocks,
        )  # fmt: skip
    raise PathError(f"codec path: expected oracle, numpy or compiled, found {name!r}")


def encode_tile(values: npt.ArrayLike, *, bins: int, version: Version, path: Coder) -> bytes:
    """A segment of one tile.

    Args:
        values: [rows, channels], 1 to 256 rows; f16 values in any float type that holds them.
        bins: 16 or 32.
        version: 1 for LCG1, 2 for LCG2.
        path: from `coder`.

    Raises:
        ValueRefusedError: a value is not finite or not an f16 value.
        CodecError: bounds of the format.
    """
    tile = f16_values(values)
    symbols, maxima = path.quantise(tile, bins)
    if version == 2:
        packed = path.pack(symbols.reshape(-1), BITS[bins])
        return write_lcg2(bins=bins, maxima=maxima, channels=symbols.shape[1], packed=packed.tobytes())
    cdfs = path.cdfs(symbols)
    lengths, streams = path.encode(symbols, cdfs)
    return write_lcg1(bins=bins, maxima=maxima, cdfs=cdfs, lengths=lengths, streams=streams.tobytes())


def decode_symbols(segment: Segment, *, path: Coder) -> U8:
    """Symbols u8 [rows, channels] of a validated segment of either version.

    Raises:
        ValueRefusedError: a symbol above ``bins - 2``.
    """
    if segment.version == 1:
        symbols = path.decode(segment)
    else:
        count = segment.rows * segment.channels
        symbols = path.unpack(segment.payload, count, BITS[segment.bins]).reshape(segment.rows, segment.channels)
    if symbols.size and int(symbols.max()) > segment.bins - 2:
        row, channel = np.argwhere(symbols > segment.bins - 2)[0]
        raise ValueRefusedError(
            f"row {row}, channel {channel}: expected a symbol up to {segment.bins - 2}, found {symbols[row, channel]}"
        )
    return symbols


def decode_tile(data: bytes | memoryview, *, path: Coder) -> F32:
    """The values of a segment in f32 [rows, channels], before the one rounding to the target type.

    Raises:
        CodecError: the segment is not valid.
    """
    segment = read_segment(data)
    return path.dequantise(decode_symbols(segment, path=path), segment.maxima, segment.bins)


def half_values(segment: Segment, *, path: Coder) -> F16:
    """The f16 values [rows, channels] of a validated segment.

    Raises:
        ValueRefusedError: a symbol above ``bins - 2``, or a value outside f16.
    """
    symbols = decode_symbols(segment, path=path)
    found = path.halves(symbols, segment.maxima, segment.bins) if path.halves is not None else None
    return found if found is not None else as_f16(path.dequantise(symbols, segment.maxima, segment.bins))


def quantised_blocks(kind: str, values: F32, *, path: Coder) -> U8:
    """Blocks of rows; see `blocks.quantise`, which also says what is wrong."""
    blocks.row_bytes(kind, values.shape[1])
    found = path.quantise_blocks(kind, values) if path.quantise_blocks is not None else None
    return found if found is not None else blocks.quantise(kind, values)


def block_values(kind: str, rows: U8, *, path: Coder) -> F32:
    """Values of rows of blocks; see `blocks.dequantise`, which also says what is wrong."""
    whole = kind in blocks.BLOCK_BYTES and rows.shape[1] > 0 and rows.shape[1] % blocks.BLOCK_BYTES[kind] == 0
    found = path.read_blocks(kind, rows) if path.read_blocks is not None and whole else None
    return found if found is not None else blocks.dequantise(kind, rows)


def as_f16(values: F32) -> npt.NDArray[np.float16]:
    """The one rounding to f16.

    Raises:
        ValueRefusedError: a value becomes infinite.
    """
    with np.errstate(over="ignore"):
        out = values.astype(np.float16)
    if not np.isfinite(out).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise ValueRefusedError(
            f"value at {where}: expected the range of f16 (up to {LARGEST_F16:.0f}), found {values[where]}"
        )
    return out


def f16_values(values: npt.ArrayLike) -> F32:
    """Values as f32 after the rounding to f16 that every element type goes through.

    Raises:
        ValueRefusedError: a value is not finite, or not after the rounding.
    """
    given = np.asarray(values)
    if given.dtype == np.float16:
        half = np.ascontiguousarray(given)
        if not np.isfinite(half).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(half))[0])
            raise ValueRefusedError(f"value at {where}: expected a finite value, found {half[where]}")
        return half.astype(np.float32)
    return as_f16(np.ascontiguousarray(given, dtype=np.float32)).astype(np.float32)


def _oracle_quantise(tile: F32, bins: int) -> tuple[U8, F32]:
    symbols, maxima = oracle.quantise(tile.tolist(), bins)
    return np.array(symbols, np.uint8), np.array(maxima, np.float32)


def _oracle_cdfs(symbols: U8) -> U16:
    return np.array([oracle.cdf_of(column) for column in symbols.T.tolist()], np.uint16)


def _oracle_encode(symbols: U8, cdfs: U16) -> tuple[U16, U8]:
    streams = [oracle.encode_stream(s, c) for s, c in zip(symbols.T.tolist(), cdfs.tolist(), strict=True)]
    return np.array([len(s) for s in streams], np.uint16), np.frombuffer(b"".join(streams), np.uint8)


def _oracle_decode(segment: Segment) -> U8:
    out = np.empty((segment.rows, segment.channels), np.uint8)
    at = 0
    for channel, length in enumerate(segment.lengths.tolist()):
        stream = segment.payload[at : at + length].tobytes()
        out[:, channel] = oracle.decode_stream(stream, segment.cdfs[channel].tolist(), segment.rows)
        at += length
    return out


def _oracle_pack(symbols: U8, bits: int) -> U8:
    return np.frombuffer(oracle.pack(symbols.tolist(), bits), np.uint8)


def _oracle_unpack(packed: U8, count: int, bits: int) -> U8:
    return np.array(oracle.unpack(packed.tobytes(), count, bits), np.uint8)


def _oracle_dequantise(symbols: U8, maxima: F32, bins: int) -> F32:
    return np.array(oracle.dequantise(symbols.tolist(), maxima.tolist(), bins), np.float32)


_ORACLE: Final = Coder(
    name="oracle", quantise=_oracle_quantise, cdfs=_oracle_cdfs, encode=_oracle_encode, decode=_oracle_decode,
    pack=_oracle_pack, unpack=_oracle_unpack, dequantise=_oracle_dequantise,
)  # fmt: skip
_NUMPY: Final = Coder(
    name="numpy", quantise=vectorised.quantise, cdfs=vectorised.cdfs, encode=vectorised.encode,
    decode=vectorised.decode, pack=vectorised.pack, unpack=vectorised.unpack, dequantise=vectorised.dequantise,
)  # fmt: skip
