"""LCG2's fixed-width symbols on u8 tensors, with byte operations only, and the (de)quantiser tile by tile.

Whole-tensor arithmetic leaves the caches; a tile of one layer stays in them, which on a CPU is ten times faster.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import torch

from harness.codec.bins import BITS, centre_of
from harness.codec.errors import ValueRefusedError
from harness.codec.oracle import SMALLEST

Tensor = torch.Tensor
SMALLEST_BEYOND_F16: Final = 65520.0
"""From here on a value is rounded to infinity in f16."""


def unpack(packed: Tensor, count: int, bins: int) -> Tensor:
    """Symbols u8 [count] of LCG2's little-endian bit string.

    Args:
        packed: u8, ``ceil(count * bits / 8)`` bytes.
        count: symbols.
        bins: 16 (4 bits) or 32 (5 bits).
    """
    if BITS[bins] == 4:
        out = torch.empty((len(packed), 2), dtype=torch.uint8, device=packed.device)
        torch.bitwise_and(packed, 15, out=out[:, 0])
        torch.bitwise_right_shift(packed, 4, out=out[:, 1])
        return out.view(-1)[:count]
    whole = len(packed) // 5
    out = torch.empty((whole + 1, 8), dtype=torch.uint8, device=packed.device)
    _unpack5(packed[: whole * 5].view(whole, 5), out[:whole])
    rest = torch.zeros(5, dtype=torch.uint8, device=packed.device)
    rest[: len(packed) - whole * 5] = packed[whole * 5 :]
    _unpack5(rest.view(1, 5), out[whole:])
    return out.view(-1)[:count]


def _unpack5(groups: Tensor, out: Tensor) -> None:
    """Eight symbols of five bytes each: u8 [n, 5] to u8 [n, 8]."""
    first, second, third, fourth, fifth = groups.T.contiguous().unbind(0)
    columns = (
        first,
        (first >> 5).bitwise_or_(second << 3),
        second >> 2,
        (second >> 7).bitwise_or_(third << 1),
        (third >> 4).bitwise_or_(fourth << 4),
        fourth >> 1,
        (fourth >> 6).bitwise_or_(fifth << 2),
        fifth >> 3,
    )
    torch.stack(columns, dim=1, out=out)
    out.bitwise_and_(31)


def pack(symbols: Tensor, bins: int) -> Tensor:
    """The inverse of `unpack`: u8 [count] to bytes."""
    count = len(symbols)
    group, width = (2, 1) if BITS[bins] == 4 else (8, 5)
    padded = torch.zeros(-(-count // group) * group, dtype=torch.uint8, device=symbols.device)
    padded[:count] = symbols
    columns = padded.view(-1, group).T.contiguous().unbind(0)
    if group == 2:
        return columns[0] | columns[1] << 4
    a, b, c, d, e, f, g, h = columns
    out = torch.stack(
        (a | b << 5, b >> 3 | c << 2 | d << 7, d >> 1 | e << 4, e >> 4 | f << 1 | g << 6, g >> 2 | h << 3), dim=1
    )
    return out.reshape(-1)[: (count * width * 8 // group + 7) // 8]


def quantise(tile: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Symbols u8 [rows, channels] and maxima f32 [rows] of one tile of f16 values.

    Divides tensor by tensor: a Python number over a tensor is a reciprocal and a product, which differs.

    Raises:
        ValueRefusedError: a value is not finite, or a row is neither zero nor in the range of f16.
    """
    values = _scratch.take("tile", tile.numel(), torch.float32, tile.device).view(tile.shape)
    values.copy_(tile)
    sizes = _scratch.take("sizes", tile.numel(), torch.float32, tile.device).view(tile.shape)
    maxima = torch.abs(values, out=sizes).amax(dim=1)
    if not bool(((maxima == 0) | ((maxima >= SMALLEST) & (maxima < torch.inf))).all()):
        raise ValueRefusedError("tile: expected finite f16 values, found others")
    centre = float(centre_of(bins))
    factor = torch.div(torch.full_like(maxima, centre), maxima).masked_fill_(maxima == 0, 0)
    scaled = torch.mul(values, factor[:, None], out=values).add_(centre)
    return scaled.round_().to(torch.uint8), maxima


def dequantise_into(symbols: Tensor, maxima: Tensor, bins: int, target: Tensor) -> None:
    """Values of u8 symbols [rows, channels] into ``target``, f16 or f32, of any strides, on the same device.

    In f32, divided first, then one rounding to f16; an f32 target gets the f16 values widened.

    Raises:
        ValueRefusedError: a symbol above its bins, or a value outside f16. Nothing has been written.
    """
    centre = centre_of(bins)
    if int(symbols.max()) > 2 * centre:
        raise ValueRefusedError(f"tile: expected symbols up to {2 * centre}, found {int(symbols.max())}")
    values = symbols.float().sub_(float(centre)).div_(float(centre)).mul_(maxima[:, None])
    half = values.half()
    if bool(half.isinf().any()):
        raise ValueRefusedError("tile: expected values in the range of f16, found larger ones")
    target.copy_(half)


