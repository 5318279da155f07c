"""Pages with one planted fault each; the campaign ``kv`` must stop every one of them at the entry that it names."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, ClassVar

import numpy as np
import torch
from torch import Tensor

from harness.adapters.torch_adapter import TorchAdapter
from harness.adapters.torch_pages import TorchPages
from harness.codec.archive import Component, decode_page, read_archive
from harness.codec.bins import BITS
from harness.codec.errors import GeometryError
from harness.codec.identity import Class, CodecIdentity
from harness.codec.paths import Coder, coder, decode_symbols, encode_tile, f16_values
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.coded.shelf import Entry, PageShelf
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.kv.elements import Blocked, ElementType, Nibbles, Scaled, half_away, inverse
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.pages import Pager, components
from harness.torch_engine.session import TorchSession

_HEAD = struct.Struct("<4sQI")
_RECORD = struct.Struct("<BBHQQQQQQ")


@dataclass(frozen=True, slots=True)
class Caught:
    """The entry that must fail, and the probe in it; or the reason that every cell of a small matrix must give."""

    entry: str
    probe: str
    model: str = ""
    """The model of that matrix; empty: it is a probe."""


class PageMutant(TorchAdapter):
    """An adapter whose pages have one fault."""

    mutant_id: ClassVar[str] = ""
    caught_by: ClassVar[Caught]


# -- the coder -------------------------------------------------------------------------------------


class _CdfOff(Pager):
    def coder(self, path: str) -> Coder:
        whole = super().coder(path)

        def off(symbols: np.ndarray) -> np.ndarray:
            made = whole.cdfs(symbols).astype(np.int64)
            made[:, 1:-1] += np.diff(made, axis=1)[:, 1:] > 1
            return made.astype(np.uint16)

        return replace(whole, cdfs=off)


class _CdfOffPages(TorchPages):
    pager_class = _CdfOff


class CdfOffByOne(PageMutant):
    """CDFs are rounded up by one where there is room: what it writes it reads, and nobody else does."""

    mutant_id = "K10.cdf-off-by-one"
    caught_by = Caught("H01", "wave lcg1 16")
    pages_class = _CdfOffPages


class _HighFirst(Pager):
    def coder(self, path: str) -> Coder:
        whole = super().coder(path)

        def swapped(symbols: np.ndarray, bits: int) -> np.ndarray:
            made = np.unpackbits(whole.pack(symbols, bits)).reshape(-1, 8)[:, ::-1]
            return np.packbits(np.ascontiguousarray(made))

        return replace(whole, pack=swapped)


class _HighFirstPages(TorchPages):
    pager_class = _HighFirst


class BitOrderSwapped(PageMutant):
    """Packed symbols fill each byte from its highest bit."""

    mutant_id = "K10.bit-order-swapped"
    caught_by = Caught("H01", "wave lcg2 16")
    pages_class = _HighFirstPages


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


class _RoundsDownPages(TorchPages):
    pager_class = _RoundsDown


class SymbolsRoundHalfUp(PageMutant):
    """Symbols are rounded half up instead of half to even."""

    mutant_id = "K10.symbols-half-up"
    caught_by = Caught("H01", "tiny lcg1 16")
    pages_class = _RoundsDownPages


class _NarrowMaxima(Pager):
    def encode(self, page: bytes, parts: Sequence[Component], version: int, path: str) -> bytes:
        archive = read_archive(super().encode(page, parts, version, path))
        made = []
        for one in archive.records:
            payload = bytearray(one.payload)
            if one.segment is not None and version == 2:
                rows = np.frombuffer(payload, "<u4", one.segment.rows, 16)
                payload[16 : 16 + rows.nbytes] = (rows & 0xFFFF0000).astype("<u4").tobytes()
            head = (one.kind.number, one.kind.size, 0, one.offset, one.decoded, one.tokens, one.start, one.total)
            made.append(_RECORD.pack(*head, len(payload)) + bytes(payload))
        return _HEAD.pack(b"CKG1", archive.raw, len(made)) + b"".join(made)


class _NarrowMaximaPages(TorchPages):
    pager_class = _NarrowMaxima


class PackedMaximaNarrowed(PageMutant):
    """Packed segments keep the maxima of their rows in half of the bits: the symbols are right, the values are not."""

    mutant_id = "K10.packed-maxima-narrowed"
    caught_by = Caught("H02", "rows f16/f16")
    pages_class = _NarrowMaximaPages


class _StopsEarly(Pager):
    def decode(self, data: bytes, targets: Sequence[Tensor], path: str) -> None:
        super().decode(data, targets, path)
        coded = [one for one in read_archive(data).records if one.segment is not None]
        if coded and coded[0].segment is not None and coded[0].segment.version == 1:
            for target in targets:
                if target.dim() == 2 and len(target) > 1:
                    target[-1] = target[-2]


class _StopsEarlyPages(TorchPages):
    pager_class = _StopsEarly


class LastSymbolRepeated(PageMutant):
    """The arithmetic decoder stops one symbol early and gives the last one twice."""

    mutant_id = "K10.last-symbol-repeated"
    caught_by = Caught("H02", "rows f16/f16")
    pages_class = _StopsEarlyPages


# -- the archive -----------------------------------------------------------------------------------


class _WrongBins(Pager):
    def coarse(self, parts: Sequence[Component]) -> bool:
        """Whether layers that should have 32 bins get 16."""
        return parts[0].layers >= 10

    def encode(self, page: bytes, parts: Sequence[Component], version: int, path: str) -> bytes:
        archive, own = read_archive(super().encode(page, parts, version, path)), self.coder(path)
        made = []
        for one in archive.records:
            payload = bytes(one.payload)
            if one.segment is not None and one.segment.bins == 32 and self.coarse(parts):
                values = own.dequantise(decode_symbols(one.segment, path=own), one.segment.maxima, 32)
                payload = encode_tile(f16_values(values), bins=16, version=2 if version == 2 else 1, path=own)
            head = (one.kind.number, one.kind.size, 0, one.offset, one.decoded, one.tokens, one.start, one.total)
            made.append(_RECORD.pack(*head, len(payload)) + payload)
        return _HEAD.pack(b"CKG1", archive.raw, len(made)) + b"".join(made)


class _WrongBinsPages(TorchPages):
    pager_class = _WrongBins


class WrongBins(PageMutant):
    """Deep models take the coarse bins in every layer."""

    mutant_id = "K10.wrong-bins"
    caught_by = Caught("H03", "bins scheduled")
    pages_class = _WrongBinsPages


class _VMissed(Pager):
    def archive(self, session: TorchSession, version: int, path: str, *, transposed: bool = False) -> bytes:
        parts = components(session, session.position, transposed=transposed)
        return self.encode(self.page(session), parts, version, path)


class _VMissedPages(TorchPages):
    pager_class = _VMissed


class TransposedVMissed(PageMutant):
    """V of a page that lies channel by channel is filled row by row."""

    mutant_id = "K10.transposed-v-missed"
    caught_by = Caught("H04", "transposed f16")
    pages_class = _VMissedPages


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
            made.append(_RECORD.pack(*where, len(payload)) + payload)
        for one in whole.records[2:]:
            head_of = (one.kind.number, one.kind.size, 0, one.offset, one.decoded, one.tokens, one.start, one.total)
            made.append(_RECORD.pack(*head_of, len(one.payload)) + bytes(one.payload))
        return _HEAD.pack(b"CKG1", whole.raw, len(made)) + b"".join(made)


class _LongTilesPages(TorchPages):
    pager_class = _LongTiles


class ChunkOf257(PageMutant):
    """Layers are cut every 257 rows."""

    mutant_id = "K10.chunk-of-257"
    caught_by = Caught("H04", "tiles")
    pages_class = _LongTilesPages


class _WritesFirst(Pager):
    def validate(self, data: bytes, targets: Sequence[Tensor]) -> None:
        for target in targets:
            target[:1].zero_()
        super().validate(data, targets)


class _WritesFirstPages(TorchPages):
    pager_class = _WritesFirst


class WritesBeforeValidating(PageMutant):
    """Room is made in the resident rows before the archive is validated."""

    mutant_id = "K05.archive-written-then-checked"
    caught_by = Caught("H05", "untouched")
    pages_class = _WritesFirstPages


class _Half(Pager):
    def wrote(self, pieces: int) -> None:
        if pieces == self.cancel_after:
            self.cancel_after = -1
            raise StopIteration

    def decode(self, data: bytes, targets: Sequence[Tensor], path: str) -> None:
        try:
            super().decode(data, targets, path)
        except StopIteration:
            return


class _HalfPages(TorchPages):
    pager_class = _Half


class CancelledImportKept(PageMutant):
    """An import that was cancelled half-way leaves a session that looks whole."""

    mutant_id = "K05.cancelled-import-kept"
    caught_by = Caught("H05", "cancelled")
    pages_class = _HalfPages


class _IndexCoded(Pager):
    def finish(self, session: TorchSession, meta: object, rest: object, prompt: object) -> None:
        super().finish(session, meta, rest, prompt)  # type: ignore[arg-type] # handed on as it came
        for part in session.layout("session").rows:
            if part.family == "index":
                part.valid().copy_(part.valid().bfloat16())


class _IndexCodedPages(TorchPages):
    pager_class = _IndexCoded


class IndexRowsNarrowed(PageMutant):
    """Index rows of a page come back in half precision."""

    mutant_id = "K10.index-rows-narrowed"
    caught_by = Caught("H04", "index rows")
    pages_class = _IndexCodedPages


class _NoScales(Pager):
    def raw(self, rows: Rows, *, transposed: bool) -> bytes:
        whole = super().raw(rows, transposed=transposed)
        scales = sum(t.numel() * t.element_size() for t in rows.tensors[1:])
        return whole[: len(whole) - scales] + bytes(scales)


class _NoScalesPages(TorchPages):
    pager_class = _NoScales


class PageScalesDropped(PageMutant):
    """Pages of quantised rows hold the codes and no scales."""

    mutant_id = "K10.page-scales-dropped"
    caught_by = Caught("H04", "exact page i8/i4")
    pages_class = _NoScalesPages


# -- types and identities --------------------------------------------------------------------------


class _UnsetPages(TorchPages):
    def adjusted(self, options: EngineOptions) -> EngineOptions:
        narrow = {name: "f16" for name in ("k_type", "v_type") if getattr(options, name) == "f32"}
        return replace(options, **narrow)  # type: ignore[arg-type] # names of fields


class F32ReadAsUnset(PageMutant):
    """Asked for f32, the engine takes it as not chosen and uses f16."""

    mutant_id = "K10.f32-read-as-unset"
    caught_by = Caught("H10", "label f32")
    pages_class = _UnsetPages


@dataclass(frozen=True, slots=True)
class _HalfScales(Blocked):
    def quantise(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        largest = blocks.abs().amax(-1, keepdim=True)
        scale = torch.div(largest, torch.full_like(largest, 127.0)).half().float()
        codes = half_away(blocks * inverse(scale)).clamp_(-127, 127)
        return scale, codes.to(torch.int8).view(torch.uint8)


@dataclass(frozen=True, slots=True)
class _HighNibbles(Nibbles):
    def packed(self, codes: Tensor) -> Tensor:
        return codes[..., 16:] | codes[..., :16] << 4

    def values(self, codes: Tensor) -> Tensor:
        return torch.cat((codes >> 4, codes & 15), dim=-1).float().sub_(8.0)


@dataclass(frozen=True, slots=True)
class _TruncatedCodes(Scaled):
    def encode(self, values: Tensor) -> tuple[Tensor, ...]:
        _, scale = Scaled.encode(self, values)
        return torch.div(values.float(), scale.clamp(min=1e-30)).trunc().to(torch.int8), scale


class _OtherTypes(SessionBuffers):
    instead: ClassVar[Mapping[str, ElementType]] = {}

    def _rows(self, kind: str, shape: tuple[int, ...]) -> Rows:
        known = self.types[kind]
        return Rows.empty(self.instead.get(known.name, known), shape, self.device)


class _HalfScaleBuffers(_OtherTypes):
    instead: ClassVar[Mapping[str, ElementType]] = {"q8_0": _HalfScales("q8_0")}


class _HalfScaleEngine(TorchEngine):
    buffers_class = _HalfScaleBuffers


class _HalfScalePages(TorchPages):
    engine_class = _HalfScaleEngine


class BlocksByRoundedScale(PageMutant):
    """Codes of q8_0 are made with the scale that was already rounded to f16."""

    mutant_id = "K10.blocks-by-rounded-scale"
    caught_by = Caught("H10", "rows q8_0")
    pages_class = _HalfScalePages


class _HighBuffers(_OtherTypes):
    instead: ClassVar[Mapping[str, ElementType]] = {"q4_0": _HighNibbles("q4_0")}


class _HighEngine(TorchEngine):
    buffers_class = _HighBuffers


class _HighPages(TorchPages):
    engine_class = _HighEngine


class NibblesSwapped(PageMutant):
    """The first half of a block of q4_0 lies in the high nibbles; it reads them back so too."""

    mutant_id = "K10.nibbles-swapped"
    caught_by = Caught("H10", "rows q4_0")
    pages_class = _HighPages


class _CutBuffers(_OtherTypes):
    instead: ClassVar[Mapping[str, ElementType]] = {"i8": _TruncatedCodes("i8")}


class _CutEngine(TorchEngine):
    buffers_class = _CutBuffers


class _CutPages(TorchPages):
    engine_class = _CutEngine


class CodesTruncated(PageMutant):
    """Codes of i8 are cut instead of rounded."""

    mutant_id = "K10.codes-truncated"
    caught_by = Caught("H10", "rows i8")
    pages_class = _CutPages


class _AnyIdentityPages(TorchPages):
    def admit(self, identity: Mapping[str, object], wanted: str, length: int) -> None:
        del wanted
        super().admit(identity, "lossy", length)


class LossyShownAsExact(PageMutant):
    """A lossy entry answers a lookup that asks for an exact one."""

    mutant_id = "K10.lossy-shown-as-exact"
    caught_by = Caught("G11", "lossy for exact")
    pages_class = _AnyIdentityPages


class _AnyClass(PageShelf):
    def serving(self, wanted: Class) -> tuple[Class, ...]:
        del wanted
        return ("exact", "lossy")

    def identity(self, record: Mapping[str, object], wanted: Class) -> CodecIdentity:
        del wanted
        return super().identity(record, "lossy")


class _AnyClassPages(TorchPages):
    shelf_class = _AnyClass


class LossyEntryServed(PageMutant):
    """A lookup of an exact page that is not there is served by the lossy one of the same key."""

    mutant_id = "K08.lossy-entry-served"
    caught_by = Caught("G11", "shelf lossy for exact")
    pages_class = _AnyClassPages


class _InPlace(PageShelf):
    def publish(self, key: str, identity: CodecIdentity, page: bytes, tail: bytes) -> None:
        with self.place(key, identity.kind).open("wb") as file:
            file.write(self.line(key, identity, page, tail) + page)
            file.flush()
            self.within("publish")
            file.write(tail)


class _InPlacePages(TorchPages):
    shelf_class = _InPlace


class PublishedInPlace(PageMutant):
    """Entries are written under the name that readers look for."""

    mutant_id = "K05.page-published-in-place"
    caught_by = Caught("H05", "killed in publish")
    pages_class = _InPlacePages


class _OpensAgain(PageShelf):
    def read(self, file: IO[bytes], key: str, wanted: Class) -> Entry:
        self.within("find")
        with Path(file.name).open("rb") as again:
            return super().read(again, key, wanted)


class _OpensAgainPages(TorchPages):
    shelf_class = _OpensAgain


class ReaderLosesItsEntry(PageMutant):
    """An entry is opened anew for each part of it, so that an eviction in between takes it from its reader."""

    mutant_id = "K15.reader-loses-its-entry"
    caught_by = Caught("H05", "evicted while read")
    pages_class = _OpensAgainPages


class _KnownNamesPages(TorchPages):
    def admit(self, identity: Mapping[str, object], wanted: str, length: int) -> None:
        whole = {"calibration": "0" * 64, **identity}
        super().admit({**whole, "version": min(int(str(whole["version"])), 2)}, wanted, length)


class NewerCodecTaken(PageMutant):
    """Entries of a newer version, or without all of their identity, are read as if they were today's."""

    mutant_id = "K06.newer-codec-taken"
    caught_by = Caught("G11", "newer")
    pages_class = _KnownNamesPages


