"""K04: a counter or a claim that says something else than what was done."""

from __future__ import annotations

from collections.abc import Sequence

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import Begun
from harness.errors import RefusedError
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Restorable, Turn
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _CountHigh(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        return len(prompt) - 1 if super().begin(prompt, use_cache) else 0


class CountHigh(Mutant):
    """Every hit is reported as all but one token, whatever was reused."""

    mutant_id = "K04.count-high"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="cached-c", reason="tokens_unaccounted")
    session = _CountHigh


class _CountZero(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        super().begin(prompt, use_cache)
        return 0


class CountZero(Mutant):
    """The cached count is always zero, also where a prefix was reused."""

    mutant_id = "K04.count-zero"
    stopped_by = Stop(scenario="C08", cell={"edit": "suffix"}, check="cached", reason="tokens_unaccounted")
    session = _CountZero


class _SilentRecompute(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the engine's signature
        cached = super().begin(prompt, use_cache)
        if cached:
            super().begin(prompt, use_cache=False)
        return cached


class SilentRecompute(Mutant):
    """A hit is forwarded whole all the same; the count is the one of the plan."""

    mutant_id = "K04.silent-recompute"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="cached-a2", reason="tokens_unaccounted")
    session = _SilentRecompute


class _EvictionsUncounted(SessionCache):
    def _evict(self, victim: Entry | None) -> CacheKey | None:
        gone = super()._evict(victim)
        self._counts["evictions"] = 0
        return gone


class EvictionsUncounted(Mutant):
    """Snapshots are evicted and the counter stays at zero."""

    mutant_id = "K04.evictions-uncounted"
    stopped_by = Stop(scenario="E01", check="one-went")
    store = _EvictionsUncounted


class _BlankMiss(SessionCache):
    def note_miss(self, reason: str) -> None:
        super().note_miss("never_captured" if reason == "evicted" else reason)


class MissReasonBlank(Mutant):
    """A miss after an eviction is counted like one of a text that was never seen."""

    mutant_id = "K04.miss-reason-blank"
    stopped_by = Stop(scenario="E11", check="evicted")
    store = _BlankMiss


class _CountsTwice(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return 2 * super().restore(chain, layout)


class BytesDoubled(Mutant):
    """A restore says that it copied twice the bytes that it copied."""

    mutant_id = "K04.bytes-doubled"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="again", reason="restore_not_witnessed")
    snapshotter = _CountsTwice


class _CountsLeaf(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        super().restore(chain, layout)
        return chain[-1].nbytes


class BytesOfLeaf(Mutant):
    """A restore says that it copied the bytes of its last link only."""

    mutant_id = "K04.bytes-of-leaf"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", reason="restore_not_witnessed"
    )
    snapshotter = _CountsLeaf


class _HitsUncounted(SessionCache):
    def restore(self, key: CacheKey, destination: Restorable) -> None:
        super().restore(key, destination)
        self._counts["hits"] -= 1


class HitsUncounted(Mutant):
    """Prompts are served from the store and the counter of hits stays at zero."""

    mutant_id = "K04.hits-uncounted"
    stopped_by = Stop(scenario="E11", check="a-hit")
    store = _HitsUncounted


class _SkipsUncounted(SessionCache):
    def capture(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout, meta: bytes) -> str:
        reason = super().capture(turn, prompt, boundary, layout, meta)
        self._counts[f"skip_{reason}"] = 0
        return reason


class SkipsUncounted(Mutant):
    """Captures are skipped and nothing says so."""

    mutant_id = "K04.skips-uncounted"
    stopped_by = Stop(scenario="E04", check="skips-counted")
    store = _SkipsUncounted


class _ClaimsLogits(TorchSession):
    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self.logits_valid = True


class PrefixClaimsLogits(Mutant):
    """A restored prefix says that logits are pending; it has none."""

    mutant_id = "K04.prefix-claims-logits"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="meta", phase="restored")
    session = _ClaimsLogits


class _CountsBusy(TorchAdapterSession):
    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        try:
            return super().begin(prompt, cache=cache)
        except RefusedError:
            self._session.cache.note_miss("busy")
            raise


class BusyBeginCounts(Mutant):
    """A request that was turned away from a busy session is counted as a miss."""

    mutant_id = "K04.busy-begin-counts"
    stopped_by = Stop(scenario="D10", cell={"route": "ar"}, check="one-miss", reason="other_count")
    adapter_session = _CountsBusy


class _MissesAreHits(SessionCache):
    def note_miss(self, reason: str) -> None:
        super().note_miss(reason)
        self._counts["hits"] += 1


class ColdCountsHit(Mutant):
    """A request that nothing was found for is counted as a hit too."""

    mutant_id = "K04.cold-counts-hit"
    stopped_by = Stop(scenario="A22", cell={"route": "ar"}, check="no-hit-counted", reason="other_count")
    store = _MissesAreHits


class _LooksUpFirst(TorchAdapterSession):
    def restore(self, handle: str) -> Begun:
        self._engine.handle(handle)
        return super().restore(handle)


class RestoreSaysMissing(Mutant):
    """Asked to restore, a model without decoding state says that the handle is missing, as if another would do."""

    mutant_id = "K04.restore-says-missing"
    stopped_by = Stop(scenario="F15", check="restore", reason="other_code")
    adapter_session = _LooksUpFirst


class _LooksAtImages(TorchSession):
    def idle(self, what: str) -> None:
        if what != "adopt":
            super().idle(what)


class ImportSaysIdentity(Mutant):
    """A model without decoding state says of an image that it is another model's, as if it could take its own."""

    mutant_id = "K04.import-says-identity"
    stopped_by = Stop(scenario="F15", check="import", reason="other_code")
    session = _LooksAtImages


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
