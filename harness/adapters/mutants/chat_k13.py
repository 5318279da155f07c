"""K13: a chat is cut otherwise on a hit than on a miss."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.session import TorchSession


class _UncutOnHit(TorchSession):
    def boundaries(self) -> tuple[int, ...]:
        cuts, restored = super().boundaries(), self.turn.source
        if restored is None:
            return cuts
        whole = range(self.options.chunk, len(self.prompt) + 1, self.options.chunk)
        return tuple(cut for cut in cuts if cut <= restored.boundary or cut in whole)


class MessagesUncutOnHit(Mutant):
    """After a hit a prompt is cut at chunks alone; the cold run cut it at its messages too."""

    mutant_id = "K13.messages-uncut-on-hit"
    stopped_by = Stop(scenario="C04", check="longer-exact", part="recurrent", phase="prefilled")
    session = _UncutOnHit
