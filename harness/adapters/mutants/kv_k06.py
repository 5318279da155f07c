"""K06: element types that nobody compares, although rows of both have the same length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.handles import KV_MODE, SessionHandle
from harness.torch_engine.image import Expectation, ImageDescription
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager


class _TypeUnchecked(TorchSession):
    ignored: ClassVar[str] = ""

    def restore(self, handle: SessionHandle) -> None:
        saved = handle.open()
        handle.saved = replace(saved, identity={**saved.identity, self.ignored: self.identity[self.ignored]})
        try:
            super().restore(handle)
        finally:
            handle.saved = saved


class _KTypeUnchecked(_TypeUnchecked):
    ignored = "k_type"


class KTypeUnchecked(Mutant):
    """A snapshot of keys of another type and the same length is restored."""

    mutant_id = "K06.k-type-unchecked"
    stopped_by = Stop(scenario="F02", cell={"other": "k"}, check="snapshot-refused", reason="not_refused")
    session = _KTypeUnchecked


class _VTypeUnchecked(_TypeUnchecked):
    ignored = "v_type"


class VTypeUnchecked(Mutant):
    """A snapshot of values of another type and the same length is restored."""

    mutant_id = "K06.v-type-unchecked"
    stopped_by = Stop(scenario="F02", cell={"other": "v"}, check="snapshot-refused", reason="not_refused")
    session = _VTypeUnchecked


class _ImageTypesUnchecked(Imager):
    def expectation(self, session: TorchSession, about: ImageDescription) -> Expectation:
        told = super().expectation(session, about)
        own: Mapping[str, str | int | bool] = {
            name: about.identity.get(name, value) if name in KV_MODE else value for name, value in told.identity.items()
        }
        labels = {part.name: part.element_type for part in about.parts}
        parts = tuple(replace(part, element_type=labels.get(part.name, part.element_type)) for part in told.parts)
        return replace(told, identity=own, parts=parts)


class ImageTypesUnchecked(Mutant):
    """An image whose rows have the right length is taken, whatever type they say they are of."""

    mutant_id = "K06.image-types-unchecked"
    stopped_by = Stop(scenario="F02", cell={"other": "v"}, check="image-refused", reason="not_refused")
    imager = _ImageTypesUnchecked