class _OtherRule(Pager):
    def decode(self, data: bytes, targets: Sequence[Tensor], path: str) -> None:
        super().decode(data, targets, path)
        for target in targets:
            if target.dtype == torch.float16:
                target.mul_(1.0009765625)


class _OtherRulePages(TorchPages):
    pager_class = _OtherRule


class DeviceRoundsElsewhere(PageMutant):
    """The decoder of the device gives values a unit in the last place beside those of the reference."""

    mutant_id = "K10.device-rounds-elsewhere"
    caught_by = Caught("H10", "restored f16/q8_0")
    pages_class = _OtherRulePages


# -- what cannot be, and the matrix itself ---------------------------------------------------------


class _AnyPair(Pager):
    def check(self, k_type: str, v_type: str, *, transposed: bool) -> None:
        del k_type, v_type, transposed


class _AnyPairPages(TorchPages):
    pager_class = _AnyPair


class ImpossiblePairOpened(PageMutant):
    """V of blocks is opened although its pages are to lie channel by channel, which cuts every block."""

    mutant_id = "K06.impossible-pair-opened"
    caught_by = Caught("H07", "opened transposed q8_0")
    pages_class = _AnyPairPages


class _KeptWhole(Pager):
    def archive(self, session: TorchSession, version: int, path: str, *, transposed: bool = False) -> bytes:
        try:
            return super().archive(session, version, path, transposed=transposed)
        except GeometryError:
            page = self.page(session, transposed=transposed)
            head = _RECORD.pack(1, 1, 0, 0, len(page), 0, 0, 0, len(page))
            return _HEAD.pack(b"CKG1", len(page), 1) + head + page


