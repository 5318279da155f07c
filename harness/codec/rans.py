"""CGv1, the earlier prototype: affine 4-bit symbols, deltas along tokens, one static byte-rANS stream a tile.

Kept so that old archives can be read, and written for its golden. A symbol whose frequency is zero cannot be coded and
is refused by name: the prototype would have looped on it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

from harness.codec.errors import BoundsError, FormatError, GeometryError, ValueRefusedError
from harness.codec.oracle import f32

MAGIC: Final = b"CGv1"
SYMBOLS: Final = 16
SCALE_BITS: Final = 12
SCALE: Final = 1 << SCALE_BITS
LOWER: Final = 1 << 23
"""Lower bound of the coder's state."""
MAX_VALUES: Final = 1 << 30
_HEAD: Final = struct.Struct("<4sHIffIH16I")


def frequencies(counts: Sequence[int]) -> list[int]:
    """Counts scaled to a sum of 4096, at least 1 each.

    ``max(1, floor(count * 4096 / total))``; too high: the largest (lowest index on ties) gives one at a time; too low:
    the symbol of the highest count takes one, then the indices after it in turn.

    Raises:
        BoundsError: no counts, or none above zero.
    """
    total = sum(counts)
    if len(counts) == 0 or total <= 0 or min(counts) < 0:
        raise BoundsError(f"rANS: expected counts with a sum above 0, found {list(counts)}")
    scaled = [max(1, count * SCALE // total) for count in counts]
    while sum(scaled) > SCALE:
        scaled[scaled.index(max(scaled))] -= 1
    at = list(counts).index(max(counts))
    while sum(scaled) < SCALE:
        scaled[at] += 1
        at = (at + 1) % len(scaled)
    return scaled


def encode(symbols: Sequence[int], freqs: Sequence[int]) -> bytes:
    """The stream: the final state in 4 bytes, then the emitted bytes, last emitted first.

    Raises:
        BoundsError: frequencies that do not sum to 4096.
        ValueRefusedError: a symbol outside the table, or one of frequency zero.
    """
    starts = _starts(freqs)
    for index, symbol in enumerate(symbols):
        if not 0 <= symbol < len(freqs):
            raise ValueRefusedError(f"symbol {index}: expected 0 to {len(freqs) - 1}, found {symbol}")
        if freqs[symbol] == 0:
            raise ValueRefusedError(f"symbol {index}: expected a frequency above 0 for {symbol}, found 0")
    state, out = LOWER, bytearray()
    for symbol in reversed(symbols):
        limit = (LOWER >> SCALE_BITS << 8) * freqs[symbol]
        while state >= limit:
            out.append(state & 255)
            state >>= 8
        state = (state // freqs[symbol] << SCALE_BITS) + state % freqs[symbol] + starts[symbol]
    return state.to_bytes(4, "little") + bytes(reversed(out))


def decode(stream: bytes, freqs: Sequence[int], count: int) -> list[int]:
    """``count`` symbols of a stream, which must be used up and end in the state that encoding begins with.

    Raises:
        BoundsError: frequencies that do not sum to 4096.
        FormatError: a stream that ends early, late, or in another state.
    """
    starts = _starts(freqs)
    if len(stream) < 4:
        raise FormatError(f"rANS stream: expected at least 4 bytes, found {len(stream)}")
    state, at, out = int.from_bytes(stream[:4], "little"), 4, []
    owner = [symbol for symbol, freq in enumerate(freqs) for _ in range(freq)]
    for index in range(count):
        slot = state & (SCALE - 1)
        symbol = owner[slot]
        out.append(symbol)
        state = freqs[symbol] * (state >> SCALE_BITS) + slot - starts[symbol]
        while state < LOWER:
            if at == len(stream):
                raise FormatError(f"rANS stream: expected more than {at} bytes for symbol {index}, found its end")
            state = state << 8 | stream[at]
            at += 1
    if at != len(stream) or state != LOWER:
        raise FormatError(f"rANS stream: expected its end after {count} symbols, found {len(stream) - at} bytes more")
    return out


def _starts(freqs: Sequence[int]) -> list[int]:
    if sum(freqs) != SCALE or min(freqs, default=-1) < 0:
        raise BoundsError(f"rANS: expected frequencies that sum to {SCALE}, found {sum(freqs)}")
    return [sum(freqs[:index]) for index in range(len(freqs))]


def encode_tile(rows: Sequence[Sequence[float]]) -> bytes:
    """A CGv1 tile of f16 or f32 values.

    Raises:
        BoundsError: no rows, no values, or too many.
        GeometryError: rows of different lengths.
        ValueRefusedError: a value is not finite.
    """
    dims = len(rows[0]) if rows else 0
    if not (1 <= dims <= 0xFFFF and len(rows) * dims <= MAX_VALUES):
        raise BoundsError(
            f"CGv1: expected 1 to {0xFFFF} values a row and rows of them, found {len(rows)} rows of {dims}"
        )
    if any(len(row) != dims for row in rows):
        raise GeometryError(f"CGv1: expected rows of {dims} values, found others")
    values = [value for row in rows for value in row]
    if not all(map(math.isfinite, values)):
        raise ValueRefusedError("CGv1: expected finite values, found others")
    low = min(values)
    step = f32(f32(max(values) - low) / 15)
    codes = [[_code(value, low, step) for value in row] for row in rows]
    deltas = [
        (now - before) % SYMBOLS
        for row, last in zip(codes, [[0] * dims, *codes], strict=False)
        for now, before in zip(row, last, strict=True)
    ]
    counts = [deltas.count(symbol) for symbol in range(SYMBOLS)]
    stream = encode(deltas, frequencies(counts))
    return _HEAD.pack(MAGIC, dims, len(rows), low, step, len(stream), 0, *counts) + stream


def _code(value: float, low: float, step: float) -> int:
    if step == 0:
        return 0
    scaled = f32(f32(value - low) / step)
    return min(15, max(0, math.floor(scaled + 0.5)))


def decode_tile(data: bytes) -> list[list[float]]:
    """The values of a CGv1 tile in f32: ``symbol * step + min``.

    Raises:
        CodecError: any field that is out of range, or a stream that does not fit.
    """
    if len(data) < _HEAD.size:
        raise FormatError(f"CGv1: expected a head of {_HEAD.size} bytes, found {len(data)} bytes")
    magic, dims, rows, low, step, size, zero, *counts = _HEAD.unpack_from(data)
    if magic != MAGIC or zero != 0:
        raise FormatError(f"CGv1: expected magic CGv1 and a zero at byte 22, found {magic!r} and {zero}")
    if not (dims >= 1 and rows >= 1 and rows * dims <= MAX_VALUES):
        raise BoundsError(f"CGv1: expected 1 to {MAX_VALUES} values, found {rows} rows of {dims}")
    if not (math.isfinite(low) and math.isfinite(step) and step >= 0):
        raise ValueRefusedError(f"CGv1: expected a finite minimum and step, found {low} and {step}")
    if sum(counts) != rows * dims:
        raise GeometryError(f"CGv1: expected counts that sum to {rows * dims}, found {sum(counts)}")
    if len(data) != _HEAD.size + size:
        raise FormatError(f"CGv1: expected {_HEAD.size + size} bytes, found {len(data)}")
    deltas = decode(data[_HEAD.size :], frequencies(counts), rows * dims)
    out: list[list[float]] = []
    last = [0] * dims
    for row in range(rows):
        last = [
            (now + before) % SYMBOLS for now, before in zip(deltas[row * dims : (row + 1) * dims], last, strict=True)
        ]
        out.append([f32(f32(code * step) + low) for code in last])
    return out
