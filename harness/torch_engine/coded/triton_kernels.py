"""LCG2 tiles decoded by a Triton kernel: packed symbols straight into resident rows, on CUDA and ROCm.

The declared path ``triton``. Importing this module imports triton (extra ``statecert[triton]``); where the environment
says ``TRITON_INTERPRET=1`` before that, the kernel runs in Triton's interpreter, on tensors of the CPU. One product
a value, by a table from the host, and one rounding: nothing could be fused or divided otherwise on another device.
"""

from __future__ import annotations

import os
from typing import Any, Final

import torch
import triton
import triton.language as tl

from harness.codec.bins import BITS, centre_of
from harness.codec.errors import ValueRefusedError

Tensor = torch.Tensor
BLOCK: Final = 1024
"""Values of one program."""
INTERPRETED: Final = os.environ.get("TRITON_INTERPRET", "") == "1"
_OPTIONS: Final[dict[str, Any]] = {} if INTERPRETED else {"num_warps": 4, "enable_fp_fusion": False}


# Triton reads the annotations too, and knows its own only
def _lcg2(
    packed: tl.tensor,
    maxima: tl.tensor,
    table: tl.tensor,
    out: tl.tensor,
    wrong: tl.tensor,
    count: tl.tensor,
    size: tl.tensor,
    channels: tl.tensor,
    row_stride: tl.tensor,
    channel_stride: tl.tensor,
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    index = program * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    bit = index * BITS
    byte = bit // 8
    low = tl.load(packed + byte, mask=inside, other=0).to(tl.int32)
    high = tl.load(packed + byte + 1, mask=inside & (byte + 1 < size), other=0).to(tl.int32)
    symbol = ((low | (high << 8)) >> (bit % 8)) & ((1 << BITS) - 1)
    row = index // channels
    column = index - row * channels
    value = tl.load(table + symbol, mask=inside, other=0.0) * tl.load(maxima + row, mask=inside, other=0.0)
    beyond = tl.where(symbol == (1 << BITS) - 1, 1, 0) | tl.where(tl.abs(value) >= 65520.0, 2, 0)
    tl.store(wrong + program, tl.max(tl.where(inside, beyond, 0), axis=0))
    half = value.to(tl.float16)
    tl.store(out + row * row_stride + column * channel_stride, half.to(out.dtype.element_ty), mask=inside)


_KERNEL: Final[Any] = triton.jit(_lcg2)


def restore_into(packed: Tensor, maxima: Tensor, bins: int, target: Tensor) -> None:
    """A tile of LCG2 into ``target`` [rows, channels], f16 or f32, of any strides, on the same device.

    Args:
        packed: u8, the symbols of the tile.
        maxima: f32 [rows].
        bins: 16 or 32.
        target: where the values go.

    Raises:
        ValueRefusedError: a symbol above its bins, or a value outside f16; the tile may have been written in part.
    """
    rows, channels = target.shape
    programs = -(-rows * channels // BLOCK)
    wrong = torch.zeros(programs, dtype=torch.int32, device=target.device)
    row_stride, channel_stride = target.stride()
    _KERNEL[(programs,)](
        packed,
        maxima,
        _table(bins, target.device),
        target,
        wrong,
        rows * channels,
        len(packed),
        channels,
        row_stride,
        channel_stride,
        BITS=BITS[bins],
        BLOCK=BLOCK,
        **_OPTIONS,
    )
    found = int(wrong.amax())
    if found & 1:
        raise ValueRefusedError(f"tile: expected symbols up to {2 * centre_of(bins)}, found {2 * centre_of(bins) + 1}")
    if found:
        raise ValueRefusedError("tile: expected values in the range of f16, found larger ones")


def _table(bins: int, device: torch.device) -> Tensor:
    """(symbol - centre) / centre of every symbol, made on the host, where division is one rounding."""
    whole = torch.arange(1 << BITS[bins], dtype=torch.float32)
    centre = float(centre_of(bins))
    values = torch.div(whole - centre, torch.full_like(whole, centre))
    values[-1] = 0
    return values.to(device)