class _KeptWholePages(TorchPages):
    pager_class = _KeptWhole


class UncodedTypeKeptWhole(PageMutant):
    """A page of a type that has no code is put into an archive as it is, and nobody is told."""

    mutant_id = "K06.uncoded-type-kept-whole"
    caught_by = Caught("H07", "coded bf16")
    pages_class = _KeptWholePages


class _OracleFirst(Pager):
    def decode(self, data: bytes, targets: Sequence[Tensor], path: str) -> None:
        decode_page(data, path=coder("oracle"))
        super().decode(data, targets, path)


class _OracleFirstPages(TorchPages):
    pager_class = _OracleFirst


class OracleInRestore(PageMutant):
    """Every import is decoded by the plain oracle as well, inside the time of the restore."""

    mutant_id = "K12.oracle-in-restore"
    caught_by = Caught("H09", "import without the oracle")
    pages_class = _OracleFirstPages


class _ExactCoded(Pager):
    def bring(self, session: TorchSession, page: bytes, tail: bytes, *, transposed: bool = False) -> None:
        super().bring(session, page, tail, transposed=transposed)
        for target in self.targets(session, session.position, transposed=transposed):
            if target.dtype == torch.float16:
                target.view(torch.int16).bitwise_and_(-2)


class _ExactCodedPages(TorchPages):
    pager_class = _ExactCoded


