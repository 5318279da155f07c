"""The codec in plain Python, one value and one bit at a time: what every fast path is compared with.

Nothing here is quick and nothing is clever. Floats are IEEE f32: each operation is done in f64 and rounded once, which
for ``+ - * /`` of two f32 gives the correctly rounded f32 (f64 has more than twice the digits, so the two roundings
agree with one).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

from harness.codec.bins import centre_of
from harness.codec.errors import BoundsError, ValueRefusedError

ALPHABET: Final = 32
"""Symbols of every distribution, also for 16 bins."""
CDF_ENTRIES: Final = ALPHABET + 1
CDF_SPREAD: Final = 65535 - ALPHABET
"""What counts are scaled to; each symbol gets one more, so that none has width zero."""
MAX_ROWS: Final = 256
SMALLEST: Final = 2.0**-24
"""The smallest magnitude of f16; below it the factor of a row could leave f32."""

_TOP: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000
_QUARTER: Final = 0x40000000


def f32(value: float) -> float:
    """The nearest f32, as a Python float; beyond the range: infinity with its sign."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def quantise(rows: Sequence[Sequence[float]], bins: int) -> tuple[list[list[int]], list[float]]:
    """Symbols of each row, and the largest magnitude of each row.

    Per row: ``f = c / max|x|``; symbol = half-to-even of ``(x * f) + c``, each operation rounded to f32. A row of zeros
    gets the centre everywhere (LMCache divides by zero there; this is skippy's rule).

    Args:
        rows: tokens x channels; f16 values (other element types are rounded to f16 first).
        bins: 16 or 32.

    Raises:
        ValueRefusedError: a value is not finite, or a row is neither zero nor in the range of f16.
    """
    centre = centre_of(bins)
    symbols: list[list[int]] = []
    maxima: list[float] = []
    for index, row in enumerate(rows):
        for channel, value in enumerate(row):
            if not math.isfinite(value):
                raise ValueRefusedError(f"row {index}, channel {channel}: expected a finite value, found {value}")
        largest = max((abs(value) for value in row), default=0.0)
        maxima.append(largest)
        if largest == 0.0:
            symbols.append([centre] * len(row))
            continue
        if largest < SMALLEST:
            raise ValueRefusedError(
                f"row {index}: expected f16 values, found a largest magnitude of {largest}, below f16's smallest"
            )
        factor = f32(centre / largest)
        symbols.append([round(f32(f32(value * factor) + centre)) for value in row])
    return symbols, maxima


def dequantise(symbols: Sequence[Sequence[int]], maxima: Sequence[float], bins: int) -> list[list[float]]:
    """Values in f32: ``((symbol - c) / c) * maximum``, divided first; the rounding to a target type is the caller's.

    Raises:
        ValueRefusedError: a symbol is above ``bins - 2``.
    """
    centre = centre_of(bins)
    out: list[list[float]] = []
    for index, (row, largest) in enumerate(zip(symbols, maxima, strict=True)):
        for channel, symbol in enumerate(row):
            if not 0 <= symbol <= 2 * centre:
                raise ValueRefusedError(
                    f"row {index}, channel {channel}: expected a symbol up to {2 * centre}, found {symbol}"
                )
        out.append([f32(f32((symbol - centre) / centre) * largest) for symbol in row])
    return out


