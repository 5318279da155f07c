"""Page mutants of the coder: quantiser, tables, packing, decoder. Each is stopped by the bytes or the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from harness.adapters.mutants.kv_page_mutant import Caught, PageMutant, written_again
from harness.codec.archive import Component, Record, read_archive
from harness.codec.paths import Coder
from harness.torch_engine.coded.restoring import Placed
from harness.torch_engine.pages import Pager


class _CdfOff(Pager):
    def coder(self, path: str) -> Coder:
        whole = super().coder(path)

        def off(symbols: np.ndarray) -> np.ndarray:
            made = whole.cdfs(symbols).astype(np.int64)
            made[:, 1:-1] += np.diff(made, axis=1)[:, 1:] > 1
            return made.astype(np.uint16)

        return replace(whole, cdfs=off)


class CdfOffByOne(PageMutant):
    """CDFs are rounded up by one where there is room: what it writes it reads, and nobody else does."""

    mutant_id = "K10.cdf-off-by-one"
    caught_by = Caught("H01", "wave lcg1 16")
    pager = _CdfOff


class _HighFirst(Pager):
    def coder(self, path: str) -> Coder:
        whole = super().coder(path)

        def swapped(symbols: np.ndarray, bits: int) -> np.ndarray:
            made = np.unpackbits(whole.pack(symbols, bits)).reshape(-1, 8)[:, ::-1]
            return np.packbits(np.ascontiguousarray(made))

        return replace(whole, pack=swapped)


class BitOrderSwapped(PageMutant):
    """Packed symbols fill each byte from its highest bit."""

    mutant_id = "K10.bit-order-swapped"
    caught_by = Caught("H01", "wave lcg2 16")
    pager = _HighFirst


class _RoundsDown(Pager):
    def coder(self, path: str) -> Coder:
        whole = super().coder(path)

        def cut(tile: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
            _, maxima = whole.quantise(tile, bins)
            centre = np.float32(bins // 2 - 1)
            factor = np.divide(centre, maxima, where=maxima != 0, out=np.zeros_like(maxima))
            scaled = (tile * factor[:, None]).astype(np.float32) + centre
            return np.floor(scaled + np.float32(0.5)).astype(np.uint8), maxima

        return replace(whole, quantise=cut)


class SymbolsRoundHalfUp(PageMutant):
    """Symbols are rounded half up instead of half to even."""

    mutant_id = "K10.symbols-half-up"
    caught_by = Caught("H01", "tiny lcg1 16")
    pager = _RoundsDown


class _NarrowMaxima(Pager):
    def encode(self, page: bytes, parts: Sequence[Component], version: int, path: str) -> bytes:
        def narrowed(one: Record) -> bytes:
            payload = bytearray(one.payload)
            if one.segment is not None and version == 2:
                rows = np.frombuffer(payload, "<u4", one.segment.rows, 16)
                payload[16 : 16 + rows.nbytes] = (rows & 0xFFFF0000).astype("<u4").tobytes()
            return bytes(payload)

        return written_again(read_archive(super().encode(page, parts, version, path)), narrowed)


class PackedMaximaNarrowed(PageMutant):
    """Packed segments keep the maxima of their rows in half of the bits: the symbols are right, the values are not."""

    mutant_id = "K10.packed-maxima-narrowed"
    caught_by = Caught("H02", "rows f16/f16")
    pager = _NarrowMaxima


class _StopsEarly(Pager):
    def decode(self, placed: Placed, path: str) -> str:
        ran = super().decode(placed, path)
        for record, target in placed.rows:
            if record.segment is not None and record.segment.version == 1 and len(target) > 1:
                target[-1] = target[-2]
        return ran


class LastSymbolRepeated(PageMutant):
    """The arithmetic decoder stops one symbol early and gives the last one twice."""

    mutant_id = "K10.last-symbol-repeated"
    caught_by = Caught("H02", "rows f16/f16")
    pager = _StopsEarly


class _OtherRule(Pager):
    def decode(self, placed: Placed, path: str) -> str:
        ran = super().decode(placed, path)
        for _, target in placed.rows:
            if target.dtype == torch.float16:
                target.mul_(1.0009765625)
        return ran


class DeviceRoundsElsewhere(PageMutant):
    """The decoder of the device gives values a unit in the last place beside those of the reference."""

    mutant_id = "K10.device-rounds-elsewhere"
    caught_by = Caught("H10", "restored f16/q8_0")
    pager = _OtherRule
