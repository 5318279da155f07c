"""Page mutants of element types: labels, scales, rounding, the order of nibbles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from harness.adapters.mutants.kv_page_mutant import Caught, PageMutant
from harness.adapters.torch_pages import TorchPages
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.kv.elements import Blocked, ElementType, Nibbles, Scaled, half_away, inverse
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.options import EngineOptions


class _UnsetPages(TorchPages):
    def adjusted(self, options: EngineOptions) -> EngineOptions:
        narrow = {name: "f16" for name in ("k_type", "v_type") if getattr(options, name) == "f32"}
        return replace(options, **narrow)  # type: ignore[arg-type] # names of fields


class F32ReadAsUnset(PageMutant):
    """Asked for f32, the engine takes it as not chosen and uses f16."""

    mutant_id = "K10.f32-read-as-unset"
    caught_by = Caught("H10", "label f32")
    pages = _UnsetPages


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


class BlocksByRoundedScale(PageMutant):
    """Codes of q8_0 are made with the scale that was already rounded to f16."""

    mutant_id = "K10.blocks-by-rounded-scale"
    caught_by = Caught("H10", "rows q8_0")
    engine = _HalfScaleEngine


class _HighBuffers(_OtherTypes):
    instead: ClassVar[Mapping[str, ElementType]] = {"q4_0": _HighNibbles("q4_0")}


class _HighEngine(TorchEngine):
    buffers_class = _HighBuffers


class NibblesSwapped(PageMutant):
    """The first half of a block of q4_0 lies in the high nibbles; it reads them back so too."""

    mutant_id = "K10.nibbles-swapped"
    caught_by = Caught("H10", "rows q4_0")
    engine = _HighEngine


class _CutBuffers(_OtherTypes):
    instead: ClassVar[Mapping[str, ElementType]] = {"i8": _TruncatedCodes("i8")}


class _CutEngine(TorchEngine):
    buffers_class = _CutBuffers


class CodesTruncated(PageMutant):
    """Codes of i8 are cut instead of rounded."""

    mutant_id = "K10.codes-truncated"
    caught_by = Caught("H10", "rows i8")
    engine = _CutEngine
