"""The codec over whole arrays: lockstep over all channels' streams, one symbol of each at a time.

Unsigned 64-bit integers throughout; intervals are 32 bits wide and a span is at most 2^32. The renormalisation is done
in closed form: ``k1`` shifts settle leading bits, then ``k2`` shifts act around the middle; there is no other order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from harness.codec.bins import centre_of
from harness.codec.errors import BoundsError, ValueRefusedError
from harness.codec.oracle import ALPHABET, CDF_ENTRIES, CDF_SPREAD, SMALLEST
from harness.codec.segments import F32, MAX_STREAM, U8, U16, Segment

U64 = npt.NDArray[np.uint64]
_MASK: Final = np.uint64(0xFFFFFFFF)
_TOP: Final = np.uint64(0x80000000)
_LOW31: Final = np.uint64(0x7FFFFFFF)
_ONE: Final = np.uint64(1)
_SIXTEEN: Final = np.uint64(16)
_THIRTY_TWO: Final = np.uint64(32)


def quantise(tile: F32, bins: int) -> tuple[U8, F32]:
    """As `oracle.quantise`, for an array."""
    centre = np.float32(centre_of(bins))
    bad = np.argwhere(~np.isfinite(tile))
    if bad.size:
        row, channel = bad[0]
        raise ValueRefusedError(f"row {row}, channel {channel}: expected a finite value, found {tile[row, channel]}")
    maxima = np.abs(tile).max(axis=1, initial=0).astype(np.float32)
    low = np.flatnonzero((maxima > 0) & (maxima < SMALLEST))
    if low.size:
        raise ValueRefusedError(
            f"row {low[0]}: expected f16 values, found a largest magnitude of {maxima[low[0]]}, below f16's smallest"
        )
    factor = np.divide(centre, maxima, where=maxima > 0, out=np.zeros_like(maxima))
    scaled = tile * factor[:, None]
    scaled += centre
    return np.rint(scaled).astype(np.uint8), maxima


def dequantise(symbols: U8, maxima: F32, bins: int) -> F32:
    """As `oracle.dequantise`; symbols have been checked."""
    centre = centre_of(bins)
    table = (np.arange(2 * centre + 1, dtype=np.float32) - np.float32(centre)) / np.float32(centre)
    out: F32 = table[symbols] * maxima[:, None]
    return out


def cdfs(symbols: U8) -> U16:
    """As `oracle.cdf_of`, for every channel: [channels, 33]."""
    rows, channels = symbols.shape
    if not rows:
        raise BoundsError("cdf: expected at least one symbol, found none")
    counts = np.zeros((channels, CDF_ENTRIES), np.int64)
    flat = symbols.astype(np.int64) + np.arange(channels) * CDF_ENTRIES + 1
    counts.reshape(-1)[:] = np.bincount(flat.reshape(-1), minlength=channels * CDF_ENTRIES + 1)[
        : channels * CDF_ENTRIES
    ]
    cumulated = counts.cumsum(axis=1)
    entries = CDF_SPREAD * cumulated // rows + np.arange(CDF_ENTRIES)
    out: U16 = entries.astype(np.uint16)
    return out


def _leading_zeros(value: U64) -> U64:
    """Of 32-bit values held in u64; 32 for zero."""
    bits = np.zeros(value.shape, np.uint64)
    rest = value.copy()
    for step in (16, 8, 4, 2, 1):
        high = rest >> np.uint64(step)
        found = high != 0
        bits += np.where(found, np.uint64(step), np.uint64(0))
        rest = np.where(found, high, rest)
    return np.where(value == 0, _THIRTY_TWO, np.uint64(31) - bits)


def _bounds(low: U64, high: U64, lower: U64, upper: U64) -> tuple[U64, U64]:
    span = high - low + _ONE
    return (low + (span * lower >> _SIXTEEN)) & _MASK, (low + (span * upper >> _SIXTEEN) - _ONE) & _MASK


def _shifts(low: U64, high: U64) -> tuple[U64, U64, U64, U64]:
    """``k1``, ``k2`` and the interval after both."""
    k1 = _leading_zeros(low ^ high)
    low, high = (low << k1) & _MASK, ((high << k1) | ((_ONE << k1) - _ONE)) & _MASK
    run = ((low & ~high) << _ONE) & _MASK
    k2 = _leading_zeros(~run & _MASK)
    low = (low << k2) & _LOW31
    high = ((high << k2) & _MASK) | _TOP | ((_ONE << k2) - _ONE)
    return k1, k2, low, high


def _table(cdf: U16) -> U64:
    table = cdf.astype(np.uint64)
    table[:, ALPHABET] = 65536
    return table


def encode(symbols: U8, cdf: U16) -> tuple[U16, U8]:
    """As `oracle.encode_stream`, for all channels side by side: lengths [channels], streams one after another.

    Raises:
        BoundsError: a stream longer than 256 bytes (the CDF is not that of these symbols).
        ValueRefusedError: a symbol outside the alphabet.
    """
    rows, channels = symbols.shape
    if symbols.size and int(symbols.max()) >= ALPHABET:
        raise ValueRefusedError(f"stream: expected symbols 0 to {ALPHABET - 1}, found {int(symbols.max())}")
    table, index = _table(cdf), np.arange(channels)
    low, high = np.zeros(channels, np.uint64), np.full(channels, _MASK)
    pending = np.zeros(channels, np.uint64)
    room = 8 * MAX_STREAM + 64
    bits = np.zeros((channels, room), np.uint8)
    used = np.zeros(channels, np.int64)
    for row in range(rows):
        symbol = symbols[row].astype(np.int64)
        low, high = _bounds(low, high, table[index, symbol], table[index, symbol + 1])
        k1 = _leading_zeros(low ^ high)
        settled = np.flatnonzero(k1)
        if settled.size:
            _emit(bits, used, settled, low[settled], k1[settled], pending[settled])
            pending[settled] = 0
        _, k2, low, high = _shifts(low, high)
        pending += k2
        if int((used + pending.astype(np.int64)).max(initial=0)) > 8 * MAX_STREAM:
            raise BoundsError(f"stream: expected at most {MAX_STREAM} bytes; code a tile with its own CDFs")
    pending += _ONE
    _emit(bits, used, index, np.where(low < 0x40000000, np.uint64(0), _TOP), np.ones(channels, np.uint64), pending)
    lengths = (used + 7) // 8
    if int(lengths.max(initial=0)) > MAX_STREAM:
        raise BoundsError(f"stream: expected at most {MAX_STREAM} bytes; code a tile with its own CDFs")
    packed = np.packbits(bits, axis=1)
    keep = np.arange(packed.shape[1]) < lengths[:, None]
    return lengths.astype(np.uint16), packed[keep]


def _emit(
    bits: U8, used: npt.NDArray[np.int64], which: npt.NDArray[np.int64], low: U64, count: U64, pending: U64
) -> None:
    """The top ``count`` bits of ``low``, the first followed by ``pending`` opposites."""
    first = (low >> np.uint64(31)).astype(np.uint8)
    at = used[which]
    bits[which, at] = first
    held = pending.astype(np.int64)
    for step in range(int(held.max(initial=0))):
        some = held > step
        bits[which[some], at[some] + 1 + step] = 1 - first[some]
    at = at + 1 + held
    rest = count.astype(np.int64) - 1
    for step in range(int(rest.max(initial=0))):
        some = rest > step
        bits[which[some], at[some] + step] = (low[some] >> np.uint64(30 - step) & _ONE).astype(np.uint8)
    used[which] = at + rest


def decode(segment: Segment) -> U8:
    """As `oracle.decode_stream`, for all channels side by side: u8 [rows, channels]."""
    rows, channels = segment.rows, segment.channels
    table, index = _table(segment.cdfs), np.arange(channels)
    lengths = segment.lengths.astype(np.int64)
    streams = np.zeros((channels, MAX_STREAM + 8), np.uint8)
    keep = np.arange(MAX_STREAM + 8) < lengths[:, None]
    streams[keep] = segment.payload
    low, high = np.zeros(channels, np.uint64), np.full(channels, _MASK)
    value = _window(streams, np.zeros(channels, np.int64))
    read = np.full(channels, 32, np.int64)
    out = np.empty((rows, channels), np.uint8)
    for row in range(rows):
        span = high - low + _ONE
        edges = span[:, None] * table[:, :ALPHABET] >> _SIXTEEN
        symbol = (edges <= (value - low)[:, None]).sum(axis=1) - 1
        out[row] = symbol
        if row == rows - 1:
            break
        low, high = _bounds(low, high, table[index, symbol], table[index, symbol + 1])
        k1, k2, low, high = _shifts(low, high)
        fresh = _window(streams, np.minimum(read, 8 * MAX_STREAM))
        value = ((value << k1) | (fresh >> (_THIRTY_TWO - k1))) & _MASK
        top = value & _TOP
        rest = _window(streams, np.minimum(read + k1.astype(np.int64), 8 * MAX_STREAM))
        value = top | (((value << k2) | (rest >> (_THIRTY_TWO - k2))) & _LOW31)
        read += (k1 + k2).astype(np.int64)
    return out


def _window(streams: U8, position: npt.NDArray[np.int64]) -> U64:
    """The 32 bits from a bit position of each stream."""
    byte, index = position >> 3, np.arange(len(streams))
    whole = np.zeros(len(streams), np.uint64)
    for step in range(5):
        whole = whole << np.uint64(8) | streams[index, byte + step].astype(np.uint64)
    return whole >> (np.uint64(8) - (position & 7).astype(np.uint64)) & _MASK


def pack(symbols: U8, bits: int) -> U8:
    """As `oracle.pack`."""
    return np.packbits((symbols[:, None] >> np.arange(bits, dtype=np.uint8)) & 1, bitorder="little")


def unpack(packed: U8, count: int, bits: int) -> U8:
    """As `oracle.unpack`."""
    split = np.unpackbits(packed, bitorder="little", count=count * bits).reshape(count, bits)
    return np.packbits(split, axis=1, bitorder="little").reshape(count)