class _Scratch(threading.local):
    """Buffers of one thread that are used again: a tile's worth of fresh memory costs more than the work in it."""

    most = 1 << 25
    """Bytes above which a buffer is not kept."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._tables: dict[tuple[int, torch.device], Tensor] = {}
        self._shifts: dict[torch.device, Tensor] = {}

    def take(self, name: str, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A buffer of so many elements; what is in it means nothing."""
        key = (name, dtype, device)
        held = self._held.get(key)
        if held is None or len(held) < count:
            held = torch.empty(count, dtype=dtype, device=device)
            if held.numel() * held.element_size() <= self.most:
                self._held[key] = held
        return held[:count]

    def pairs(self, bins: int, device: torch.device) -> Tensor:
        """Of every pair of symbols the two values as the 8 bytes of one i64; a symbol that the bins lack is a NaN."""
        key = (bins, device)
        if key not in self._tables:
            count, centre = 1 << BITS[bins], float(centre_of(bins))
            whole = torch.arange(count, dtype=torch.float32, device=device)
            values = torch.div(whole - centre, torch.full_like(whole, centre))
            values[count - 1] = torch.nan
            both = torch.stack((values.repeat(count), values.repeat_interleave(count)), dim=1)
            self._tables[key] = both.contiguous().view(torch.int64).view(-1)
        return self._tables[key]

    def shifts(self, count: int, device: torch.device) -> Tensor:
        """0, 2, 4, 6, 0 and so on: how far the ten bits of a pair lie inside the two bytes where they begin."""
        held = self._shifts.get(device)
        if held is None or len(held) < count:
            held = torch.tensor([0, 2, 4, 6, 0], dtype=torch.int16, device=device).repeat(-(-count // 5))
            self._shifts[device] = held
        return held[:count]


_scratch = _Scratch()


def restore_into(packed: Tensor, maxima: Tensor, bins: int, target: Tensor) -> None:
    """One tile of LCG2 into ``target``: see `restore_together`."""
    restore_together(packed, maxima, bins, [target])


def restore_together(packed: Tensor, maxima: Tensor, bins: int, targets: Sequence[Tensor]) -> None:
    """Tiles of LCG2 whose symbols follow one another without a gap, each into rows of its own, on the same device.

    Two symbols at a time are looked up together; the values are those of `dequantise_into`, bit for bit.

    Args:
        packed: u8, the symbols of all tiles.
        maxima: f32 [rows of all tiles].
        bins: 16 or 32.
        targets: where the values of each tile go, [rows, channels] of f16 or f32 alike, of any strides.

    Raises:
        ValueRefusedError: a symbol above its bins, or a value outside f16. Nothing has been written.
    """
    rows, channels, device = len(maxima), targets[0].shape[1], targets[0].device
    index = _pair_index(packed, bins)
    flat = _scratch.take("values", 2 * len(index), torch.float32, device)
    torch.index_select(_scratch.pairs(bins, device), 0, index, out=flat.view(torch.int64))
    values = flat[: rows * channels].view(rows, channels)
    if bool(values.sum().isnan()):
        raise ValueRefusedError(f"tile: expected symbols up to {2 * centre_of(bins)}, found {2 * centre_of(bins) + 1}")
    values.mul_(maxima[:, None])
    beyond = bool(maxima.amax() >= SMALLEST_BEYOND_F16)
    if targets[0].dtype == torch.float16 and not beyond:
        copy_rows(values, targets)
        return
    half = values.half()
    if beyond and bool(half.isinf().any()):
        raise ValueRefusedError("tile: expected values in the range of f16, found larger ones")
    copy_rows(half, targets)


def copy_rows(values: Tensor, targets: Sequence[Tensor]) -> None:
    """Rows of values into each target after the other."""
    for part, target in zip(values.split_with_sizes([len(one) for one in targets]), targets, strict=True):
        target.copy_(part)


def _pair_index(packed: Tensor, bins: int) -> Tensor:
    """Every two symbols as one number, i32: a byte of 4-bit symbols; of 5-bit ones ten bits of two bytes."""
    device = packed.device
    if BITS[bins] == 4:
        index = _scratch.take("index", len(packed), torch.int32, device)
        return index.copy_(packed)
    size = -(-len(packed) // 5) * 5
    wide = _scratch.take("bytes", size + 1, torch.int16, device)
    wide[len(packed) :] = 0
    wide[: len(packed)].copy_(packed)
    both = _scratch.take("both", size, torch.int16, device)
    torch.bitwise_left_shift(wide[1:], 8, out=both)  # what leaves 16 bits is not of the pair
    both.bitwise_or_(wide[:size])
    torch.bitwise_right_shift(both, _scratch.shifts(size, device), out=both)
    both.bitwise_and_(1023)
    index = _scratch.take("index", size // 5 * 4, torch.int32, device)
    for column in range(4):  # column by column: rows of four are slow to copy
        index[column::4].copy_(both[column::5])
    return index
