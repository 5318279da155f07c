"""K08: what descends from a live turn is filed with what does not."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession


class _SameScope(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self.turn.apart = None


class LiveScopeNotInKey(Mutant):
    """Captures of live turns are filed under the keys of cold ones."""

    mutant_id = "K08.live-scope-not-in-key"
    stopped_by = Stop(scenario="D05", check="apart-serves-nobody-else", reason="other_count")
    session = _SameScope
