"""The loops that numba compiles: typed arrays, no objects, f32 constants passed in so that nothing widens to f64.

They are ordinary functions of numpy arrays, and slow ones until compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def quantise(tile: Any, centre: Any, smallest: Any, symbols: Any, maxima: Any) -> int:
    """Fills symbols and maxima; the first row that cannot be quantised, or -1."""
    rows, channels = tile.shape
    for row in range(rows):
        largest = np.float32(0)
        broken = False
        for channel in range(channels):
            value = abs(tile[row, channel])
            broken |= not np.isfinite(value)
            largest = max(largest, value)
        if broken or (largest > 0 and largest < smallest):
            return row
        maxima[row] = largest
        factor = np.float32(0) if largest == 0 else np.float32(centre / largest)
        for channel in range(channels):
            scaled = np.float32(tile[row, channel] * factor)
            symbols[row, channel] = np.uint8(np.rint(np.float32(scaled + centre)))
    return -1


def cdfs(symbols: Any, spread: int, out: Any) -> None:
    """Fills [channels, 33]."""
    rows, channels = symbols.shape
    counts = np.zeros((channels, 32), np.int64)
    for row in range(rows):
        for channel in range(channels):
            counts[channel, symbols[row, channel]] += 1
    for channel in range(channels):
        cumulated = 0
        for index in range(33):
            out[channel, index] = spread * cumulated // rows + index
            if index < 32:
                cumulated += counts[channel, index]


def encode(columns: Any, cdf: Any, lengths: Any, room: Any) -> tuple[int, int]:  # noqa: C901 - one loop is what compiles well
    """Streams of all channels into ``room``; 1 and the bytes so far if a stream passes 256 bytes."""
    channels, rows = columns.shape
    used = 0
    for channel in range(channels):
        low, high = np.uint64(0), np.uint64(0xFFFFFFFF)
        pending = 0
        start, limit = used, used + 256
        word, held = np.uint64(0), 0  # bits not yet written, MSB first
        for row in range(rows + 1):
            last = row == rows
            if last:
                # the flush: one more bit, then as many opposites as are held back
                pending += 1
                first = np.uint64(0) if low < np.uint64(0x40000000) else np.uint64(1)
                count, settled = 1, first
                k2 = 0
            else:
                symbol = columns[channel, row]
                span = high - low + np.uint64(1)
                upper = np.uint64(65536) if symbol == 31 else np.uint64(cdf[channel, symbol + 1])
                high = (low + ((span * upper) >> np.uint64(16)) - np.uint64(1)) & np.uint64(0xFFFFFFFF)
                low = (low + ((span * np.uint64(cdf[channel, symbol])) >> np.uint64(16))) & np.uint64(0xFFFFFFFF)
                differ = low ^ high
                count = 0
                while count < 32 and (differ & np.uint64(0x80000000)) == 0:
                    differ = (differ << np.uint64(1)) & np.uint64(0xFFFFFFFF)
                    count += 1
                settled = low >> np.uint64(32 - count)
                ones = (np.uint64(1) << np.uint64(count)) - np.uint64(1)
                low = (low << np.uint64(count)) & np.uint64(0xFFFFFFFF)
                high = ((high << np.uint64(count)) | ones) & np.uint64(0xFFFFFFFF)
                run = ((low & ~high) << np.uint64(1)) & np.uint64(0xFFFFFFFF)
                k2 = 0
                while run & np.uint64(0x80000000):
                    run = (run << np.uint64(1)) & np.uint64(0xFFFFFFFF)
                    k2 += 1
                first = settled >> np.uint64(count - 1) if count else np.uint64(0)
            if count:
                # the first settled bit, the opposites, the other settled bits
                word = (word << np.uint64(1)) | first
                held += 1
                opposite = np.uint64(1) - first
                while pending:
                    if held >= 8:
                        held -= 8
                        if used >= limit:
                            return 1, used
                        room[used] = np.uint8((word >> np.uint64(held)) & np.uint64(255))
                        used += 1
                    word = (word << np.uint64(1)) | opposite
                    held += 1
                    pending -= 1
                rest = count - 1
                word = (word << np.uint64(rest)) | (settled & ((np.uint64(1) << np.uint64(rest)) - np.uint64(1)))
                held += rest
                while held >= 8:
                    held -= 8
                    if used >= limit:
                        return 1, used
                    room[used] = np.uint8((word >> np.uint64(held)) & np.uint64(255))
                    used += 1
                word &= np.uint64(255)
            if not last:
                pending += k2
                low = (low << np.uint64(k2)) & np.uint64(0x7FFFFFFF)
                high = ((high << np.uint64(k2)) & np.uint64(0xFFFFFFFF)) | np.uint64(0x80000000)
                high |= (np.uint64(1) << np.uint64(k2)) - np.uint64(1)
        if held:
            if used >= limit:
                return 1, used
            room[used] = np.uint8((word << np.uint64(8 - held)) & np.uint64(255))
            used += 1
        lengths[channel] = used - start
    return 0, used


def decode(payload: Any, lengths: Any, cdf: Any, columns: Any) -> None:
    """Fills symbols u8 [channels, rows]."""
    channels, rows = columns.shape
    at = 0
    for channel in range(channels):
        end = at + lengths[channel]
        low, high = np.uint64(0), np.uint64(0xFFFFFFFF)
        # the next bits of the stream, at the top of a 64-bit word; zero bits follow its end
        word, held = np.uint64(0), 0
        while held <= 56:
            byte = np.uint64(payload[at]) if at < end else np.uint64(0)
            at += 1
            word |= byte << np.uint64(56 - held)
            held += 8
        value = word >> np.uint64(32)
        word <<= np.uint64(32)
        held -= 32
        for row in range(rows):
            span = high - low + np.uint64(1)
            target = value - low
            symbol = 0
            lower = np.uint64(0)
            upper = (span * np.uint64(cdf[channel, 1])) >> np.uint64(16)
            # a strictly rising table: walk up while the next edge is not above the target
            while symbol < 31 and upper <= target:
                symbol += 1
                lower = upper
                upper = span if symbol == 31 else (span * np.uint64(cdf[channel, symbol + 1])) >> np.uint64(16)
            columns[channel, row] = symbol
            high = (low + upper - np.uint64(1)) & np.uint64(0xFFFFFFFF)
            low = (low + lower) & np.uint64(0xFFFFFFFF)
            differ = low ^ high
            k1 = 0
            while k1 < 32 and (differ & np.uint64(0x80000000)) == 0:
                differ = (differ << np.uint64(1)) & np.uint64(0xFFFFFFFF)
                k1 += 1
            ones = (np.uint64(1) << np.uint64(k1)) - np.uint64(1)
            low = (low << np.uint64(k1)) & np.uint64(0xFFFFFFFF)
            high = ((high << np.uint64(k1)) | ones) & np.uint64(0xFFFFFFFF)
            run = ((low & ~high) << np.uint64(1)) & np.uint64(0xFFFFFFFF)
            k2 = 0
            while run & np.uint64(0x80000000):
                run = (run << np.uint64(1)) & np.uint64(0xFFFFFFFF)
                k2 += 1
            low = (low << np.uint64(k2)) & np.uint64(0x7FFFFFFF)
            high = ((high << np.uint64(k2)) & np.uint64(0xFFFFFFFF)) | np.uint64(0x80000000)
            high |= (np.uint64(1) << np.uint64(k2)) - np.uint64(1)
            if k1:
                value = ((value << np.uint64(k1)) | (word >> np.uint64(64 - k1))) & np.uint64(0xFFFFFFFF)
                word <<= np.uint64(k1)
            if k2:
                low_bits = ((value << np.uint64(k2)) | (word >> np.uint64(64 - k2))) & np.uint64(0x7FFFFFFF)
                value = (value & np.uint64(0x80000000)) | low_bits
                word <<= np.uint64(k2)
            held -= k1 + k2
            while held <= 56:
                byte = np.uint64(payload[at]) if at < end else np.uint64(0)
                at += 1
                word |= byte << np.uint64(56 - held)
                held += 8
        at = end


def pack(symbols: Any, bits: int, out: Any) -> None:
    """Fills the little-endian bit string."""
    word, held, at = np.uint64(0), 0, 0
    for index in range(len(symbols)):
        word |= np.uint64(symbols[index]) << np.uint64(held)
        held += bits
        if held >= 32:
            for _ in range(4):
                out[at] = np.uint8(word & np.uint64(255))
                word >>= np.uint64(8)
                at += 1
            held -= 32
    while held > 0:
        out[at] = np.uint8(word & np.uint64(255))
        word >>= np.uint64(8)
        at += 1
        held -= 8


def unpack(packed: Any, bits: int, out: Any) -> None:
    """The inverse of `pack`."""
    word, held, at = np.uint64(0), 0, 0
    mask = np.uint64((1 << bits) - 1)
    size = len(packed)
    for index in range(len(out)):
        while held < bits:
            byte = np.uint64(packed[at]) if at < size else np.uint64(0)
            word |= byte << np.uint64(held)
            at += 1
            held += 8
        out[index] = np.uint8(word & mask)
        word >>= np.uint64(bits)
        held -= bits


def dequantise(symbols: Any, maxima: Any, table: Any, out: Any) -> None:
    """Fills f32 [rows, channels]."""
    rows, channels = symbols.shape
    for row in range(rows):
        largest = maxima[row]
        for channel in range(channels):
            out[row, channel] = table[symbols[row, channel]] * largest