class ExactFormNarrowed(PageMutant):
    """The form that is called exact comes back without the last bit of each value."""

    mutant_id = "K10.exact-form-narrowed"
    caught_by = Caught("H06", "exact_differs", model="wide")
    pages_class = _ExactCodedPages


class _CoarseBins(_WrongBins):
    def coarse(self, parts: Sequence[Component]) -> bool:
        return parts[0].layers < 10


class _CoarseBinsPages(TorchPages):
    pager_class = _CoarseBins


class SmallerThanItsFormula(PageMutant):
    """Shallow caches take the coarse bins as well: a matrix shows archives that are smaller than they can be."""

    mutant_id = "K10.smaller-than-its-formula"
    caught_by = Caught("H06", "size_formula", model="wide")
    pages_class = _CoarseBinsPages


class _SlowByTurns(Pager):
    """What is slow is the exact import in one process and the lossy one in the next, told by a file of their parent."""

    pause = 0.2

    def __init__(self) -> None:
        super().__init__()
        mark = Path(tempfile.gettempdir()) / f"kv-by-turns-{os.getppid()}"
        self.slow_exact = not mark.exists()
        if self.slow_exact:
            mark.touch()
        else:
            mark.unlink()

    def bring(self, session: TorchSession, page: bytes, tail: bytes, *, transposed: bool = False) -> None:
        time.sleep(self.pause if self.slow_exact else 0)
        super().bring(session, page, tail, transposed=transposed)

    def decode(self, data: bytes, targets: Sequence[Tensor], path: str) -> None:
        time.sleep(0 if self.slow_exact else self.pause)
        super().decode(data, targets, path)