def cdf_of(symbols: Sequence[int]) -> list[int]:
    """The 33 entries of one channel's distribution: ``floor(65503 * cumulated / n) + i``.

    Strictly increasing from 0 to 65535, so every symbol can be coded.

    Raises:
        BoundsError: no symbol, or one outside 0..31.
    """
    if not symbols:
        raise BoundsError("cdf: expected at least one symbol, found none")
    counts = [0] * ALPHABET
    for symbol in symbols:
        if not 0 <= symbol < ALPHABET:
            raise BoundsError(f"cdf: expected symbols 0 to {ALPHABET - 1}, found {symbol}")
        counts[symbol] += 1
    cumulated, entries = 0, []
    for index in range(CDF_ENTRIES):
        entries.append(CDF_SPREAD * cumulated // len(symbols) + index)
        cumulated += counts[index] if index < ALPHABET else 0
    return entries


def encode_stream(symbols: Sequence[int], cdf: Sequence[int]) -> bytes:
    """One channel's arithmetic-coder stream: precision 16, 32-bit interval, bits MSB first, zero bits to fill a byte.

    Raises:
        ValueRefusedError: a symbol is outside the alphabet.
    """
    low, high, pending = 0, _TOP, 0
    bits: list[int] = []

    def emit(bit: int) -> None:
        nonlocal pending
        bits.append(bit)
        bits.extend([1 - bit] * pending)
        pending = 0

    for symbol in symbols:
        if not 0 <= symbol < ALPHABET:
            raise ValueRefusedError(f"stream: expected symbols 0 to {ALPHABET - 1}, found {symbol}")
        low, high = _narrow(low, high, cdf, symbol)
        while True:
            if high < _HALF:
                emit(0)
            elif low >= _HALF:
                emit(1)
            elif low >= _QUARTER and high < _HALF + _QUARTER:
                pending += 1
                low = (low << 1) & (_HALF - 1)
                high = ((high << 1) | _HALF | 1) & _TOP
                continue
            else:
                break
            low = (low << 1) & _TOP
            high = ((high << 1) | 1) & _TOP
    pending += 1
    emit(0 if low < _QUARTER else 1)
    bits += [0] * (-len(bits) % 8)
    return bytes(int("".join(map(str, bits[at : at + 8])), 2) for at in range(0, len(bits), 8))


def decode_stream(stream: bytes, cdf: Sequence[int], count: int) -> list[int]:
    """The first ``count`` symbols of a stream; zero bits follow its end."""
    position = 0

    def bit() -> int:
        nonlocal position
        byte = stream[position >> 3] if position >> 3 < len(stream) else 0
        position += 1
        return byte >> (7 - (position - 1) % 8) & 1

    low, high, value = 0, _TOP, 0
    for _ in range(32):
        value = value << 1 | bit()
    symbols: list[int] = []
    while len(symbols) < count:
        span = high - low + 1
        target = ((value - low + 1) * 65536 - 1) // span
        symbol = max(index for index in range(ALPHABET) if cdf[index] <= target)
        symbols.append(symbol)
        if len(symbols) == count:
            break
        low, high = _narrow(low, high, cdf, symbol)
        while True:
            if high < _HALF or low >= _HALF:
                pass
            elif low >= _QUARTER and high < _HALF + _QUARTER:
                low -= _QUARTER
                high -= _QUARTER
                value -= _QUARTER
            else:
                break
            low = (low << 1) & _TOP
            high = ((high << 1) | 1) & _TOP
            value = ((value << 1) | bit()) & _TOP
    return symbols


def _narrow(low: int, high: int, cdf: Sequence[int], symbol: int) -> tuple[int, int]:
    """The interval of a symbol; the last symbol reaches to 65536, whatever the table's last entry says."""
    span = high - low + 1
    upper = 65536 if symbol == ALPHABET - 1 else cdf[symbol + 1]
    return (low + (span * cdf[symbol] >> 16)) & _TOP, (low + (span * upper >> 16) - 1) & _TOP


def pack(symbols: Sequence[int], bits: int) -> bytes:
    """LCG2's bit string: symbol ``i`` in bits ``[i * bits, (i + 1) * bits)``, bit 0 being the lowest of byte 0."""
    whole = 0
    for index, symbol in enumerate(symbols):
        if not 0 <= symbol < 1 << bits:
            raise ValueRefusedError(f"symbol {index}: expected {bits} bits, found {symbol}")
        whole |= symbol << (index * bits)
    return whole.to_bytes((len(symbols) * bits + 7) // 8, "little")


def unpack(packed: bytes, count: int, bits: int) -> list[int]:
    """The inverse of `pack`."""
    whole = int.from_bytes(packed, "little")
    return [whole >> (index * bits) & ((1 << bits) - 1) for index in range(count)]
