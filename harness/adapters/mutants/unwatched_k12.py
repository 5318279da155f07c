"""K12: what a restore began is completed by whoever looks or waits, and by nobody where nobody does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import StatePart
from harness.torch_engine.archives import Archiver
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.rolling import Mark, Trail
from harness.torch_engine.session import TorchSession
from harness.torch_engine.state import FixedPart, StateLayout

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Completes(Protocol):
    def complete(self) -> None: ...


class _Late(TorchSession):
    """Fixed parts are copied back on a stream of their own; a forward before they arrive works on what was there."""

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._late: list[tuple[Tensor, Tensor]] = []

    def complete(self) -> None:
        """The copies arrive."""
        for live, good in self._late:
            live.copy_(good)
        self._late.clear()

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        self._late.clear()  # they arrive while it runs, and are overwritten when it ends
        super().forward(tokens, last=last)

    def settle(self) -> None:
        self._late.clear()
        super().settle()

    def reset(self) -> None:
        self._late.clear()
        super().reset()

    def delayed(self, parts: Sequence[FixedPart], before: Sequence[Tensor]) -> None:
        """Take restored parts back out of the session until they arrive."""
        self._late = [(part.tensor, part.tensor.clone()) for part in parts]
        for part, old in zip(parts, before, strict=True):
            part.tensor.copy_(old)


class _LatePrefix(_Late):
    def _restore_prefix(self) -> int:
        before = [part.tensor.clone() for part in self.layout("prefix").fixed]
        found = super()._restore_prefix()
        if found:
            self.delayed(self.layout("prefix").fixed, before)
        return found


class _LateHandle(_Late):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        parts = [part for part in layout.fixed if part.family not in ("logits", "sampler")]
        before = [part.tensor.clone() for part in parts]
        super().restore_parts(saved, layout)
        self.delayed(parts, before)


class _WaitCompletes(TorchAdapterSession):
    def synchronize(self) -> None:
        cast("_Completes", self._session).complete()
        super().synchronize()


class _LookCompletes(TorchAdapterSession):
    def parts(self) -> Sequence[StatePart]:
        cast("_Completes", self._session).complete()
        return super().parts()


class RestoreNotAwaited(Mutant):
    """The prefill after a hit does not wait for its copies; whoever waits for the device sees them arrive."""

    mutant_id = "K12.restore-not-awaited"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="unwatched", part="recurrent", phase="prefilled")
    session = _LatePrefix
    adapter_session = _WaitCompletes


class LookCompletesRestore(Mutant):
    """Listing the parts of a session completes its restore, which nothing else does."""

    mutant_id = "K12.look-completes-restore"
    stopped_by = Stop(
        scenario="A01", cell={"arch": "recurrent"}, check="unwatched", part="recurrent", phase="prefilled"
    )
    session = _LatePrefix
    adapter_session = _LookCompletes


class _LateTrail(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        parts = self.session.layout("prefix").fixed
        before = [part.tensor.clone() for part in parts]
        super().put_back(target, mark)
        assert isinstance(self.session, _Late)  # noqa: S101 - planted together
        self.session.delayed(parts, before)


class _LateRollback(_Late):
    def new_trail(self) -> Trail:
        return _LateTrail(self)


class RollbackNotAwaited(Mutant):
    """The turn after a rollback does not wait for its copies; whoever waits for the device sees them arrive."""

    mutant_id = "K12.rollback-not-awaited"
    stopped_by = Stop(
        scenario="R01", cell={"arch": "hybrid"}, check="unwatched-goes-on", part="recurrent", phase="prefilled"
    )
    session = _LateRollback
    adapter_session = _WaitCompletes


class _LateImage(_Late):
    def load_parts(self, layout: StateLayout, parts: Mapping[str, Buffer]) -> None:
        fixed = [part for part in layout.fixed if part.family not in ("logits", "sampler")]
        before = [part.tensor.clone() for part in fixed]
        super().load_parts(layout, parts)
        self.delayed(fixed, before)


class ImageNotAwaited(Mutant):
    """The first decode after an import does not wait for its copies; whoever lists the parts completes them."""

    mutant_id = "K12.image-not-awaited"
    stopped_by = Stop(scenario="R04", cell={"arch": "hybrid"}, check="unwatched-goes-on", part="recurrent", phase="end")
    session = _LateImage
    adapter_session = _LookCompletes


class _LateFromDisk(_Late):
    def _restore_prefix(self) -> int:
        tier = self.cache.tier
        loaded = 0 if tier is None else tier.loaded_bytes()
        before = [part.tensor.clone() for part in self.layout("prefix").fixed]
        found = super()._restore_prefix()
        if found and tier is not None and tier.loaded_bytes() > loaded:
            self.delayed(self.layout("prefix").fixed, before)
        return found


class DiskNotAwaited(Mutant):
    """The prefill after a hit does not wait for what the disk gives; whoever lists the parts completes it."""

    mutant_id = "K12.disk-not-awaited"
    stopped_by = Stop(scenario="G01", cell={"arch": "hybrid"}, check="unwatched", part="recurrent", phase="prefilled")
    session = _LateFromDisk
    adapter_session = _LookCompletes


class _LateRows(TorchSession):
    """Rows of an archive are decoded on a stream of their own; a forward before they are there works on the old."""

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self.late: list[tuple[Tensor, Tensor]] = []

    def complete(self) -> None:
        """The rows arrive."""
        for live, good in self.late:
            live.copy_(good)
        self.late.clear()

    def settle(self) -> None:
        self.late.clear()
        super().settle()


class _LateArchiver(Archiver):
    def bring(self, session: TorchSession, data: bytes, codec: str, version: int) -> int:
        rows = self.targets(session)
        before = [one.clone() for one in rows]
        written = super().bring(session, data, codec, version)
        assert isinstance(session, _LateRows)  # noqa: S101 - planted together
        session.late = [(one, one.clone()) for one in rows]
        for one, old in zip(rows, before, strict=True):
            one.copy_(old)
        return written


class ArchiveNotAwaited(Mutant):
    """The first decode after an archive came in attends to the old rows; whoever lists the parts sees the new ones."""

    mutant_id = "K12.archive-not-awaited"
    stopped_by = Stop(scenario="H71", cell={"coded": "lcg2_f16_f16"}, check="unwatched", part="recurrent", phase="seen")
    session = _LateRows
    archiver_class = _LateArchiver
    adapter_session = _LookCompletes


class HandleNotAwaited(Mutant):
    """The first decode after going back to a saved session does not wait for the copies of that."""

    mutant_id = "K12.handle-not-awaited"
    stopped_by = Stop(scenario="A03", cell={"arch": "hybrid"}, check="unwatched-goes-on", part="recurrent", phase="end")
    session = _LateHandle
    adapter_session = _WaitCompletes
