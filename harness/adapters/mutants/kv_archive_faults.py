"""Page mutants of the archive and of its import: bins, layout, tiles, what is written when it is refused."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from harness.adapters.mutants.kv_page_mutant import HEAD, RECORD, Caught, PageMutant, head_of, written_again
from harness.codec.archive import Component, Record, read_archive
from harness.codec.bins import BITS
from harness.codec.paths import decode_symbols, encode_tile, f16_values
from harness.torch_engine.coded.restoring import Placed
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.pages import Pager, components
from harness.torch_engine.session import TorchSession


class WrongBinsPager(Pager):
    """Codes layers that should have 32 bins in 16."""

    def coarse(self, parts: Sequence[Component]) -> bool:
        """Whether layers that should have 32 bins get 16."""
        return parts[0].layers >= 10

    def encode(self, page: bytes, parts: Sequence[Component], version: int, path: str) -> bytes:
        """A page to its archive, its fine tiles coded again."""
        own = self.coder(path)

        def coarser(one: Record) -> bytes:
            if one.segment is None or one.segment.bins != 32 or not self.coarse(parts):
                return bytes(one.payload)
            values = own.dequantise(decode_symbols(one.segment, path=own), one.segment.maxima, 32)
            return encode_tile(f16_values(values), bins=16, version=2 if version == 2 else 1, path=own)

        return written_again(read_archive(super().encode(page, parts, version, path)), coarser)


class WrongBins(PageMutant):
    """Deep models take the coarse bins in every layer."""

    mutant_id = "K10.wrong-bins"
    caught_by = Caught("H03", "bins scheduled")
    pager = WrongBinsPager


class _VMissed(Pager):
    def archive(self, session: TorchSession, version: int, path: str, *, transposed: bool = False) -> bytes:
        parts = components(session, session.position, transposed=transposed)
        return self.encode(self.page(session), parts, version, path)


class TransposedVMissed(PageMutant):
    """V of a page that lies channel by channel is filled row by row."""

    mutant_id = "K10.transposed-v-missed"
    caught_by = Caught("H04", "transposed f16")
    pager = _VMissed


class _LongTiles(Pager):
    def encode(self, page: bytes, parts: Sequence[Component], version: int, path: str) -> bytes:
        """One tile of 257 rows in the first layer, packed as LCG2, and the rest of it after that."""
        whole = read_archive(super().encode(page, parts, version, path))
        first, second = whole.records[:2]
        if version != 2 or first.segment is None or second.segment is None or first.tokens != 256:
            return super().encode(page, parts, version, path)
        own, width = self.coder(path), first.decoded // 256
        bins, channels = first.segment.bins, first.segment.channels
        symbols = np.concatenate([decode_symbols(one.segment, path=own) for one in (first, second) if one.segment])
        maxima = np.concatenate([first.segment.maxima, second.segment.maxima])
        made = []
        for low, high in ((0, 257), (257, len(symbols))):
            packed = own.pack(symbols[low:high].reshape(-1), BITS[bins]).tobytes()
            head = struct.pack("<4sBBHII", b"LCG2", bins, BITS[bins], high - low, channels, len(packed))
            payload = head + maxima[low:high].astype("<f4").tobytes() + packed
            where = (first.kind.number, first.kind.size, 0, low * width, (high - low) * width, high - low, 0, 0)
            made.append(RECORD.pack(*where, len(payload)) + payload)
        made += [RECORD.pack(*head_of(one), len(one.payload)) + bytes(one.payload) for one in whole.records[2:]]
        return HEAD.pack(b"CKG1", whole.raw, len(made)) + b"".join(made)


class ChunkOf257(PageMutant):
    """Layers are cut every 257 rows."""

    mutant_id = "K10.chunk-of-257"
    caught_by = Caught("H04", "tiles")
    pager = _LongTiles


class _WritesFirst(Pager):
    def validate(self, data: bytes, targets: Sequence[Tensor]) -> Placed:
        for target in targets:
            target[:1].zero_()
        return super().validate(data, targets)


class WritesBeforeValidating(PageMutant):
    """Room is made in the resident rows before the archive is validated."""

    mutant_id = "K05.archive-written-then-checked"
    caught_by = Caught("H05", "untouched")
    pager = _WritesFirst


class _LenientHead(Pager):
    def validate(self, data: bytes, targets: Sequence[Tensor]) -> Placed:
        cleared = bytearray(data)
        cleared[19:20] = b"\0"
        return super().validate(bytes(cleared), targets)


class ReservedByteNotRead(PageMutant):
    """The second of a record's two reserved bytes may hold anything."""

    mutant_id = "K06.reserved-byte-not-read"
    caught_by = Caught("H05", "flipped bits of a head")
    pager = _LenientHead


class _Half(Pager):
    def wrote(self, pieces: int) -> None:
        if pieces == self.cancel_after:
            self.cancel_after = -1
            raise StopIteration

    def decode(self, placed: Placed, path: str) -> str:
        try:
            return super().decode(placed, path)
        except StopIteration:
            return path


class CancelledImportKept(PageMutant):
    """An import that was cancelled half-way leaves a session that looks whole."""

    mutant_id = "K05.cancelled-import-kept"
    caught_by = Caught("H05", "cancelled")
    pager = _Half


class _IndexCoded(Pager):
    def finish(self, session: TorchSession, meta: object, rest: object, prompt: object) -> None:
        super().finish(session, meta, rest, prompt)  # type: ignore[arg-type] # handed on as it came
        for part in session.layout("session").rows:
            if part.family == "index":
                part.valid().copy_(part.valid().bfloat16())


class IndexRowsNarrowed(PageMutant):
    """Index rows of a page come back in half precision."""

    mutant_id = "K10.index-rows-narrowed"
    caught_by = Caught("H04", "index rows")
    pager = _IndexCoded


class _NoScales(Pager):
    def raw(self, rows: Rows, *, transposed: bool) -> bytes:
        whole = super().raw(rows, transposed=transposed)
        scales = sum(t.numel() * t.element_size() for t in rows.tensors[1:])
        return whole[: len(whole) - scales] + bytes(scales)


class PageScalesDropped(PageMutant):
    """Pages of quantised rows hold the codes and no scales."""

    mutant_id = "K10.page-scales-dropped"
    caught_by = Caught("H04", "exact page i8/i4")
    pager = _NoScales
