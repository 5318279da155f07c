"""An archive's tiles of LCG2 decoded by Triton kernels, straight into resident rows, on CUDA and ROCm.

The declared path ``triton``. Importing this module imports triton (extra ``statecert[triton]``); where the environment
says ``TRITON_INTERPRET=1`` before that, the kernels run in Triton's interpreter, on tensors of the CPU. One launch for
each element type of the rows, over all its tiles. A value is one product, by a table from the host, and one rounding;
blocks are quantised where they are decoded, with products, sums and divisions that are rounded on their own: nothing
could be fused or divided otherwise on another device.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import torch
import triton
import triton.language as tl

from harness.codec.archive import Record
from harness.torch_engine.coded import tiles

Tensor = torch.Tensor
BLOCK: Final = 1024
"""Values of one program: 32 blocks of 32."""
INTERPRETED: Final = os.environ.get("TRITON_INTERPRET", "") == "1"
_OPTIONS: Final[dict[str, Any]] = {} if INTERPRETED else {"num_warps": 4, "enable_fp_fusion": False}


# Triton reads the annotations too, and knows its own only
def _coded(
    tile: tl.tensor,
    symbols: tl.tensor,
    maxima: tl.tensor,
    values: tl.tensor,
    index: tl.tensor,
    inside: tl.tensor,
) -> tl.tensor:
    """Values of a tile, rounded to f16, and the bits of what is wrong with each."""
    channels = tl.load(tile + 3).to(tl.int32)
    bits = tl.load(tile + 4).to(tl.int32)
    packed = symbols + tl.load(tile)
    bit = index * bits
    low = tl.load(packed + (bit >> 3), mask=inside, other=0).to(tl.int32)
    high = tl.load(packed + (bit >> 3) + 1, mask=inside, other=0).to(tl.int32)  # behind the tile: of no symbol
    last = (1 << bits) - 1
    symbol = ((low | (high << 8)) >> (bit & 7)) & last
    largest = tl.load(maxima + tl.load(tile + 1) + index // channels, mask=inside, other=0.0)
    value = tl.load(values + (bits - 4) * 32 + symbol) * largest
    wrong = tl.where(symbol == last, 1, 0) | tl.where(tl.abs(value) >= 65520.0, 2, 0)
    return value.to(tl.float16), tl.where(inside, wrong, 0)


_coded_jit: Final[Any] = triton.jit(_coded)


def _rows(
    table: tl.tensor,
    refused: tl.tensor,
    values: tl.tensor,
    maxima: tl.tensor,
    symbols: tl.tensor,
    first: tl.tensor,
    out_type: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Rows of f16 or f32."""
    number = first + tl.program_id(0)
    tile = table + number * 8
    count = tl.load(tile + 2).to(tl.int32)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    half, wrong = _coded_jit(tile, symbols, maxima, values, index, inside)
    found = tl.max(wrong & 1, axis=0) | tl.max(wrong & 2, axis=0)
    tl.atomic_or(refused + number, found, mask=found != 0)
    channels = tl.load(tile + 3).to(tl.int32)
    row = index // channels
    place = row.to(tl.int64) * tl.load(tile + 6) + (index - row * channels).to(tl.int64) * tl.load(tile + 7)
    tl.store(tl.load(tile + 5).to(tl.pointer_type(out_type)) + place, half.to(out_type), mask=inside)


