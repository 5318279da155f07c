"""ggml's block formats of K/V rows, by the reference rules: 32 values a block, the scale in f16 first, little-endian.

Quantising divides by the *unrounded* f32 scale; reading multiplies by the f16 one. Backends round q8_0 differently (x86
and NEON row quantisers take half to even), so stored q8_0 bytes are compared within one backend only and the rule
belongs in the identity: here it is ``reference``, half away from zero.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from harness.codec.errors import GeometryError, ValueRefusedError

BLOCK: Final = 32
BLOCK_BYTES: Final[dict[str, int]] = {"q8_0": 34, "q4_0": 18}
ROUNDING: Final = "reference"

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


def row_bytes(kind: str, channels: int) -> int:
    """Bytes of a row of ``channels`` values.

    Raises:
        GeometryError: a row is not whole blocks.
    """
    if kind not in BLOCK_BYTES:
        raise GeometryError(f"block type: expected one of {tuple(BLOCK_BYTES)}, found {kind!r}")
    if channels < 1 or channels % BLOCK:
        raise GeometryError(f"{kind}: expected rows of a multiple of {BLOCK} values, found {channels}")
    return channels // BLOCK * BLOCK_BYTES[kind]


def quantise(kind: str, values: F32) -> U8:
    """Rows of values, f32 [rows, channels], to bytes u8 [rows, row bytes].

    Raises:
        GeometryError: a row is not whole blocks.
        ValueRefusedError: a value is not finite, or a scale leaves f16.
    """
    rows, channels = values.shape
    width = row_bytes(kind, channels)
    if not np.isfinite(values).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueRefusedError(f"{kind}, value at {where}: expected a finite value, found {values[where]}")
    blocks = values.reshape(-1, BLOCK).astype(np.float32, copy=False)
    scale, codes = _q8_0(blocks) if kind == "q8_0" else _q4_0(blocks)
    with np.errstate(over="ignore"):
        half = scale.astype("<f2")
    if not np.isfinite(half).all():
        raise ValueRefusedError(f"{kind}: expected scales in the range of f16, found {scale[~np.isfinite(half)][0]}")
    out = np.empty((len(blocks), BLOCK_BYTES[kind]), np.uint8)
    out[:, :2] = half[:, None].view(np.uint8)
    out[:, 2:] = codes
    return out.reshape(rows, width)


def _inverse(scale: F32) -> F32:
    return np.divide(np.float32(1), scale, where=scale != 0, out=np.zeros_like(scale))


def _q8_0(blocks: F32) -> tuple[F32, U8]:
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    scaled = blocks * _inverse(scale)[:, None]
    whole = np.trunc(scaled)
    # half away from zero without roundf: what is left of the value, doubled and cut, is -1, 0 or 1
    codes = whole + np.trunc(np.float32(2) * (scaled - whole))
    return scale, codes.astype(np.int8).view(np.uint8)


def _q4_0(blocks: F32) -> tuple[F32, U8]:
    first = np.abs(blocks).argmax(axis=1)  # the first of equal magnitudes
    # a zero block has the scale -0, whatever the sign of its first zero: a sum with +0 is +0
    scale = (blocks[np.arange(len(blocks)), first] + np.float32(0)) / np.float32(-8)
    codes = np.minimum(np.float32(15), np.trunc(blocks * _inverse(scale)[:, None] + np.float32(8.5))).astype(np.uint8)
    packed: U8 = codes[:, :16] | codes[:, 16:] << 4
    return scale, packed


def dequantise(kind: str, rows: U8) -> F32:
    """Bytes u8 [rows, row bytes] to values f32 [rows, channels].

    Raises:
        GeometryError: a row is not whole blocks.
        ValueRefusedError: a scale is not finite.
    """
    if kind not in BLOCK_BYTES:
        raise GeometryError(f"block type: expected one of {tuple(BLOCK_BYTES)}, found {kind!r}")
    count, width = rows.shape
    if width < 1 or width % BLOCK_BYTES[kind]:
        raise GeometryError(f"{kind}: expected rows of a multiple of {BLOCK_BYTES[kind]} bytes, found {width}")
    blocks = np.ascontiguousarray(rows).reshape(-1, BLOCK_BYTES[kind])
    scale = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(scale))
    if bad.size:
        raise ValueRefusedError(f"{kind}, block {bad[0]}: expected a finite scale, found {scale[bad[0], 0]}")
    body = blocks[:, 2:]
    if kind == "q8_0":
        codes = body.view(np.int8).astype(np.float32)
    else:
        codes = np.concatenate((body & 15, body >> 4), axis=1).astype(np.float32) - np.float32(8)
    out: F32 = (codes * scale).reshape(count, -1)
    return out
