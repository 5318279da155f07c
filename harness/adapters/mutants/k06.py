"""K06: a compatibility guard is missing, or good images are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import Continues
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import LayoutError, SessionStateError
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.image import (
    Expectation,
    ImageDescription,
    ImageFormatError,
    ImageInfo,
    check_identity,
    check_lengths,
    check_parts,
)
from harness.torch_engine.image_header import parse_header
from harness.torch_engine.image_wire import flat
from harness.torch_engine.keys import Tokens
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.models.config import TILE
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_LINKS = 2


class _OwnHandlesOnly(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._own: list[SessionHandle] = []

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        self._own.append(handle)
        return handle

    def restore(self, handle: SessionHandle) -> None:
        if handle not in self._own:
            raise LayoutError("handle: expected one of this session, found another session's")
        super().restore(handle)


class ForkRefused(Mutant):
    """A saved session is refused everywhere but in the session that it was taken of."""

    mutant_id = "K06.fork-refused"
    stopped_by = Stop(scenario="A04", check="twig-starts-alike", reason="refused")
    session = _OwnHandlesOnly


class _NotContiguous(Snapshotter):
    def check_segments(self, link: Snapshot, rows: Sequence[tuple[str, int]], ends: Sequence[int], where: str) -> None:  # noqa: ARG002
        super().check_segments(link, rows, [segment.start for segment in link.segments], where)


class ContiguityUnchecked(Mutant):
    """A chain with a gap between two links is restored as if it joined up."""

    mutant_id = "K06.contiguity-unchecked"
    stopped_by = Stop(scenario="B07", cell={"damage": "gap"}, check="refused", reason="not_refused")
    snapshotter = _NotContiguous


class OwnRowBytes(Snapshotter):
    """Takes stored rows to be as long as those of the session."""

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        """Restore without a look at the row sizes of the links."""
        return super().restore([_with_row_bytes(link, layout) for link in chain], layout)


def _with_row_bytes(link: Snapshot, layout: StateLayout) -> Snapshot:
    """Return a link whose rows are taken to be as long as those of the destination."""
    pairs = zip(link.segments, layout.rows, strict=True)
    return replace(link, segments=tuple(replace(segment, row_bytes=row.row_bytes) for segment, row in pairs))


class RowBytesUnchecked(Mutant):
    """Rows of another size are restored with the row size of the session."""

    mutant_id = "K06.row-bytes-unchecked"
    stopped_by = Stop(scenario="B07", cell={"damage": "row_size"}, check="refused", reason="not_refused")
    snapshotter = OwnRowBytes


class _CutToFit(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        pairs = zip(chain[-1].segments, layout.rows, strict=True)
        segments = tuple(replace(segment, stop=min(segment.stop, row.rows)) for segment, row in pairs)
        return super().restore([*chain[:-1], replace(chain[-1], segments=segments)], layout)


class RowCountUnchecked(Mutant):
    """A chain that claims more rows than its boundary has is cut to fit and restored."""

    mutant_id = "K06.row-count-unchecked"
    stopped_by = Stop(scenario="B07", cell={"damage": "row_count"}, check="refused", reason="not_refused")
    snapshotter = _CutToFit


class _NoIdentity(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        saved = handle.open()
        handle.saved = replace(saved, identity=self.identity)
        try:
            super().restore(handle)
        finally:
            handle.saved = saved


class IdentityUnchecked(Mutant):
    """A saved session of other weights is taken, since all its shapes fit."""

    mutant_id = "K06.identity-unchecked"
    stopped_by = Stop(scenario="F01", check="refused", reason="not_refused")
    session = _NoIdentity


class _TailCut(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        saved, room = handle.open(), self.buffers.capacity
        meta = decode_metadata(saved.snapshot.meta)
        if meta.position <= room:
            super().restore(handle)
            return
        lengths = self.buffers.lengths_at(room)
        layout = self.buffers.layout("session", lengths, room)
        _CutToFit.restore(_CutToFit(), [saved.snapshot], layout)
        self.abandon()
        self.take_over(replace(meta, position=room, layers=lengths))


class CapacityUnchecked(Mutant):
    """A saved session that is longer than the buffers is cut to fit: its end is lost, its recurrent state is not."""

    mutant_id = "K06.capacity-unchecked"
    stopped_by = Stop(scenario="F03", check="refused", reason="not_refused")
    session = _TailCut


class _FreshOnly(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        if self.position:
            raise SessionStateError(f"restore: expected a new session, found one at {self.position}")
        super().restore(handle)


class UsedSessionRefused(Mutant):
    """A session that has forwarded anything cannot go back to a saved one."""

    mutant_id = "K06.used-session-refused"
    stopped_by = Stop(scenario="A03", cell={"arch": "hybrid"}, check="came-back", reason="refused")
    session = _FreshOnly


class _Once(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        self.engine.drop(handle)


class HandleOnce(Mutant):
    """A saved session can be restored once and is gone."""

    mutant_id = "K06.handle-once"
    stopped_by = Stop(scenario="A05", check="back-2", reason="refused")
    session = _Once


class _TwoLinks(Snapshotter):
    def validate(self, chain: Sequence[Snapshot], layout: StateLayout) -> None:
        if len(chain) > _MOST_LINKS:
            raise LayoutError(f"chain: expected at most {_MOST_LINKS} links, found {len(chain)}")
        super().validate(chain, layout)


class LongChainRefused(Mutant):
    """A chain of more than two links is stored and then refused."""

    mutant_id = "K06.long-chain-refused"
    stopped_by = Stop(scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", reason="refused")
    snapshotter = _TwoLinks


class _WholeTiles(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        position = decode_metadata(handle.open().snapshot.meta).position
        if position % TILE:
            raise LayoutError(f"handle: expected a multiple of {TILE} tokens, found {position}")
        super().restore(handle)


class OddPositionRefused(Mutant):
    """Sessions are saved anywhere, and restored only where a tile ends."""

    mutant_id = "K06.odd-position-refused"
    stopped_by = Stop(scenario="A16", cell={"at": "block+1"}, check="came-back", reason="refused")
    session = _WholeTiles


class _NoDigests(Imager):
    def check(self, session: TorchSession, data: Buffer) -> ImageInfo:
        info = parse_header(flat(data))
        expectation = self.expectation(session, info.description)
        check_identity(info.description.identity, expectation)
        check_parts(info.description.parts, expectation.parts)
        check_lengths(info.description, expectation)
        self.check_claims(session, info.description)
        return info


class ImageDigestsUnchecked(Mutant):
    """An image is taken if its header is right; what its parts hash to is not looked at."""

    mutant_id = "K06.image-digests-unchecked"
    stopped_by = Stop(scenario="F04", cell={"damage": "middle"}, check="refused", reason="not_refused")
    imager = _NoDigests


class _AnyIdentity(Imager):
    def expectation(self, session: TorchSession, about: ImageDescription) -> Expectation:
        return replace(super().expectation(session, about), identity=about.identity)


class ImageIdentityUnchecked(Mutant):
    """An image of other weights is taken, since all its shapes fit."""

    mutant_id = "K06.image-identity-unchecked"
    stopped_by = Stop(scenario="F10", cell={"other": "weights"}, check="image-refused", reason="not_refused")
    imager = _AnyIdentity


class _AnyClaims(Imager):
    def check_claims(self, session: TorchSession, about: ImageDescription) -> None:
        """Look at nothing."""


class ImageClaimsUnchecked(Mutant):
    """What the header of an image says of logits and tokens is not held against its parts."""

    mutant_id = "K06.image-claims-unchecked"
    stopped_by = Stop(scenario="F05", cell={"forged": "logits"}, check="refused", reason="not_refused")
    imager = _AnyClaims


class _EmptyRefused(Imager):
    def check(self, session: TorchSession, data: Buffer) -> ImageInfo:
        info = super().check(session, data)
        if info.description.position == 0:
            raise ImageFormatError("position: expected at least 1 token, found 0")
        return info


class EmptyImageRefused(Mutant):
    """An empty session is exported and its image refused."""

    mutant_id = "K06.empty-image-refused"
    stopped_by = Stop(scenario="A11", check="reset-goes-on", reason="refused")
    imager = _EmptyRefused


class _JoinsAnyLonger(Continuation):
    def live_start(self, prompt: Tokens) -> int:
        s, rows = self.session, self.session.buffers.history_rows
        live = s.options.live and self.live and s.position >= len(s.prompt)
        return rows if live and len(prompt) > rows else 0


class _ContinuesAny(Continues):
    continuation = _JoinsAnyLonger


class LivePrefixUnchecked(Mutant):
    """A prompt that is longer than the live text is joined to it, whether it begins with that text or not."""

    mutant_id = "K06.live-prefix-unchecked"
    stopped_by = Stop(scenario="D04", check="no-extension-no-join", reason="other_count")
    session = _ContinuesAny


class ImageFlipTaken(Mutant):
    """A changed bit in the payload of an image is taken, as by an engine whose image has no digest."""

    mutant_id = "K06.image-flip-taken"
    stopped_by = Stop(scenario="F61", cell={"harm": "flip"}, check="refused", reason="not_refused")
    imager = _NoDigests


class ImageOfOtherWeights(Mutant):
    """An image of any weights is taken if its sizes fit."""

    mutant_id = "K06.image-of-other-weights"
    stopped_by = Stop(scenario="F62", check="refused", reason="not_refused")
    imager = _AnyIdentity