def _blocks(
    table: tl.tensor,
    refused: tl.tensor,
    values: tl.tensor,
    maxima: tl.tensor,
    symbols: tl.tensor,
    first: tl.tensor,
    nibbles: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Rows of ggml's blocks of 32: a scale in f16, then the codes of ``q8_0`` or, of ``nibbles``, of ``q4_0``."""
    SIZE: tl.constexpr = 18 if nibbles else 34
    number = first + tl.program_id(0)
    tile = table + number * 8
    count = tl.load(tile + 2).to(tl.int32)
    block = tl.program_id(1) * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    lane = tl.arange(0, 16)
    index = block[:, None] * 32 + lane[None, :]
    inside = index < count
    lower, wrong_lower = _coded_jit(tile, symbols, maxima, values, index, inside)
    upper, wrong_upper = _coded_jit(tile, symbols, maxima, values, index + 16, inside)
    wrong = wrong_lower | wrong_upper
    found = tl.max(tl.max(wrong & 1, axis=1), axis=0) | tl.max(tl.max(wrong & 2, axis=1), axis=0)
    tl.atomic_or(refused + number, found, mask=found != 0)

    low, high = lower.to(tl.float32), upper.to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(low), axis=1), tl.max(tl.abs(high), axis=1))
    if nibbles:
        place = tl.minimum(
            tl.min(tl.where(tl.abs(low) == largest[:, None], lane[None, :], 32), axis=1),
            tl.min(tl.where(tl.abs(high) == largest[:, None], lane[None, :] + 16, 32), axis=1),
        )
        chosen = tl.where(lane[None, :] == place[:, None], low, 0.0)
        chosen_high = tl.where(lane[None, :] + 16 == place[:, None], high, 0.0)
        extreme = tl.sum(chosen, axis=1) + tl.sum(chosen_high, axis=1)
        scale = tl.div_rn(extreme, tl.full(extreme.shape, -8.0, tl.float32))
    else:
        scale = tl.div_rn(largest, tl.full(largest.shape, 127.0, tl.float32))
    none = scale == 0.0
    inverse = tl.where(none, 0.0, tl.div_rn(tl.full(scale.shape, 1.0, tl.float32), tl.where(none, 1.0, scale)))
    low, high = low * inverse[:, None], high * inverse[:, None]

    across = tl.load(tile + 3).to(tl.int32) // 32
    row = block // across
    row_stride, step = tl.load(tile + 6), tl.load(tile + 7)
    start = row.to(tl.int64) * row_stride + (block - row * across).to(tl.int64) * (SIZE * step)
    out = tl.load(tile + 5).to(tl.pointer_type(tl.uint8)) + start
    there = block * 32 < count
    bits = scale.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32)
    tl.store(out, (bits & 255).to(tl.uint8), mask=there)
    tl.store(out + step, ((bits >> 8) & 255).to(tl.uint8), mask=there)
    codes = out[:, None] + (lane[None, :].to(tl.int64) + 2) * step
    if nibbles:  # cut towards zero, which is down, at most 15
        low_code = tl.minimum((low + 8.5).to(tl.int32), 15)
        high_code = tl.minimum((high + 8.5).to(tl.int32), 15)
        tl.store(codes, (low_code | (high_code << 4)).to(tl.uint8), mask=inside)
    else:  # half away from zero: what is left of a value, doubled and cut, is -1, 0 or 1
        low_whole, high_whole = low.to(tl.int32), high.to(tl.int32)
        low_code = low_whole + ((low - low_whole.to(tl.float32)) * 2.0).to(tl.int32)
        high_code = high_whole + ((high - high_whole.to(tl.float32)) * 2.0).to(tl.int32)
        tl.store(codes, (low_code & 255).to(tl.uint8), mask=inside)
        tl.store(codes + 16 * step, (high_code & 255).to(tl.uint8), mask=inside)


ROWS: Final[Any] = triton.jit(_rows, do_not_specialize=["first"])
BLOCKS: Final[Any] = triton.jit(_blocks, do_not_specialize=["first"])
KERNELS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "f16": (ROWS, {"out_type": tl.float16}),
    "f32": (ROWS, {"out_type": tl.float32}),
    "q8_0": (BLOCKS, {"nibbles": False}),
    "q4_0": (BLOCKS, {"nibbles": True}),
}
"""Kernel and constants of each element type of rows."""


def restore(placed: Sequence[tuple[Record, Tensor]], device: torch.device) -> None:
    """Decode all tiles of LCG2 among some records into their rows: sent once, one launch for each type of rows.

    Args:
        placed: as `restoring.Placed.rows`, rows on ``device``, of any strides; records of other kinds are left out.
        device: where the rows lie; in the interpreter the CPU.

    Raises:
        ValueRefusedError: a symbol above its bins, or a value outside f16; other tiles have been written.
    """
    batch = tiles.gather(placed)
    sent = tiles.send(batch, device)
    with torch.cuda.device_of(sent.table):  # type: ignore[no-untyped-call] # torch's
        for one in batch.launches:
            kernel, constants = KERNELS[one.element]
            launch(kernel, one, sent, constants)
    tiles.check(batch, sent, placed)


def launch(kernel: Any, one: tiles.Launch, sent: tiles.Sent, constants: dict[str, Any]) -> None:
    """Programs of one launch: tiles by pieces of the largest of them."""
    kernel[(one.count, -(-one.largest // BLOCK))](
        sent.table,
        sent.refused,
        sent.values,
        sent.maxima,
        sent.symbols,
        one.first,
        **constants,
        BLOCK=BLOCK,
        **_OPTIONS,
    )
