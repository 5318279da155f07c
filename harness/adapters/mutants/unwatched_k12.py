"""K12: what a restore began is completed by whoever looks or waits, and by nobody where nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import StatePart
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession
from harness.torch_engine.state import FixedPart, StateLayout


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


class HandleNotAwaited(Mutant):
    """The first decode after going back to a saved session does not wait for the copies of that."""

    mutant_id = "K12.handle-not-awaited"
    stopped_by = Stop(scenario="A03", cell={"arch": "hybrid"}, check="unwatched-goes-on", part="recurrent", phase="end")
    session = _LateHandle
    adapter_session = _WaitCompletes
