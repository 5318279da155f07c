"""The LCG1 coder and the (de)quantisers compiled by numba, one stream at a time; no fast-math, so every rounding stays.

numba is an optional extra (``statecert[codec]``). It is imported by `kernels` and nowhere else.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from harness.codec import blocks, loops
from harness.codec.bins import centre_of
from harness.codec.errors import BoundsError, PathError, ValueRefusedError
from harness.codec.oracle import ALPHABET, CDF_ENTRIES, CDF_SPREAD, SMALLEST
from harness.codec.segments import F16, F32, MAX_STREAM, U8, U16, Segment


def available() -> bool:
    """Whether the compiled path can run here."""
    return importlib.util.find_spec("numba") is not None


@cache
def kernels() -> Kernels:
    """The compiled path; the first call of each step compiles it (seconds, then cached on disk where possible).

    Raises:
        PathError: numba is not installed.
    """
    if not available():
        raise PathError("codec path compiled: expected numba, found none; install statecert[codec], or declare numpy")
    return Kernels()


def _jit(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


class Kernels:
    """The compiled steps, with the signatures of `paths.Coder`."""

    def __init__(self) -> None:
        """Wrap the loops; each is compiled at its first call."""
        self._quantise, self._cdfs, self._encode = _jit(loops.quantise), _jit(loops.cdfs), _jit(loops.encode)
        self._decode, self._dequantise = _jit(loops.decode), _jit(loops.dequantise)
        self._pack, self._unpack = _jit(loops.pack), _jit(loops.unpack)
        self._halves, self._half_of, self._float_of = _jit(loops.halves), _jit(loops.half_of), _jit(loops.float_of)
        self._quantise_blocks = {"q8_0": _jit(loops.q8_0_quantise), "q4_0": _jit(loops.q4_0_quantise)}
        self._read_blocks = {"q8_0": _jit(loops.q8_0_read), "q4_0": _jit(loops.q4_0_read)}

    def quantise(self, tile: F32, bins: int) -> tuple[U8, F32]:
        """As `oracle.quantise`."""
        symbols, maxima = np.empty(tile.shape, np.uint8), np.empty(len(tile), np.float32)
        centre = np.float32(centre_of(bins))
        bad = self._quantise(np.ascontiguousarray(tile), centre, np.float32(SMALLEST), symbols, maxima)
        if bad >= 0:
            raise ValueRefusedError(
                f"row {bad}: expected finite f16 values, found {tile[bad].min()} to {tile[bad].max()}"
            )
        return symbols, maxima

    def cdfs(self, symbols: U8) -> U16:
        """As `oracle.cdf_of`, for every channel."""
        if not len(symbols):
            raise BoundsError("cdf: expected at least one symbol, found none")
        out = np.empty((symbols.shape[1], CDF_ENTRIES), np.uint16)
        self._cdfs(np.ascontiguousarray(symbols), CDF_SPREAD, out)
        return out

    def encode(self, symbols: U8, cdf: U16) -> tuple[U16, U8]:
        """As `oracle.encode_stream`, for every channel."""
        if symbols.size and int(symbols.max()) >= ALPHABET:
            raise ValueRefusedError(f"stream: expected symbols 0 to {ALPHABET - 1}, found {int(symbols.max())}")
        channels = symbols.shape[1]
        lengths, room = np.empty(channels, np.uint16), np.empty(channels * MAX_STREAM, np.uint8)
        code, used = self._encode(np.ascontiguousarray(symbols.T), np.ascontiguousarray(cdf), lengths, room)
        if code:
            raise BoundsError(f"stream: expected at most {MAX_STREAM} bytes; code a tile with its own CDFs")
        return lengths, room[:used]

    def decode(self, segment: Segment) -> U8:
        """As `oracle.decode_stream`, for every channel."""
        columns = np.empty((segment.channels, segment.rows), np.uint8)
        lengths, cdf = np.ascontiguousarray(segment.lengths), np.ascontiguousarray(segment.cdfs)
        self._decode(np.ascontiguousarray(segment.payload), lengths, cdf, columns)
        return np.ascontiguousarray(columns.T)

    def pack(self, symbols: U8, bits: int) -> U8:
        """As `oracle.pack`."""
        out = np.empty((len(symbols) * bits + 7) // 8, np.uint8)
        self._pack(np.ascontiguousarray(symbols), bits, out)
        return out

    def unpack(self, packed: U8, count: int, bits: int) -> U8:
        """As `oracle.unpack`."""
        out = np.empty(count, np.uint8)
        self._unpack(np.ascontiguousarray(packed), bits, out)
        return out

    def dequantise(self, symbols: U8, maxima: F32, bins: int) -> F32:
        """As `oracle.dequantise`."""
        out = np.empty(symbols.shape, np.float32)
        centre = np.float32(centre_of(bins))
        self._dequantise(np.ascontiguousarray(symbols), np.ascontiguousarray(maxima, np.float32), centre, out)
        return out

    def halves(self, symbols: U8, maxima: F32, bins: int) -> F16 | None:
        """As `oracle.dequantise`, rounded to f16; None where a value may leave its range, which others then tell."""
        centre = np.float32(centre_of(bins))
        table = (np.arange(2 * centre_of(bins) + 1, dtype=np.float32) - centre) / centre
        out = np.empty(symbols.shape, np.uint16)
        most = np.ascontiguousarray(maxima, np.float32)
        fits = self._halves(np.ascontiguousarray(symbols), most, table, self._half_of, out)
        return out.view(np.float16) if fits else None

    def quantise_blocks(self, kind: str, values: F32) -> U8 | None:
        """As `blocks.quantise`; None where a block cannot be stored, which that function then tells."""
        rows, channels = values.shape
        out = np.empty((rows * channels // blocks.BLOCK, blocks.BLOCK_BYTES[kind]), np.uint8)
        groups = np.ascontiguousarray(values, np.float32).reshape(-1, blocks.BLOCK)
        bad = self._quantise_blocks[kind](groups, self._half_of, out)
        return out.reshape(rows, -1) if bad < 0 else None

    def read_blocks(self, kind: str, rows: U8) -> F32 | None:
        """As `blocks.dequantise`; None where a scale is not finite, which that function then tells."""
        groups = np.ascontiguousarray(rows).reshape(-1, blocks.BLOCK_BYTES[kind])
        out = np.empty((len(groups), blocks.BLOCK), np.float32)
        bad = self._read_blocks[kind](groups, blocks.BLOCK // 2, self._float_of, out)
        return out.reshape(len(rows), -1) if bad < 0 else None
