"""K12: a copy overtakes a kernel or is not awaited, a captured graph keeps an old argument, a small kernel is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SavedSession, SessionHandle
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.models.decoder import Decoder
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _Tracking(TorchSession):
    taken: ClassVar[dict[int, TorchSession]] = {}
    """Which session the handle of an id was taken of."""

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        self.taken[id(handle)] = self
        return handle

    def elsewhere(self, handle: SessionHandle) -> bool:
        """Whether a handle comes from a session of another engine."""
        source = self.taken.get(id(handle))
        return source is not None and source.engine is not self.engine


class _CopiesNothing(_Tracking):
    def restore(self, handle: SessionHandle) -> None:
        kept = [part.tensor.clone() for part in self.layout("prefix").fixed] if self.elsewhere(handle) else []
        super().restore(handle)
        for part, old in zip(self.layout("prefix").fixed, kept, strict=False):
            part.tensor.copy_(old)


class PeerCopyOfNothing(Mutant):
    """Between two places the copy of what is overwritten in place copies nothing and reports success."""

    mutant_id = "K12.peer-copy-of-nothing"
    stopped_by = Stop(scenario="A26", cell={"route": "ar"}, check="handle-came", part="recurrent", phase="seen")
    session = _CopiesNothing


class _NotAwaited(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._queued: list[tuple[Tensor, Tensor]] = []

    def restore(self, handle: SessionHandle) -> None:
        old = [part.tensor.clone() for part in self.layout("prefix").fixed]
        super().restore(handle)
        parts = self.layout("prefix").fixed
        self._queued = [(part.tensor, part.tensor.clone()) for part in parts]
        for part, before in zip(parts, old, strict=True):
            part.tensor.copy_(before)

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        self._arrive()
        super().forward(tokens, last=last)

    def settle(self) -> None:
        self._arrive()
        super().settle()

    def _arrive(self) -> None:
        for to, source in self._queued:
            to.copy_(source)
        self._queued = []


class CopyNotAwaited(Mutant):
    """A restore returns while its copies are under way; they are there when the next token is forwarded."""

    mutant_id = "K12.copy-not-awaited"
    stopped_by = Stop(scenario="A26", cell={"route": "ar"}, check="handle-came", part="recurrent", phase="seen")
    session = _NotAwaited


class _SharesMemory(_Tracking):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        if self.elsewhere(handle):
            self._buffers = self.taken[id(handle)].buffers


class PlacesShareMemory(Mutant):
    """A session that came from another place works in that place's memory, which looks right until it goes on."""

    mutant_id = "K12.places-share-memory"
    stopped_by = Stop(scenario="A26", cell={"route": "ar"}, check="source-still", phase="seen", part="meta")
    session = _SharesMemory


class _Overtaken(Snapshotter):
    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        made = super().capture(layout, meta, starts)
        for stream, (_, stored) in zip(layout.rows, self.row_pairs(made, layout), strict=False):
            if stream.name.endswith(".v"):
                stored[-1:].zero_()
        return made


class CaptureOvertakes(Mutant):
    """A capture copies the last row of values before the kernel that writes it is done."""

    mutant_id = "K12.capture-overtakes"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", part="kv", phase="restored"
    )
    snapshotter = _Overtaken


class _Replayed(Decoder):
    """A captured step: it runs with the position that it was captured at."""

    def __init__(self, own: Decoder, position: int) -> None:
        self.__dict__.update(own.__dict__)
        self._captured = position

    def step(self, token: int, position: int, states: list[Any]) -> Tensor:
        return super().step(token, min(position, self._captured), states)


class _ReplaysGraph(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._captured: int | None = None
        self._restored = False

    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        self._restored = True

    def settle(self) -> None:
        if not self.owed:
            return
        own = self.decoder
        if self._captured is None:
            self._captured = self.position
        elif self._restored:
            self.decoder = _Replayed(own, self._captured)
        try:
            super().settle()
        finally:
            self.decoder = own


class GraphKeepsPosition(Mutant):
    """After a restore the step is replayed as it was captured, with the position of that time."""

    mutant_id = "K12.graph-keeps-position"
    stopped_by = Stop(scenario="A03", cell={"arch": "attention"}, check="goes-on", part="logits", phase="end")
    session = _ReplaysGraph


class _OneRow(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._hit = False

    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self._hit = True

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        super().forward(tokens, last=last)
        if self._hit and len(tokens) == self.tail() and last:
            with torch.inference_mode():
                self.buffers.logits.mul_(1 + 2.0**-12)
        self._hit = False

    def tail(self) -> int:
        """Tokens that must be left behind a hit for the other kernel to run."""
        return 1


class OneRowKernel(Mutant):
    """Where one token is left after a hit, the kernel of one row gives logits that are a little off."""

    mutant_id = "K12.one-row-kernel"
    stopped_by = Stop(scenario="A27", cell={"left": "1"}, check="again", part="logits", phase="prefilled")
    session = _OneRow


class _FullTail(_OneRow):
    def tail(self) -> int:
        return self.options.chunk - 1


class FullTailKernel(Mutant):
    """Where one token less than a chunk is left after a hit, the mask of the kernel is one column short."""

    mutant_id = "K12.full-tail-kernel"
    stopped_by = Stop(
        scenario="A15", cell={"suffix": "chunk-less-one"}, check="exact", part="logits", phase="prefilled"
    )
    session = _FullTail


_STEPS = 64


class _CapturesAgain(TorchSession):
    _steps = _prefix = 0

    def _restore_prefix(self) -> int:
        found = super()._restore_prefix()
        self._steps = 1 if found else 0
        self._prefix = found
        return found

    def settle(self) -> None:
        own = self.decoder
        if self.owed and self._steps:
            self._steps += 1
            if self._steps > _STEPS:
                self.decoder = _Replayed(own, self._prefix)
        try:
            super().settle()
        finally:
            self.decoder = own


class _CapturesAgainAfterHandle(_CapturesAgain):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        super().restore_parts(saved, layout)
        self._steps, self._prefix = 1, decode_metadata(saved.snapshot.meta).position

    def reset(self) -> None:
        super().reset()
        self._steps = 0

    def _restore_prefix(self) -> int:
        found = super()._restore_prefix()
        self._steps = 0
        return found


class GraphOfHandleWraps(Mutant):
    """A graph of steps behind a saved session serves so many; then it is captured anew, with its first position."""

    mutant_id = "K12.graph-of-handle-wraps"
    stopped_by = Stop(scenario="A05", check="long-on", part="recurrent", phase="end")
    session = _CapturesAgainAfterHandle


class GraphOfHitWraps(Mutant):
    """A graph of steps behind a hit serves so many; then it is captured anew, with the position of the hit."""

    mutant_id = "K12.graph-of-hit-wraps"
    stopped_by = Stop(scenario="A14", cell={"sampler": "greedy"}, check="exact-2", part="recurrent", phase="end")
    session = _CapturesAgain
