"""LCG1's arithmetic decoder over all streams of many tiles at once, in 32-bit integer operations only.

Unsigned 32-bit numbers live in i32 tensors: sums and products wrap alike, comparisons are made unsigned by flipping the
top bit, shifts to the right are masked. With ``r = high - low`` the product ``((r + 1) * c) >> 16`` modulo 2^32 is
``(r >> 16) * c + (((r & 0xFFFF) + 1) * c >> 16)``. No division, no 64-bit integer, no leading-zero count: what every
device does exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from harness.codec.oracle import ALPHABET
from harness.codec.segments import MAX_STREAM, Segment

Tensor = torch.Tensor
_TOP = -(1 << 31)
_LOW31 = 0x7FFFFFFF
AT_ONCE = 4096
"""Streams that are decoded side by side: a step costs as much for one as for some thousands."""


def decode(segment: Segment, device: torch.device) -> Tensor:
    """Symbols u8 [rows, channels] of a validated LCG1 segment, on ``device``."""
    return decode_side_by_side([segment], device)[0]


def batches(segments: Sequence[Segment], at_once: int = AT_ONCE) -> Iterator[Sequence[Segment]]:
    """Runs of segments of at most ``at_once`` streams together, in their order; a larger segment is a run by itself."""
    run: list[Segment] = []
    for segment in segments:
        if run and sum(one.channels for one in run) + segment.channels > at_once:
            yield run
            run = []
        run.append(segment)
    if run:
        yield run


def decode_side_by_side(segments: Sequence[Segment], device: torch.device) -> Sequence[Tensor]:
    """Symbols u8 [rows, channels] of each of some validated LCG1 segments, on ``device``.

    A stream that ends before the longest one goes on with the zero bits behind its end; what it gives then is dropped.
    """
    symbols = _decode(segments, max(segment.rows for segment in segments), device)
    sides = symbols.split_with_sizes([segment.channels for segment in segments], dim=1)
    return [side[: segment.rows] for segment, side in zip(segments, sides, strict=True)]


def _decode(segments: Sequence[Segment], rows: int, device: torch.device) -> Tensor:
    lengths = np.concatenate([segment.lengths for segment in segments]).astype(np.int64)
    channels = len(lengths)
    padded = np.zeros((channels, MAX_STREAM + 8), np.int32)
    padded[np.arange(MAX_STREAM + 8) < lengths[:, None]] = np.concatenate([segment.payload for segment in segments])
    streams = torch.from_numpy(padded).to(device)
    table = torch.from_numpy(np.concatenate([segment.cdfs for segment in segments]).astype(np.int32)).to(device)
    low = torch.zeros(channels, dtype=torch.int32, device=device)
    high = torch.full_like(low, -1)
    position = torch.zeros(channels, dtype=torch.int64, device=device)
    value = _window(streams, position)
    position = position + 32
    out = torch.empty((rows, channels), dtype=torch.uint8, device=device)
    for row in range(rows):
        span = high - low
        edges = _scaled(span[:, None], table[:, :ALPHABET])
        reached = (edges ^ _TOP) <= ((value - low) ^ _TOP)[:, None]
        symbol = reached.sum(dim=1) - 1
        out[row] = symbol
        if row == rows - 1:
            break
        lower = edges.gather(1, symbol[:, None])[:, 0]
        upper = _scaled(span, table.gather(1, symbol[:, None] + 1)[:, 0])
        high = torch.where(symbol == ALPHABET - 1, high, low + upper - 1)
        low = low + lower
        low, high, value, position = _renormalise(low, high, value, position, streams)
    return out


def _scaled(span: Tensor, edge: Tensor) -> Tensor:
    """``((span + 1) * edge) >> 16`` modulo 2^32, edge below 2^16."""
    upper = _shr(span, 16) * edge
    return upper + _shr(((span & 0xFFFF) + 1) * edge, 16)


def _shr(number: Tensor, by: int) -> Tensor:
    """A shift to the right that brings zeros in."""
    return (number >> by) & (_LOW31 >> (by - 1))


def _leading_zeros(number: Tensor) -> Tensor:
    """Of 32-bit numbers; 32 for zero."""
    zeros = torch.zeros_like(number)
    for step in (16, 8, 4, 2, 1):
        empty = _shr(number, 32 - step) == 0
        zeros = zeros + empty.int() * step
        number = torch.where(empty, number << step, number)
    return zeros + (number == 0).int()


def _shift_in(number: Tensor, by: Tensor, fresh: Tensor) -> Tensor:
    """``number << by`` with the top ``by`` bits of ``fresh`` below it; by from 0 to 31."""
    low = torch.where(by == 0, 0, (fresh >> (32 - by).clamp(max=31)) & ((1 << by) - 1))
    return (number << by) | low


def _renormalise(
    low: Tensor, high: Tensor, value: Tensor, position: Tensor, streams: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Settled bits out, then the middle opened; at most 18 shifts together, so no shift reaches 32."""
    settled = _leading_zeros(low ^ high)
    value = _shift_in(value, settled, _window(streams, position))
    position = position + settled
    low, high = low << settled, (high << settled) | ((1 << settled) - 1)
    opened = _leading_zeros(~((low & ~high) << 1))
    shifted = _shift_in(value, opened, _window(streams, position))
    value = (value & _TOP) | (shifted & _LOW31)
    position = position + opened
    low = (low << opened) & _LOW31
    high = (high << opened) | _TOP | ((1 << opened) - 1)
    return low, high, value, position


def _window(streams: Tensor, position: Tensor) -> Tensor:
    """The 32 bits from a bit position of each stream; zero bits follow its end."""
    byte = (position >> 3).clamp(max=MAX_STREAM)
    bit = (position & 7).int()
    columns = [streams.gather(1, (byte + step)[:, None])[:, 0] for step in range(5)]
    first = columns[0] << 24 | columns[1] << 16 | columns[2] << 8 | columns[3]
    return torch.where(bit == 0, first, (first << bit) | (columns[4] >> (8 - bit)))
