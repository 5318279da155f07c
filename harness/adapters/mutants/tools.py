"""Steps that several faults share: restoring less than everything, and snapshots that are no copies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.models.delta import DeltaState
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Segment, Snapshot, Snapshotter
from harness.torch_engine.state import Part, StateLayout, bytes_view


class Continues(TorchSession):
    """A session that goes on from what is there in another way; a subclass gives the class that does."""

    continuation: ClassVar[type[Continuation]] = Continuation

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        """Open as usual, then take the other way."""
        super().__init__(engine, options)
        self.continuing = self.continuation(self)


def chosen(layout: StateLayout, what: str) -> frozenset[str]:
    """Return the names of the parts whose name or family is ``what``."""
    return frozenset(part.name for part in layout.parts() if what in (part.name, part.family))


class RestoresWithout(Snapshotter):
    """Brings back everything but some parts; a subclass says which."""

    left_out: ClassVar[str] = ""
    """Name of a part, or of a family."""

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        """Check the whole chain, and restore it without them."""
        return restore_without(self, chain, layout, chosen(layout, self.left_out))


class ReturnsWithout(TorchSession):
    """Goes back to a saved session in everything but some parts; a subclass says which."""

    left_out: ClassVar[str] = ""
    """Name of a part, or of a family."""

    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        """Check the whole of it, and restore it without them."""
        restore_without(self.snapshotter, [saved.snapshot], layout, chosen(layout, self.left_out))


class ResetKeeps(SessionBuffers):
    """A reset leaves some parts as they are; a subclass says which."""

    kept: ClassVar[str] = ""
    """Name of a part, or of a family."""

    def reset(self) -> None:
        """Reset, then put them back."""
        parts = [part for part in self.layout("session").fixed if self.kept in (part.name, part.family)]
        before = [(part.tensor, part.tensor.clone()) for part in parts]
        super().reset()
        for live, was in before:
            live.copy_(was)


def names(layout: StateLayout, family: str) -> frozenset[str]:
    """Return the names of the parts of a family."""
    return frozenset(part.name for part in layout.parts() if part.family == family)


def recurrent_states(session: TorchSession) -> list[DeltaState]:
    """Return the states of the gated-delta layers."""
    return [state for state in session.buffers.layers if isinstance(state, DeltaState)]


def layout_without(layout: StateLayout, left_out: Collection[str]) -> StateLayout:
    """Return the layout without some of its parts."""
    return StateLayout(
        fixed=tuple(part for part in layout.fixed if part.name not in left_out),
        rows=tuple(part for part in layout.rows if part.name not in left_out),
    )


def snapshot_without(snapshot: Snapshot, left_out: Collection[str]) -> Snapshot:
    """Return a link without some of its parts; its bytes stay."""
    return replace(
        snapshot,
        fixed=tuple(part for part in snapshot.fixed if part.name not in left_out),
        segments=tuple(part for part in snapshot.segments if part.name not in left_out),
    )


def restore_without(
    snapshotter: Snapshotter, chain: Sequence[Snapshot], layout: StateLayout, left_out: Collection[str]
) -> int:
    """Check a whole chain, then restore it without some parts; returns the bytes copied."""
    snapshotter.validate(chain, layout)
    thinner = [snapshot_without(link, left_out) for link in chain]
    return Snapshotter.restore(snapshotter, thinner, layout_without(layout, left_out))


def restore_fewer_rows(
    snapshotter: Snapshotter, chain: Sequence[Snapshot], layout: StateLayout, rows: Callable[[Part, int], int]
) -> int:
    """Check a whole chain, then restore of its leaf only the rows below a limit; returns the bytes copied.

    Args:
        snapshotter: Copies.
        chain: Links, root first.
        layout: Destination.
        rows: From a stream and its valid rows to the rows that are brought back.
    """
    snapshotter.validate(chain, layout)
    stops = {stream.name: rows(stream, stream.rows) for stream in layout.rows}
    leaf = replace(chain[-1], segments=tuple(replace(s, stop=stops[s.name]) for s in chain[-1].segments))
    shorter = replace(layout, rows=tuple(replace(stream, rows=stops[stream.name]) for stream in layout.rows))
    return Snapshotter.restore(snapshotter, [*chain[:-1], leaf], shorter)


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewing(Snapshot):
    """A link that remembers where its bytes came from."""

    live: StateLayout
    """The live buffers at the time of capture."""


def viewing(made: Snapshot, live: StateLayout) -> Viewing:
    """Return a link with the live buffers that it was taken of."""
    return Viewing(fixed=made.fixed, segments=made.segments, meta=made.meta, arena=made.arena, live=live)


class ViewFixed(Snapshotter):
    """Brings fixed parts back from the live buffers of the session that they were taken of."""

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        """Copy as usual, then what the last link refers to."""
        leaf = chain[-1]
        seen = [part.tensor.clone() for part in leaf.live.fixed] if isinstance(leaf, Viewing) else []
        copied = super().restore(chain, layout)
        for part, live in zip(layout.fixed, seen, strict=False):
            part.tensor.copy_(live)
        return copied


class ViewRows(Snapshotter):
    """Brings rows back from the live buffers of the session that they were taken of."""

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        """Copy as usual, then what the links refer to."""
        seen = [(segment, rows) for link in chain if isinstance(link, Viewing) for segment, rows in _live_rows(link)]
        copied = super().restore(chain, layout)
        streams = {stream.name: stream.tensor for stream in layout.rows}
        for segment, rows in seen:
            streams[segment.name][segment.start : segment.stop] = rows
        return copied


def _live_rows(link: Viewing) -> list[tuple[Segment, Tensor]]:
    spans = zip(link.live.rows, link.segments, strict=True)
    return [(span, stream.tensor[span.start : span.stop].clone()) for stream, span in spans]


def copy_rows_of(link: Snapshot, layout: StateLayout) -> None:
    """Copy the rows of one link to their places, whatever lies below them."""
    for stream, span in zip(layout.rows, link.segments, strict=True):
        if span.nbytes:
            bytes_view(stream.tensor[span.start : span.stop]).copy_(link.held(span.name))
