"""A fault of the counts that a cache gives: for the ladder of R12 on the embedded engine."""

from __future__ import annotations

from collections.abc import Sequence

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import Begun


class _ClaimsReuse(TorchAdapterSession):
    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        told = super().begin(prompt, cache=cache)
        if told.cached:
            super().begin(prompt, cache=False)
        return told


class ReuseClaimed(Mutant):
    """A prompt that is cached is computed anew, whole, and told as reused."""

    mutant_id = "K04.reuse-claimed"
    stopped_by = Stop(
        scenario="R12", cell={"kept": "memory", "told": "tokens"}, check="warm-reused", reason="tokens_unaccounted"
    )
    adapter_session = _ClaimsReuse
