"""K13: another path of forwarding is taken where the same one was promised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.options import SessionOptions
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
