"""K04: a silent no-op in planning, capturing or in what a request asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import CachePlan, Entry, Turn
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.kv.elements import KV_TYPES
from harness.torch_engine.options import ROUTES, EngineOptions
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession
from harness.torch_engine.speculating import Speculator
from harness.torch_engine.state import StateLayout


class _DecodesAnyway(TorchSession):
    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        self.logits_valid = True
        return super().decode(count, sampler)


class DecodeWithoutLogits(Mutant):
    """A session that has forwarded nothing decodes from the logits that lie in its memory."""

    mutant_id = "K04.decode-without-logits"
    stopped_by = Stop(scenario="F07", check="no-logits", reason="not_refused")
    session = _DecodesAnyway


class _Shallowest(SessionCache):
    def plan(self, turn: Turn, prompt: Tokens) -> CachePlan:
        found = super().plan(turn, prompt)
        while found.boundary > 0:
            above = super().plan(turn, prompt[: found.boundary])
            if above.boundary == 0:
                break
            found = above
        return found


class PlanShallowest(Mutant):
    """The first boundary that is found serves, not the deepest one."""

    mutant_id = "K04.plan-shallowest"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again-cached", reason="other_count")
    store = _Shallowest


class _FirstLeft(SessionCache):
    def capture(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout, meta: bytes) -> str:
        if boundary == self.boundaries(turn, prompt, 0, len(prompt))[0]:
            return "captured"
        return super().capture(turn, prompt, boundary, layout, meta)


class FirstCutNotCaptured(Mutant):
    """The first boundary of a prompt is said to be captured and is not."""

    mutant_id = "K04.first-cut-not-captured"
    stopped_by = Stop(scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="entries", reason="other_count")
    store = _FirstLeft


class _DeepestOnly(SessionCache):
    def commit(self, turn: Turn) -> int:
        deepest = max(turn.pending, key=lambda key: key.boundary, default=None)
        for key in [key for key in turn.pending if key != deepest]:
            del turn.pending[key]
        return super().commit(turn)

    def admissible(self, entry: Entry) -> bool:  # noqa: ARG002 - that is the fault
        return True


class DeepestOnlyPublished(Mutant):
    """Of a chain that a turn has captured only the deepest link is published, without what it rests on."""

    mutant_id = "K04.deepest-only-published"
    stopped_by = Stop(scenario="D02", check="published", reason="other_count")
    store = _DeepestOnly


class _EvictedForgotten(SessionCache):
    def evict_lru(self) -> CacheKey | None:
        gone = super().evict_lru()
        self._evicted.clear()
        return gone


class EvictedForgotten(Mutant):
    """What was evicted is not remembered, so a later miss has no reason."""

    mutant_id = "K04.evicted-forgotten"
    stopped_by = Stop(scenario="E11", check="evicted")
    store = _EvictedForgotten


class _DraftsNothing(Speculator):
    def propose(self, token: int, sampler: Sampler) -> None:
        """Leave every word to the target."""


class DraftsNothing(Mutant):
    """A session on the drafting route never drafts; its text is right, and nothing of the route was used."""

    mutant_id = "K04.drafts-nothing"
    stopped_by = Stop(scenario="A20", cell={"drafts": "free"}, check="really-drafted", reason="other_count")
    speculator = _DraftsNothing


class _NearestMode(TorchEngine):
    def __init__(self, options: EngineOptions | None = None, *, memory_query: Callable[[], int] | None = None) -> None:
        asked = options or EngineOptions()
        k_type = asked.k_type if asked.k_type in KV_TYPES else "f32"
        v_type = asked.v_type if asked.v_type in KV_TYPES else "f32"
        super().__init__(replace(asked, k_type=k_type, v_type=v_type), memory_query=memory_query)


class UnknownModeIgnored(Mutant):
    """Asked for a K/V mode that it does not know, an engine takes its plain one and says nothing."""

    mutant_id = "K04.unknown-mode-ignored"
    stopped_by = Stop(scenario="F06", cell={"mode": "kivi"}, check="unsupported", reason="not_refused")
    engine = _NearestMode


class _NoDrafter(TorchEngine):
    def open_session(self, **overrides: object) -> TorchSession:
        known = overrides.get("route", "ar") in ROUTES
        return super().open_session(**(overrides if known else overrides | {"route": "ar"}))


class UnknownDrafterIsNone(Mutant):
    """Asked for a drafter that it does not have, an engine decodes plainly and says nothing."""

    mutant_id = "K04.unknown-drafter-is-none"
    stopped_by = Stop(scenario="F06", cell={"mode": "drafter"}, check="unsupported", reason="not_refused")
    engine = _NoDrafter


class _ChunksOnly(SessionCache):
    def plan(self, turn: Turn, prompt: Tokens) -> CachePlan:
        found = super().plan(turn, prompt)
        while found.key is not None and found.boundary % turn.schedule.chunk:
            found = super().plan(turn, prompt[: found.boundary])
        return found


class TurnEndsForgotten(Mutant):
    """Snapshots at the ends of messages are kept and never looked up: a turn goes back to the last chunk."""

    mutant_id = "K04.turn-ends-forgotten"
    stopped_by = Stop(scenario="A22", cell={"route": "ar"}, check="user-turn", reason="other_count")
    store = _ChunksOnly


class _HitsUnarmed(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        cached = super().begin(prompt, use_cache)
        self._armed = self._armed and not cached
        return cached


class HitsCaptureNothing(Mutant):
    """A turn that hit takes no captures, so the next one finds nothing newer than the first."""

    mutant_id = "K04.hits-capture-nothing"
    stopped_by = Stop(scenario="A22", cell={"route": "ar"}, check="tool-turn", reason="other_count")
    session = _HitsUnarmed


class _OthersAtDefault(TorchEngine):
    def open_session(self, **overrides: object) -> TorchSession:
        return super().open_session(**({"chunk": EngineOptions().chunk} | overrides if overrides else {}))


class OverrideResetsOthers(Mutant):
    """A request that asks for one thing of its own gets the defaults of everything else, not the server's flags."""

    mutant_id = "K04.override-resets-others"
    stopped_by = Stop(scenario="G12", cell={"override": "namespace"}, check="captures", reason="other_count")
    engine = _OthersAtDefault


class _LastAskedWins(TorchEngine):
    def open_session(self, **overrides: object) -> TorchSession:
        made = super().open_session(**overrides)
        self.options = replace(self.options, chunk=made.options.chunk)
        return made


class OverrideOutlivesRequest(Mutant):
    """What one request asks for becomes the flag of the server."""

    mutant_id = "K04.override-outlives-request"
    stopped_by = Stop(scenario="G12", cell={"override": "chunk"}, check="later-cached", reason="other_count")
    engine = _LastAskedWins
