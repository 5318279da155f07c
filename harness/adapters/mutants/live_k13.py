"""K13: states that were made in different ways are put together."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Spans


class _AnyLineage(SessionCache):
    def descends(self, spans: Spans, entry: Entry) -> bool:  # noqa: ARG002 - that is the fault
        return True


class LineagesMixed(Mutant):
    """A live turn's link is hung on another one's of the same tokens, whose turns ended elsewhere."""

    mutant_id = "K13.lineages-mixed"
    stopped_by = Stop(scenario="D05", check="one-lineage-restored", part="recurrent", phase="prefilled")
    store = _AnyLineage
