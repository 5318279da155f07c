"""K04: a silent no-op, or a counter that says something else than what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import Continues, copy_rows_of
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import Begun
from harness.errors import RefusedError
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import CachePlan, Entry, Restorable, Turn
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.disk_tier import Fetched
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import MissingError
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.keys import CacheKey, Tokens
from harness.torch_engine.kv.elements import KV_TYPES
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.options import ROUTES, EngineOptions
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.snapshot import Pair, Snapshot, Snapshotter
from harness.torch_engine.speculating import Speculator
from harness.torch_engine.state import StateLayout

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _CopiesNothing(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        self.validate(chain, layout)
        return sum(part.nbytes for part in layout.parts())


class RestoreNothing(Mutant):
    """A restore says ok and how many bytes it copied, and copied none."""

    mutant_id = "K04.restore-nothing"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="layer0.recurrent", phase="restored")
    snapshotter = _CopiesNothing


class _MetadataOnly(SessionCache):
    def restore(self, key: CacheKey, destination: Restorable) -> None:
        leaf = self.chain(key)[-1].snapshot
        destination.finish_restore(leaf.meta)
        self._counts["hits"] += 1


class RestoreDropped(Mutant):
    """A hit sets position and lengths and never calls the copy."""

    mutant_id = "K04.restore-dropped"
    stopped_by = Stop(scenario="A01", cell={"arch": "attention"}, check="again", reason="restore_not_witnessed")
    store = _MetadataOnly


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


class _HandleCopiesNothing(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        self.snapshotter.validate([saved.snapshot], layout)


class HandleRestoreNothing(Mutant):
    """Going back to a saved session sets its counters and leaves the bytes as they are."""

    mutant_id = "K04.handle-restore-nothing"
    stopped_by = Stop(scenario="A03", cell={"arch": "recurrent"}, check="came-back", part="recurrent", phase="seen")
    session = _HandleCopiesNothing


class _LastLinkOnly(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        below = [stream.tensor[: s.start] for stream, s in zip(layout.rows, chain[-1].segments, strict=True)]
        kept = [rows.clone() for rows in below]
        copied = super().restore(chain, layout)
        for rows, before in zip(below, kept, strict=True):
            rows.copy_(before)
        return copied


class LastLinkOnly(Mutant):
    """Only the last link of a chain is copied; the bytes of all links are counted."""

    mutant_id = "K04.last-link-only"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", part="kv", phase="restored"
    )
    snapshotter = _LastLinkOnly


class _CommitNothing(SessionCache):
    def commit(self, turn: Turn) -> int:
        return self.abandon(turn)


class CommitNothing(Mutant):
    """A commit reports its snapshots as published and keeps none."""

    mutant_id = "K04.commit-nothing"
    stopped_by = Stop(scenario="D02", check="published")
    store = _CommitNothing


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


class _SkipsMissing(SessionCache):
    def restore(self, key: CacheKey, destination: Restorable) -> None:
        try:
            super().restore(key, destination)
        except MissingError:
            self._restore_rest(key, destination)

    def _restore_rest(self, key: CacheKey, destination: Restorable) -> None:
        leaf = self._published[key].snapshot
        layout = destination.expect(key.boundary, leaf.meta)
        self.snapshotter.copy(self.snapshotter.fixed_pairs(leaf, layout))
        at: CacheKey | None = key
        while at in self._published:
            copy_rows_of(self._published[at].snapshot, layout)
            at = self._published[at].parent
        destination.finish_restore(leaf.meta)


class MissingLinkSkipped(Mutant):
    """A chain whose root is gone is restored from the link after it, above a hole."""

    mutant_id = "K04.missing-link-skipped"
    stopped_by = Stop(scenario="B08", cell={"link": "root"}, check="refused", reason="not_refused")
    store = _SkipsMissing


class _BlankMiss(SessionCache):
    def note_miss(self, reason: str) -> None:
        super().note_miss("never_captured" if reason == "evicted" else reason)


class MissReasonBlank(Mutant):
    """A miss after an eviction is counted like one of a text that was never seen."""

    mutant_id = "K04.miss-reason-blank"
    stopped_by = Stop(scenario="E11", check="evicted")
    store = _BlankMiss


class _DecodesAnyway(TorchSession):
    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        self.logits_valid = True
        return super().decode(count, sampler)


class DecodeWithoutLogits(Mutant):
    """A session that has forwarded nothing decodes from the logits that lie in its memory."""

    mutant_id = "K04.decode-without-logits"
    stopped_by = Stop(scenario="F07", check="no-logits", reason="not_refused")
    session = _DecodesAnyway


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


class _LastPieceLeft(Snapshotter):
    def copy(self, pairs: Sequence[Pair]) -> None:
        super().copy(pairs[:-1])

    def gather(self, chain: Sequence[Snapshot], layout: StateLayout) -> None:
        last = layout.rows[-1].tensor
        before = last.clone()
        super().gather(chain, layout)
        last.copy_(before)


class LastPieceNotCopied(Mutant):
    """Every list of copies is worked off but for its last piece."""

    mutant_id = "K04.last-piece-not-copied"
    stopped_by = Stop(
        scenario="A01", cell={"arch": "attention"}, check="again", part="layer3.index_pooled", phase="restored"
    )
    snapshotter = _LastPieceLeft


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


class _HitsUncounted(SessionCache):
    def restore(self, key: CacheKey, destination: Restorable) -> None:
        super().restore(key, destination)
        self._counts["hits"] -= 1


class HitsUncounted(Mutant):
    """Prompts are served from the store and the counter of hits stays at zero."""

    mutant_id = "K04.hits-uncounted"
    stopped_by = Stop(scenario="E11", check="a-hit")
    store = _HitsUncounted


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


class _ClaimsLogits(TorchSession):
    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self.logits_valid = True


class PrefixClaimsLogits(Mutant):
    """A restored prefix says that logits are pending; it has none."""

    mutant_id = "K04.prefix-claims-logits"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="meta", phase="restored")
    session = _ClaimsLogits


class _NeverMade(Continuation):
    def leave(self) -> None:
        self.session.turn.deferred = None


class _DefersForEver(Continues):
    continuation = _NeverMade


class DeferredNeverMade(Mutant):
    """A save that was put off is dropped without a word when its session moves on."""

    mutant_id = "K04.deferred-never-made"
    stopped_by = Stop(scenario="D07", cell={"route": "ar"}, check="made")
    session = _DefersForEver


class _NotDemoted(SessionCache):
    def demote(self, entry: Entry) -> None:
        self._counts["demotions"] += entry.snapshot.nbytes > 0


class NotDemoted(Mutant):
    """What leaves memory is counted as written to the disk and is not."""

    mutant_id = "K04.not-demoted"
    stopped_by = Stop(scenario="F09", check="b-from-disk", reason="other_count")
    store = _NotDemoted


class _Unread(SessionCache):
    def fetched(self, key: CacheKey) -> list[Fetched]:
        links = super().fetched(key)
        for link in links:
            link.snapshot.arena.zero_()
        return links


class DiskNotRead(Mutant):
    """A link on the disk is found, and its place in memory is taken for its bytes."""

    mutant_id = "K04.disk-not-read"
    stopped_by = Stop(scenario="F09", check="b-from-disk-exact", part="recurrent", phase="restored")
    store = _Unread


class _DraftsNothing(Speculator):
    def propose(self, token: int, sampler: Sampler) -> None:
        """Leave every word to the target."""


class DraftsNothing(Mutant):
    """A session on the drafting route never drafts; its text is right, and nothing of the route was used."""

    mutant_id = "K04.drafts-nothing"
    stopped_by = Stop(scenario="A20", cell={"drafts": "free"}, check="really-drafted", reason="other_count")
    speculator = _DraftsNothing


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


class _DropsPin(TorchSession):
    def adopt(self, meta: bytes, parts: Mapping[str, Buffer], prompt: Sequence[int] = ()) -> None:
        super().adopt(replace(decode_metadata(meta), pinned=0).encode(), parts, prompt)


class PinDropped(Mutant):
    """An image with a pinned prefix that cannot be pinned here comes in without its pin, and nobody is told."""

    mutant_id = "K04.pin-dropped"
    stopped_by = Stop(scenario="F06", cell={"mode": "swa"}, check="pin-unsupported", reason="not_refused")
    session = _DropsPin


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


class _MissesAreHits(SessionCache):
    def note_miss(self, reason: str) -> None:
        super().note_miss(reason)
        self._counts["hits"] += 1


class ColdCountsHit(Mutant):
    """A request that nothing was found for is counted as a hit too."""

    mutant_id = "K04.cold-counts-hit"
    stopped_by = Stop(scenario="A22", cell={"route": "ar"}, check="no-hit-counted", reason="other_count")
    store = _MissesAreHits


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


class _SavesNothing(TorchSession):
    def idle(self, what: str) -> None:
        if what != "snapshot":
            super().idle(what)


class HandleOfNothing(Mutant):
    """A session of a model without decoding state is saved: a handle comes back, and there is nothing in it."""

    mutant_id = "K04.handle-of-nothing"
    stopped_by = Stop(scenario="F15", check="snapshot", reason="not_refused")
    session = _SavesNothing


class _ExportsZeros(TorchAdapterSession):
    def image_size(self) -> int:
        return super().image_size() if self._session.decoder.config.decodes else 1

    def export_image(self, capacity: int) -> Buffer:
        return super().export_image(capacity) if self._session.decoder.config.decodes else bytes(1)


class ImageOfNothing(Mutant):
    """A session of a model without decoding state is exported as an image that holds nothing."""

    mutant_id = "K04.image-of-nothing"
    stopped_by = Stop(scenario="F15", check="export", reason="not_refused")
    adapter_session = _ExportsZeros


class _LooksUpFirst(TorchAdapterSession):
    def restore(self, handle: str) -> Begun:
        self._engine.handle(handle)
        return super().restore(handle)


class RestoreSaysMissing(Mutant):
    """Asked to restore, a model without decoding state says that the handle is missing, as if another would do."""

    mutant_id = "K04.restore-says-missing"
    stopped_by = Stop(scenario="F15", check="restore", reason="other_code")
    adapter_session = _LooksUpFirst


class _BringsNothing(Imager):
    def bring(self, session: TorchSession, data: Buffer) -> int:
        copied = super().bring(session, data)
        session.reset()
        return copied


class ImportEmpty(Mutant):
    """An image is taken and counted, and the session is a new one all the same."""

    mutant_id = "K04.import-empty"
    stopped_by = Stop(scenario="A62", check="reused", reason="other_count")
    imager = _BringsNothing


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
