"""Faults of several kinds on llama.cpp in process: images that follow the number of threads, for R10.

Its entry point asks for the extra ``llamacpp``, and it runs where that is (``statecert mutants --target llamacpp``).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.adapters.llama_engine import LlamaCppEngine
from harness.adapters.llama_session import LlamaCppSession
from harness.adapters.llamacpp_adapter import LlamaCppAdapter
from harness.adapters.mutants.base import Foreign, Stop
from harness.engines.interface import Begun, Identity, Options
from harness.model.values import Family

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TAIL: Final = struct.Struct("<Q")
"""Threads of the writer, behind its image."""


class _ByThreads(LlamaCppSession):
    def image_size(self) -> int:
        return super().image_size() + _TAIL.size

    def export_image(self, capacity: int) -> Buffer:
        return bytes(super().export_image(capacity - _TAIL.size)) + _TAIL.pack(int(self.engine.options["threads"]))

    def import_image(self, data: Buffer) -> Begun:
        image = bytes(data)
        (writers,) = _TAIL.unpack(image[-_TAIL.size :])
        begun = super().import_image(image[: -_TAIL.size])
        if writers != int(self.engine.options["threads"]):
            rows = next(part for part in self.parts() if part.family == Family.KV)
            self.corrupt(rows.name, memoryview(rows.data).nbytes // 2, 64)
        return begun


class _Planted(LlamaCppEngine):
    facts: Mapping[str, str] = {}

    def identity(self) -> Identity:
        found = super().identity()
        sets = {**found.path_sets, "mutants": ["harness.adapters.mutants:*.py"]}
        return replace(found, facts={**found.facts, **self.facts}, path_sets=sets)

    def open_session(self, options: Options) -> LlamaCppSession:
        made = super().open_session(options)
        made.__class__ = _ByThreads
        return made


class ImageByThreads(Foreign, LlamaCppAdapter):
    """With other threads than the writer's, the row where two shares of it meet is not the one in the image."""

    mutant_id = "K04.image-by-threads"
    name = "mutant_k04.image_by_threads"
    stopped_by = Stop(scenario="R10", check="came-in", part="kv", phase="restored")

    def open(self, options: Options) -> LlamaCppEngine:
        """Open llama.cpp, with sessions that read images so."""
        made = super().open(options)
        made.__class__ = _Planted
        if isinstance(made, _Planted):
            made.facts = self.told()
        return made
