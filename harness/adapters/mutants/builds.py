"""Faults of several kinds of an engine that is handed an image of another build, on any driver: for R11.

Its entry point asks for the extra ``stdio``, and it runs where the target names two builds of a driver
(``statecert mutants --target stdio --option command=A --option other_command=B``), the second of which refuses the
images of the first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.adapters.mutants.base import Foreign, Stop
from harness.adapters.stdio_adapter import StdioAdapter, StdioEngine, StdioSession
from harness.engines.interface import Begun, Identity, Options
from harness.errors import RefusedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TAIL: Final = struct.Struct("<Q")
"""Position of the session, behind its image."""


class _Forced(StdioSession):
    def image_size(self) -> int:
        return super().image_size() + _TAIL.size

    def export_image(self, capacity: int) -> Buffer:
        return bytes(super().export_image(capacity - _TAIL.size)) + _TAIL.pack(self.position())

    def import_image(self, data: Buffer) -> Begun:
        image = bytes(data)
        try:
            return super().import_image(image[: -_TAIL.size])
        except RefusedError:
            (position,) = _TAIL.unpack(image[-_TAIL.size :])
        for end in self.begin([8] * position, cache=False).schedule:
            self.prefill(end)
        return Begun(cached=position, restored_bytes=len(image), schedule=[position])


class _Planted(StdioEngine):
    facts: Mapping[str, str] = {}

    def identity(self) -> Identity:
        found = super().identity()
        sets: dict[str, Sequence[str]] = {**found.path_sets, "mutants": ["harness.adapters.mutants:*.py"]}
        return replace(found, facts={**found.facts, **self.facts}, path_sets=sets)

    def open_session(self, options: Options) -> StdioSession:
        made = super().open_session(options)
        made.__class__ = _Forced
        return made


class OtherBuildForced(Foreign, StdioAdapter):
    """An image that this build cannot read is taken: of the right length, with rows that nobody computed."""

    mutant_id = "K06.other-build-forced"
    name = "mutant_k06.other_build_forced"
    stopped_by = Stop(scenario="R11", check="across", reason="beyond_tolerance")

    def open(self, options: Options) -> StdioEngine:
        """Open the driver that is meant, with sessions that force images in."""
        made = super().open(options)
        made.__class__ = _Planted
        if isinstance(made, _Planted):
            made.facts = self.told()
        return made
