"""The LCG1 coder and the (de)quantisers compiled by numba, one stream at a time; no fast-math, so every rounding stays.

numba is an optional extra (``statecert[codec]``). It is imported by `kernels` and nowhere else.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from harness.codec import loops
from harness.codec.bins import centre_of
from harness.codec.errors import BoundsError, PathError, ValueRefusedError
from harness.codec.oracle import ALPHABET, CDF_ENTRIES, CDF_SPREAD, SMALLEST
from harness.codec.segments import F32, MAX_STREAM, U8, U16, Segment


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
        centre = np.float32(centre_of(bins))
        table = (np.arange(ALPHABET, dtype=np.float32) - centre) / centre
        out = np.empty(symbols.shape, np.float32)
        self._dequantise(np.ascontiguousarray(symbols), np.ascontiguousarray(maxima, np.float32), table, out)
        return out
