"""Links of the session cache on a disk: a snapshot to a record of `store.py` and back.

`cache_disk.py` decides when; this module only knows how.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harness.torch_engine.cache_types import Entry
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.snapshot import FixedCopy, Piece, Segment, Snapshot, aligned
from harness.torch_engine.store import DiskStore, Loaded, Record, Section, SectionKind

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class Fetched:
    """A link that was read and verified."""

    key: CacheKey
    parent: CacheKey | None
    snapshot: Snapshot


class DiskTier:
    """An open store, spoken to in snapshots.

    Args:
        store: open; closed by `close`.
        device: where arenas live.
    """

    def __init__(self, store: DiskStore, device: torch.device) -> None:
        self.store = store
        self.device = device

    def write(self, entry: Entry) -> bool:
        """Put a link on the disk; whether it lies there now."""
        snapshot = entry.snapshot
        payload = [piece_bytes(snapshot, piece.name) for piece in snapshot.pieces()]
        return self.store.put(record_of(entry), payload) in ("stored", "exists")

    def offers(self, key: CacheKey, held: Collection[CacheKey]) -> bool:
        """Whether a key and all that it continues lie here or are held in memory."""
        return self.store.plan(key.domain, [(key.boundary, key.fingerprint)], held=held) is not None

    def fetch(self, key: CacheKey, held: Collection[CacheKey]) -> list[Fetched]:
        """Read the links of a key that are not held, root first; all are verified when this returns.

        Raises:
            LinkCorruptError, LinkMissingError, ChainError: located at the link that is wrong.
        """
        arenas: dict[CacheKey, Tensor] = {}

        def into(record: Record) -> list[Buffer]:
            fixed, segments, size = packed(record.sections)
            arena = arenas[record.key] = torch.empty(size, dtype=torch.uint8)
            pieces: tuple[Piece, ...] = (*fixed, *segments)
            return [arena[piece.offset : piece.offset + piece.nbytes].numpy().data for piece in pieces]

        loaded = self.store.load_chain(key, into, held=held)
        return [self._fetched(link, arenas[link.record.key]) for link in reversed(loaded)]

    def _fetched(self, link: Loaded, arena: Tensor) -> Fetched:
        fixed, segments, _ = packed(link.record.sections)
        made = Snapshot(fixed=fixed, segments=segments, meta=link.record.meta, arena=arena.to(self.device))
        return Fetched(link.record.key, link.record.parent, made)

    def loaded_bytes(self) -> int:
        """Bytes read so far."""
        return self.store.counters()["loaded_bytes"]

    def counters(self) -> dict[str, int]:
        """The store's counters under names that begin with ``disk_``."""
        return {f"disk_{name}": value for name, value in self.store.counters().items()}

    def close(self) -> None:
        """Release the folder."""
        self.store.close()


def record_of(entry: Entry) -> Record:
    """What a link says of itself on the disk."""
    snapshot = entry.snapshot
    fixed = [Section(name=part.name, kind=SectionKind.FIXED, row_bytes=part.nbytes) for part in snapshot.fixed]
    rows = [
        Section(name=s.name, kind=SectionKind.ROWS, row_bytes=s.row_bytes, start=s.start, stop=s.stop)
        for s in snapshot.segments
    ]
    return Record(
        key=entry.key,
        parent=entry.parent,
        position=entry.key.boundary,
        meta=snapshot.meta,
        sections=(*fixed, *rows),
    )


def packed(sections: Collection[Section]) -> tuple[tuple[FixedCopy, ...], tuple[Segment, ...], int]:
    """Where sections lie in an arena, and its bytes; as `Snapshotter.pieces` packs them."""
    fixed, segments, end = [], [], 0
    for section in sections:
        offset = aligned(end)
        end = offset + section.nbytes
        if section.kind is SectionKind.FIXED:
            fixed.append(FixedCopy(name=section.name, nbytes=section.nbytes, offset=offset))
        else:
            segments.append(
                Segment(
                    name=section.name,
                    row_bytes=section.row_bytes,
                    start=section.start,
                    stop=section.stop,
                    offset=offset,
                )
            )
    return tuple(fixed), tuple(segments), end


def piece_bytes(snapshot: Snapshot, name: str) -> Buffer:
    """The bytes that a link holds of a part, on the host."""
    return snapshot.held(name).cpu().numpy().data