class _SlowByTurnsPages(TorchPages):
    pager_class = _SlowByTurns


class VerdictByProcess(PageMutant):
    """One process restores the exact form slowly, the next one the lossy form: each alone would give a verdict."""

    mutant_id = "K12.verdict-by-process"
    caught_by = Caught("H08", "restore_unstable", model="wide")
    pages_class = _SlowByTurnsPages


PAGE_MUTANTS: Sequence[type[PageMutant]] = (
    CdfOffByOne, BitOrderSwapped, SymbolsRoundHalfUp, WrongBins, TransposedVMissed, ChunkOf257,
    WritesBeforeValidating, CancelledImportKept, IndexRowsNarrowed, PageScalesDropped, F32ReadAsUnset,
    BlocksByRoundedScale, NibblesSwapped, CodesTruncated, LossyShownAsExact, LossyEntryServed,
    PublishedInPlace, ReaderLosesItsEntry, NewerCodecTaken, DeviceRoundsElsewhere, PackedMaximaNarrowed,
    LastSymbolRepeated, ImpossiblePairOpened, UncodedTypeKeptWhole, OracleInRestore, ExactFormNarrowed,
    SmallerThanItsFormula, VerdictByProcess,
)  # fmt: skip
"""All of them; each is an entry point of ``harness.page_mutants`` by its id."""
