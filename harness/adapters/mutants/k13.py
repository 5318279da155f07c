"""K13: another path of forwarding is taken where the same one was promised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.models.delta import DeltaState
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession

_LANDING = 32


class _ShiftsOnHit(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._hit = False

    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self._hit = True

    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        if self._hit and len(tokens) > _LANDING:
            super().forward(tokens[:_LANDING], last=False)
            tokens = tokens[_LANDING:]
        self._hit = False
        super().forward(tokens, last=last)


class ChunksShiftOnHit(Mutant):
    """After a hit the first chunk is shrunk to land on a cut, and all that follow lie elsewhere than in a cold run."""

    mutant_id = "K13.chunks-shift-on-hit"
    stopped_by = Stop(scenario="C07", check="hit", part="recurrent", phase="prefilled")
    session = _ShiftsOnHit


class _DecodesByPrefill(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._restored = False

    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        self._restored = True

    def settle(self) -> None:
        if not (self.owed and self._restored):
            super().settle()
            return
        self._restored = self.owed = False
        self.buffers.history_rows -= 1
        self.forward(self.buffers.history[self.position : self.position + 1].numpy().copy(), last=True)


class DecodeByPrefill(Mutant):
    """After a restore the first sampled token is forwarded by the kernels of a prefill."""

    mutant_id = "K13.decode-by-prefill"
    stopped_by = Stop(scenario="A03", cell={"arch": "hybrid"}, check="goes-on", part="recurrent", phase="end")
    session = _DecodesByPrefill


class _Recomputes(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        decoded, tokens = self.decoded, np.asarray(self.history(), dtype=np.int32)
        rng = self.buffers.rng.clone()
        self.buffers.reset()
        self.buffers.rng.copy_(rng)
        self.position = 0
        for stop in self.schedule.boundaries(tokens, 0, len(tokens) - 1):
            self.forward(tokens[self.position : stop], last=False)
        self.forward(tokens[self.position :], last=True)
        self.decoded = decoded


class HandleRecomputed(Mutant):
    """A saved session is forwarded anew as one prompt; what had been decoded goes through the kernels of a prefill."""

    mutant_id = "K13.handle-recomputed"
    stopped_by = Stop(scenario="A03", cell={"arch": "recurrent"}, check="came-back", part="recurrent", phase="seen")
    session = _Recomputes


class _PlanlessKeys(TorchEngine):
    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        about = super().session_identity(options)
        return {name: value for name, value in about.items() if name not in ("turns", "turn_token")}


class PlanNotInKey(Mutant):
    """A session that is also cut at message ends is served from snapshots of one that is not."""

    mutant_id = "K13.plan-not-in-key"
    stopped_by = Stop(scenario="A25", cell={"how": "message-end"}, check="plan-apart", reason="other_count")
    engine = _PlanlessKeys


class _PlanPicks(TorchSession):
    def sample(self, sampler: Sampler) -> int:
        token = super().sample(sampler)
        if self.options.chunk == self.engine.options.chunk:
            return token
        b = self.buffers
        b.history[b.history_rows - 1] = (token + 1) % self.decoder.config.vocab
        return int(b.history[b.history_rows - 1])


class PlanChangesAnswer(Mutant):
    """Another chunk plan gives another answer, not only other last bits."""

    mutant_id = "K13.plan-changes-answer"
    stopped_by = Stop(scenario="A25", cell={"how": "chunks"}, check="same-answer", reason="tokens_differ")
    session = _PlanPicks


class _PlanDrifts(TorchSession):
    def forward(self, tokens: npt.NDArray[np.int32], *, last: bool) -> None:
        super().forward(tokens, last=last)
        if self.options.chunk == self.engine.options.chunk:
            return
        for layer in self.buffers.layers:
            if isinstance(layer, DeltaState):
                layer.recurrent.mul_(1 + 2.0**-12)


class PlanDrifts(Mutant):
    """Under another chunk plan the recurrent state grows by a four-thousandth a chunk; the answer stays the same."""

    mutant_id = "K13.plan-drifts"
    stopped_by = Stop(
        scenario="A25",
        cell={"how": "chunks"},
        check="near",
        part="recurrent",
        phase="prefilled",
        reason="beyond_tolerance",
    )
    session = _PlanDrifts
