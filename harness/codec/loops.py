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
    """Fills [channels, 33], 128 channels at a time so that their counts stay in the nearest cache."""
    rows, channels = symbols.shape
    scaled = np.empty(rows + 1, np.uint16)
    for count in range(rows + 1):
        scaled[count] = spread * count // rows
    counts = np.empty((128, 32), np.uint16)
    for first in range(0, channels, 128):
        some = min(128, channels - first)
        counts[:] = 0
        for row in range(rows):
            for channel in range(some):
                counts[channel, symbols[row, first + channel]] += np.uint16(1)
        for channel in range(some):
            cumulated = 0
            for index in range(32):
                out[first + channel, index] = scaled[cumulated] + index
                cumulated += counts[channel, index]
            out[first + channel, 32] = scaled[cumulated] + 32


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
    """The inverse of `pack`: whole groups of bytes without a carried word, which vectorises, then what is left."""
    count, size = len(out), len(packed)
    groups = min(count // 8, size // bits)
    if bits == 4:
        for at in range(groups * 4):
            out[2 * at] = packed[at] & 15
            out[2 * at + 1] = packed[at] >> 4
    else:
        for group in range(groups):
            at, to = 5 * group, 8 * group
            a, b, c, d, e = packed[at], packed[at + 1], packed[at + 2], packed[at + 3], packed[at + 4]
            out[to] = a & 31
            out[to + 1] = ((a >> 5) | (b << 3)) & 31
            out[to + 2] = (b >> 2) & 31
            out[to + 3] = ((b >> 7) | (c << 1)) & 31
            out[to + 4] = ((c >> 4) | (d << 4)) & 31
            out[to + 5] = (d >> 1) & 31
            out[to + 6] = ((d >> 6) | (e << 2)) & 31
            out[to + 7] = e >> 3
    word, held, at = np.uint64(0), 0, groups * bits
    mask = np.uint64((1 << bits) - 1)
    for index in range(groups * 8, count):
        while held < bits:
            byte = np.uint64(packed[at]) if at < size else np.uint64(0)
            word |= byte << np.uint64(held)
            at += 1
            held += 8
        out[index] = np.uint8(word & mask)
        word >>= np.uint64(bits)
        held -= bits


def halves(symbols: Any, maxima: Any, table: Any, half_of: Any, out: Any) -> bool:
    """Fills the bits of f16 values u16 [rows, channels] by a table for each row; False if a maximum may leave f16."""
    rows, channels = symbols.shape
    count = len(table)
    bits = np.empty(count, np.uint16)
    for row in range(rows):
        largest = maxima[row]
        if not largest < np.float32(65520):
            return False
        for symbol in range(count):
            bits[symbol] = half_of(np.float32(table[symbol] * largest))
        for channel in range(channels):
            out[row, channel] = bits[symbols[row, channel]]
    return True


def half_of(value: Any) -> Any:
    """The bits of the f16 that is nearest to an f32 below 65,520, ties to even."""
    word = np.float32(value).view(np.uint32)
    sign = (word >> np.uint32(16)) & np.uint32(0x8000)
    size = word & np.uint32(0x7FFFFFFF)
    if size < np.uint32(0x38800000):  # below 2^-14: steps of 2^-24
        return np.uint16(np.uint32(np.rint(abs(value) * np.float32(16777216))) | sign)
    odd = (size >> np.uint32(13)) & np.uint32(1)
    return np.uint16((((size + np.uint32(0xFFF) + odd) >> np.uint32(13)) - np.uint32(0x1C000)) | sign)


def float_of(half: Any) -> Any:
    """The f32 of the bits of a finite f16."""
    word = np.uint32(half)
    size = word & np.uint32(0x7FFF)
    value = np.float32(np.float32(size) * np.float32(5.9604644775390625e-08))  # a subnormal one: so many steps of 2^-24
    if size >= np.uint32(0x400):
        value = np.uint32((size << np.uint32(13)) + np.uint32(0x38000000)).view(np.float32)
    return np.float32(-value) if word & np.uint32(0x8000) else value


def q8_0_quantise(values: Any, half_of: Any, out: Any) -> int:
    """Fills blocks u8 [blocks, 34] from f32 [blocks, 32]; the first block that cannot be stored, or -1."""
    for block in range(len(values)):
        largest = np.float32(0)
        broken = False
        for index in range(32):
            value = abs(values[block, index])
            broken |= not np.isfinite(value)
            largest = max(largest, value)
        scale = np.float32(largest / np.float32(127))
        if broken or not scale < np.float32(65520):
            return block
        inverse = np.float32(0) if scale == 0 else np.float32(np.float32(1) / scale)
        bits = half_of(scale)
        out[block, 0], out[block, 1] = np.uint8(bits & 255), np.uint8(bits >> 8)
        for index in range(32):
            scaled = np.float32(values[block, index] * inverse)
            whole = np.trunc(scaled)
            out[block, 2 + index] = np.uint8(np.int8(whole + np.trunc(np.float32(2) * np.float32(scaled - whole))))
    return -1


def q4_0_quantise(values: Any, half_of: Any, out: Any) -> int:
    """Fills blocks u8 [blocks, 18] from f32 [blocks, 32]; the first block that cannot be stored, or -1."""
    codes = np.empty(32, np.uint8)
    for block in range(len(values)):
        largest, signed = np.float32(0), np.float32(0)
        broken = False
        for index in range(32):
            value = values[block, index]
            broken |= not np.isfinite(value)
            if abs(value) > largest:
                largest, signed = abs(value), value
        scale = np.float32(signed / np.float32(-8))
        if broken or not abs(scale) < np.float32(65520):
            return block
        inverse = np.float32(0) if scale == 0 else np.float32(np.float32(1) / scale)
        bits = half_of(scale)
        out[block, 0], out[block, 1] = np.uint8(bits & 255), np.uint8(bits >> 8)
        for index in range(32):
            raised = np.float32(np.float32(values[block, index] * inverse) + np.float32(8.5))
            codes[index] = np.uint8(min(np.float32(15), np.trunc(raised)))
        for index in range(16):
            out[block, 2 + index] = codes[index] | (codes[index + 16] << 4)
    return -1


def q8_0_read(blocks: Any, half: int, float_of: Any, out: Any) -> int:
    """Fills f32 [blocks, 32]; the first block whose scale is not finite, or -1.

    Half a block (16) comes as an argument: a loop of a length that the compiler knew would be unrolled into single
    values before it could become one over vectors, and take three times as long.
    """
    codes = blocks.view(np.int8)
    for block in range(len(blocks)):
        bits = np.uint16(blocks[block, 0]) | np.uint16(blocks[block, 1]) << np.uint16(8)
        if bits & 0x7C00 == 0x7C00:
            return block
        scale = np.float32(float_of(bits))
        for index in range(2 * half):
            out[block, index] = np.float32(codes[block, 2 + index]) * scale
    return -1


def q4_0_read(blocks: Any, half: int, float_of: Any, out: Any) -> int:
    """Fills f32 [blocks, 32]; the first block whose scale is not finite, or -1. Half a block as in `q8_0_read`."""
    for block in range(len(blocks)):
        bits = np.uint16(blocks[block, 0]) | np.uint16(blocks[block, 1]) << np.uint16(8)
        if bits & 0x7C00 == 0x7C00:
            return block
        scale = np.float32(float_of(bits))
        for index in range(half):
            out[block, index] = (np.float32(blocks[block, 2 + index] & 15) - np.float32(8)) * scale
        for index in range(half):
            out[block, half + index] = (np.float32(blocks[block, 2 + index] >> 4) - np.float32(8)) * scale
    return -1


def dequantise(symbols: Any, maxima: Any, centre: Any, out: Any) -> None:
    """Fills f32 [rows, channels]."""
    rows, channels = symbols.shape
    for row in range(rows):
        largest = maxima[row]
        for channel in range(channels):
            out[row, channel] = np.float32((np.float32(symbols[row, channel]) - centre) / centre) * largest
