"""K04: a silent no-op where state is stored, kept or brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import Continues, copy_rows_of
from harness.adapters.torch_session import TorchAdapterSession
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Restorable, Turn
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.disk_tier import Fetched
from harness.torch_engine.errors import MissingError
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.snapshot import Pair, Snapshot, Snapshotter
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


class _DropsPin(TorchSession):
    def adopt(self, meta: bytes, parts: Mapping[str, Buffer], prompt: Sequence[int] = ()) -> None:
        super().adopt(replace(decode_metadata(meta), pinned=0).encode(), parts, prompt)


class PinDropped(Mutant):
    """An image with a pinned prefix that cannot be pinned here comes in without its pin, and nobody is told."""

    mutant_id = "K04.pin-dropped"
    stopped_by = Stop(scenario="F06", cell={"mode": "swa"}, check="pin-unsupported", reason="not_refused")
    session = _DropsPin


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
