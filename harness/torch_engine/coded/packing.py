"""LCG2's fixed-width symbols on u8 tensors, with byte operations only, and the (de)quantiser tile by tile.

Whole-tensor arithmetic leaves the caches; a tile of one layer stays in them, which on a CPU is ten times faster.
"""

from __future__ import annotations

import torch

from harness.codec.bins import BITS, centre_of
from harness.codec.errors import ValueRefusedError
from harness.codec.oracle import SMALLEST

Tensor = torch.Tensor


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
    values = tile.float()
    maxima = values.abs().amax(dim=1)
    if not bool(((maxima == 0) | ((maxima >= SMALLEST) & (maxima < torch.inf))).all()):
        raise ValueRefusedError("tile: expected finite f16 values, found others")
    centre = float(centre_of(bins))
    factor = torch.div(torch.full_like(maxima, centre), maxima).masked_fill_(maxima == 0, 0)
    scaled = torch.mul(values, factor[:, None]).add_(centre)
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
