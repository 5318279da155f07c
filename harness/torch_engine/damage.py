"""Broken geometry of a stored snapshot: what a restore must refuse by name before it copies anything."""

from __future__ import annotations

from dataclasses import replace

from harness.torch_engine.errors import OptionError
from harness.torch_engine.snapshot import Segment, Snapshot

KINDS = ("gap", "row_size", "row_count", "missing")
"""``gap``: rows begin one too late. ``row_size``: rows are one byte longer. ``row_count``: one row too many is
claimed. ``missing``: the snapshot is gone (see `CacheShelf.damage`)."""


def damaged(snapshot: Snapshot, kind: str) -> Snapshot:
    """The same snapshot with the geometry of its first row stream that holds rows changed; its bytes stay.

    Raises:
        OptionError: no such kind, or no stream holds rows.
    """
    index = next((i for i, segment in enumerate(snapshot.segments) if segment.stop > segment.start), None)
    if index is None or kind not in KINDS[:-1]:
        raise OptionError(f"damage: expected one of {KINDS} on a snapshot with rows, found {kind!r}")
    segments = list(snapshot.segments)
    segments[index] = _changed(segments[index], kind)
    return replace(snapshot, segments=tuple(segments))


def _changed(segment: Segment, kind: str) -> Segment:
    if kind == "gap":
        return replace(segment, start=segment.start + 1)
    if kind == "row_size":
        return replace(segment, row_bytes=segment.row_bytes + 1)
    return replace(segment, stop=segment.stop + 1)
