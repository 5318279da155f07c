"""Archives of coded rows, decoded wrongly or taken although damaged: faults of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.archives import Archiver
from harness.torch_engine.coded import packing
from harness.torch_engine.errors import MetadataError
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

_PLAIN = {"coded": "lcg2_f16_f16"}


class _KeysForValues(Archiver):
    def decode(self, data: bytes, targets: Sequence[Tensor]) -> int:
        middle = len(targets) // 2
        return super().decode(data, [*targets[middle:], *targets[:middle]])


class KeysForValues(Mutant):
    """Rows of K are decoded into V, and rows of V into K; both have one width."""

    mutant_id = "K02.archive-k-for-v"
    stopped_by = Stop(scenario="H71", cell=_PLAIN, check="decoded", part="kv", phase="seen")
    archiver_class = _KeysForValues


class _LastLayerLeft(Archiver):
    def decode(self, data: bytes, targets: Sequence[Tensor]) -> int:
        kept = targets[-1].clone()
        written = super().decode(data, targets)
        targets[-1].copy_(kept)
        return written


class LastLayerLeft(Mutant):
    """V of the last layer stays as it was, and counts as written."""

    mutant_id = "K04.archive-last-layer-left"
    stopped_by = Stop(scenario="H71", cell={"coded": "lcg2_q8_0_q4_0"}, check="decoded", part="kv", phase="seen")
    archiver_class = _LastLayerLeft


class _HalfWritten(Archiver):
    def bring(self, session: TorchSession, data: bytes, codec: str, version: int) -> int:
        targets = self.targets(session)
        if len(data) > len(targets):
            targets[0][0] = 0
        return super().bring(session, data, codec, version)


class HalfWritten(Mutant):
    """The first row is cleared before the archive is looked at, and stays so when it is refused."""

    mutant_id = "K05.archive-half-written"
    stopped_by = Stop(scenario="H71", cell=_PLAIN, check="untouched", part="kv", phase="seen")
    archiver_class = _HalfWritten


class _TailIgnored(Archiver):
    def bring(self, session: TorchSession, data: bytes, codec: str, version: int) -> int:
        for more in range(4):
            with suppress(MetadataError):
                return super().bring(session, data[: len(data) - more], codec, version)
        return super().bring(session, data, codec, version)


class TailIgnored(Mutant):
    """Bytes behind the last record are ignored."""

    mutant_id = "K06.archive-tail-ignored"
    stopped_by = Stop(scenario="H71", cell={"coded": "lcg1_f16_f16"}, check="long-refused", reason="not_refused")
    archiver_class = _TailIgnored


class _OtherRounding(Archiver):
    def decode(self, data: bytes, targets: Sequence[Tensor]) -> int:
        written = super().decode(data, targets)
        for target in targets:
            target.copy_((target.float() * 0.99951171875).to(target.dtype))
        return written


class OtherRounding(Mutant):
    """Decoded values are multiplied by the rounded reciprocal of the scale: off by an ulp."""

    mutant_id = "K10.archive-other-rounding"
    stopped_by = Stop(scenario="H71", cell={"coded": "lcg2_f32_f16"}, check="decoded", part="kv", phase="seen")
    archiver_class = _OtherRounding


_FORMS = {"types": "f16_f16"}
_FIRST_SEGMENT = 68
"""Where the first segment of an archive begins, with its magic."""


class _StopsEarly(Archiver):
    def decode(self, data: bytes, targets: Sequence[Tensor]) -> int:
        written = super().decode(data, targets)
        if data[_FIRST_SEGMENT : _FIRST_SEGMENT + 4] == b"LCG1":
            for target in targets:
                target[-1] = target[-2]
        return written


class ArithmeticStopsEarly(Mutant):
    """The arithmetic decoder stops one symbol early and gives the last one twice; packed archives are fine."""

    mutant_id = "K10.arithmetic-stops-early"
    stopped_by = Stop(scenario="H06", cell=_FORMS, check="arithmetic-decoded", part="kv", phase="seen")
    archiver_class = _StopsEarly


class _RowsKept(Archiver):
    def decode(self, data: bytes, targets: Sequence[Tensor]) -> int:
        kept = [target.clone() for target in targets]
        written = super().decode(data, targets)
        for target, own in zip(targets, kept, strict=True):
            if own.any():
                target.copy_(own)
        return written


class ExactRowsKept(Mutant):
    """An archive of a prefix whose rows are there already is answered with these rows."""

    mutant_id = "K08.exact-rows-kept"
    stopped_by = Stop(scenario="H06", cell=_FORMS, check="packed-decoded", part="kv", phase="seen")
    archiver_class = _RowsKept


class _Coded(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        held = [stream for stream, s in zip(layout.rows, made.segments, strict=True) if s.stop > s.start]
        for stream, (_, stored) in zip(held, self.row_pairs(made, layout), strict=True):
            if stream.family == "kv" and stored.dtype == torch.float16:
                rows = stored.flatten(1)
                for first in range(0, len(rows), 256):
                    tile = rows[first : first + 256]
                    symbols, maxima = packing.quantise(tile.contiguous(), 32)
                    packing.dequantise_into(symbols, maxima, 32, tile)
        return made


class NativeThroughCodec(Mutant):
    """Snapshots hold rows that went through the codec, in their own type and under an exact name."""

    mutant_id = "K10.native-through-codec"
    stopped_by = Stop(scenario="H06", cell=_FORMS, check="native-back", part="kv", phase="restored")
    snapshotter = _Coded
