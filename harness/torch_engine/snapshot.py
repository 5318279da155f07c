"""Delta snapshots of a `StateLayout`: what one holds, and the primitives that take and put back.

A snapshot copies every fixed part whole and, of each row stream, only the rows above its parent's
end. Its bytes lie in one arena on the state's device, each piece aligned up to `PART_ALIGN` bytes.
A chain root → leaf restores a state: the leaf's fixed parts and every link's rows.

`Snapshotter` does the work in small methods, so that one step can be replaced and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import le

import torch
from torch import Tensor

from harness.torch_engine.arenas import Arenas
from harness.torch_engine.errors import LayoutError, MissingError
from harness.torch_engine.scatter import Scatter
from harness.torch_engine.state import Columns, RowSizes, StateLayout, bytes_view, flip_bits, one_of_equal

PART_ALIGN = 256
"""Alignment of every piece in an arena, in bytes."""
METADATA_PART = "metadata"
"""Name of part 0, which is bytes and not a tensor."""

FEW_BYTES = 32 << 10
"""Bytes of a segment up to which a call of torch costs more than its copy; `scatter` allows no more than this."""

Pair = tuple[Tensor, Tensor]
"""A copy to be made: destination, source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedCopy:
    """Where a fixed part lies in the arena."""

    name: str
    """The part's name."""
    nbytes: int
    """Its size in bytes."""
    offset: int
    """Its first byte in the arena."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Where the rows of one stream lie in the arena."""

    name: str
    """The stream's name."""
    row_bytes: int
    """Bytes of one row."""
    start: int
    """First row held; equals the parent's ``stop``."""
    stop: int
    """Row after the last one held."""
    offset: int
    """First byte in the arena."""

    @property
    def nbytes(self) -> int:
        """Bytes of the held rows."""
        return (self.stop - self.start) * self.row_bytes


Piece = FixedCopy | Segment


@dataclass(frozen=True, kw_only=True, slots=True)
class Geometry:
    """The segments of a link, column by column, to be compared at once."""

    rows: RowSizes
    """Name and row bytes of each stream."""
    starts: tuple[int, ...]
    """First row of each."""
    stops: tuple[int, ...]
    """Row after the last one of each."""
    deepest: int
    """The greatest of these."""
    ordered: bool
    """Whether each segment starts at a row and ends at none before it."""
    nbytes: int
    """Bytes of all rows."""
    widest: int
    """Bytes of the longest segment."""
    on_host: bool
    """Whether the arena lies there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One stored link. The arena is its own memory, never a view of live state."""

    fixed: tuple[FixedCopy, ...]
    """Fixed parts in the layout's order."""
    segments: tuple[Segment, ...]
    """One segment per row stream, in the layout's order; it may be empty."""
    meta: bytes
    """Part 0 at the time of capture."""
    arena: Tensor = field(repr=False)
    """(bytes,) u8 on the state's device."""
    views: dict[object, list[Tensor]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Views of the arena that `rows_as` made before; only to make them once."""
    told: list[Geometry] = field(init=False, repr=False, compare=False, default_factory=list)
    """What `geometry` said before; likewise."""
    scatters: list[Scatter] = field(init=False, repr=False, compare=False, default_factory=list)
    """What `scatter` said before; likewise."""

    @property
    def nbytes(self) -> int:
        """Bytes that this link keeps allocated, metadata included."""
        return int(self.arena.numel()) + len(self.meta)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the fixed parts alone."""
        return sum(part.nbytes for part in self.fixed)

    @property
    def gap_bytes(self) -> int:
        """Bytes of the arena that belong to no piece: each piece begins at a multiple of `PART_ALIGN`."""
        return int(self.arena.numel()) - sum(piece.nbytes for piece in self.pieces())

    def pieces(self) -> tuple[Piece, ...]:
        """Fixed parts, then segments, in the order of the arena."""
        return (*self.fixed, *self.segments)

    def rows_as(self, rows: tuple[tuple[torch.dtype, torch.Size], ...]) -> list[Tensor]:
        """Each segment's rows as a view (rows, *row shape).

        Args:
            rows: element type and row shape of each stream.
        """
        if rows not in self.views:
            flat = split_arena(self.arena, self.segments, [dtype for dtype, _ in rows])
            pairs = zip(flat, rows, self.segments, strict=True)
            self.views[rows] = [view.view(s.stop - s.start, *shape) for view, (_, shape), s in pairs]
        return self.views[rows]

    def ends(self) -> tuple[int, ...]:
        """Rows of each stream below which a child need not copy."""
        return self.geometry().stops

    def geometry(self) -> Geometry:
        """Names, row sizes and spans of all segments, column by column."""
        if not self.told:
            segments = self.segments
            self.told.append(
                Geometry(
                    rows=one_of_equal(tuple((s.name, s.row_bytes) for s in segments)),
                    starts=tuple(s.start for s in segments),
                    stops=tuple(s.stop for s in segments),
                    deepest=max((s.stop for s in segments), default=0),
                    ordered=all(0 <= s.start <= s.stop for s in segments),
                    nbytes=sum(s.nbytes for s in segments),
                    widest=max((s.nbytes for s in segments), default=0),
                    on_host=self.arena.device.type == "cpu",
                )
            )
        return self.told[0]

    def scatter(self) -> Scatter:
        """Where the rows of each segment belong in its stream, of an arena on the host."""
        if not self.scatters:
            parts = self.segments
            offsets, sizes = [s.offset for s in parts], [s.nbytes for s in parts]
            self.scatters.append(Scatter(self.arena.numpy(), offsets, sizes, [s.start * s.row_bytes for s in parts]))
        return self.scatters[0]

    def held(self, name: str) -> Tensor:
        """The bytes (n,) u8 that this link holds of a part, as a live view of the arena.

        Raises:
            MissingError: the link has no such part.
        """
        pieces = self.pieces()
        for piece in pieces:
            if piece.name == name:
                return self.arena[piece.offset : piece.offset + piece.nbytes]
        names = [piece.name for piece in pieces]
        raise MissingError(f"snapshot part: expected one of {names}, found {name!r}")


def corrupted(snapshot: Snapshot, name: str, byte_offset: int, xor_mask: int) -> Snapshot:
    """Flip bits of one stored byte, a negative control; returns the snapshot to keep.

    Args:
        snapshot: the link; its arena is changed in place.
        name: a part's name, or `METADATA_PART`.
        byte_offset: offset in the bytes that this link holds of the part.
        xor_mask: 1..255.

    Raises:
        MissingError: no such part.
        LayoutError: offset or mask out of range.
    """
    if name != METADATA_PART:
        flip_bits(snapshot.held(name), byte_offset, xor_mask, where=name)
        return snapshot
    words = torch.frombuffer(bytearray(snapshot.meta), dtype=torch.uint8)
    flip_bits(words, byte_offset, xor_mask, where=name)
    return replace(snapshot, meta=bytes(words.tolist()))


def aligned(size: int) -> int:
    """The first multiple of `PART_ALIGN` from a size on."""
    return -(-size // PART_ALIGN) * PART_ALIGN


class Snapshotter:
    """Takes snapshots and puts them back; every step is a method to override. Its only state is its memory."""

    def __init__(self) -> None:
        self.arenas = Arenas()
        """Memory of links that were taken here, and of those that were told to it."""

    def starts(self, layout: StateLayout, parent: Snapshot | None) -> tuple[int, ...]:
        """First row to copy of each stream: the parent's end, or 0."""
        return parent.ends() if parent is not None else (0,) * len(layout.rows)

    def lines_up(self, parent: Snapshot, layout: StateLayout) -> bool:
        """Whether a snapshot can be the parent of one taken of this layout now."""
        if len(parent.segments) != len(layout.rows):
            return False
        pairs = zip(parent.segments, layout.rows, strict=True)
        return all(s.row_bytes == r.row_bytes and s.stop <= r.rows for s, r in pairs)

    def size(self, layout: StateLayout, starts: Sequence[int], meta: bytes) -> int:
        """Bytes that `capture` will keep allocated."""
        fixed, segments = self.pieces(layout, starts)
        return self._arena_bytes(fixed, segments) + len(meta)

    def capture(self, layout: StateLayout, meta: bytes, starts: Sequence[int]) -> Snapshot:
        """Copy fixed parts whole and rows from ``starts`` on; the layout is only read.

        Args:
            layout: the live state.
            meta: part 0.
            starts: first row to copy of each stream.

        Raises:
            LayoutError: a start lies above the valid rows.
        """
        fixed, segments = self.pieces(layout, starts)
        arena = self.allocate(self._arena_bytes(fixed, segments), self.device(layout))
        snapshot = Snapshot(fixed=fixed, segments=segments, meta=meta, arena=arena)
        self.arenas.hold(arena, arena.numel() + len(meta))
        pairs = self.fixed_pairs(snapshot, layout) + self.row_pairs(snapshot, layout)
        self.copy([(stored, live) for live, stored in pairs])
        return snapshot

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        """Validate everything, then copy a chain root → leaf into the layout's buffers.

        Args:
            chain: the links, root first.
            layout: the destination, with the row counts that it is to have afterwards.

        Returns:
            Bytes copied.

        Raises:
            LayoutError: a part or link does not fit; nothing was touched.
        """
        self.validate(chain, layout)
        pairs = self.fixed_pairs(chain[-1], layout)
        fixed_bytes = sum(live.numel() * live.element_size() for live, _ in pairs)
        if self._on_host(chain, layout):
            self.copy(pairs)
            self.gather(chain, layout)
        else:
            for link in chain:
                pairs += self.row_pairs(link, layout)
            self.copy(pairs)
        return fixed_bytes + sum(link.geometry().nbytes for link in chain)

    def gather(self, chain: Sequence[Snapshot], layout: StateLayout) -> None:
        """Put the rows of all links of a validated chain into each stream of the host.

        Large segments take one call of torch a stream, which lets other threads go on. For small ones the calls would
        take longer than the bytes: they take a few calls a link.
        """
        told, links = layout.last_columns(), [link.geometry() for link in chain]
        if all(one.widest <= FEW_BYTES and _fits(one, told) for one in links):
            for link in chain:
                link.scatter().put(told.at)
            return
        kinds = tuple((r.tensor.dtype, r.tensor.shape[1:]) for r in layout.rows)
        held = [link.rows_as(kinds) for link in chain]
        for stream, end, *parts in zip(layout.rows, chain[-1].ends(), *held, strict=True):
            if end:
                torch.cat(parts, out=stream.tensor[:end])

    def validate(self, chain: Sequence[Snapshot], layout: StateLayout) -> None:
        """Every check of `restore`, without the copy."""
        if not chain:
            raise LayoutError("chain: expected at least one link, found none")
        self.check_fixed(chain[-1], layout)
        told = layout.columns()
        ends: tuple[int, ...] = (0,) * len(told.rows)
        for depth, link in enumerate(chain):
            self.check_segments(link, told.rows, ends, f"link {depth}")
            ends = link.ends()
        if ends == told.counts and _within(ends, told.capacities):
            return
        for stream, end, capacity in zip(layout.rows, ends, told.capacities, strict=True):
            if end > capacity:
                raise LayoutError(f"{stream.name}: expected at most {capacity} rows, found {end}")
            if end != stream.rows:
                raise LayoutError(f"{stream.name}: expected {stream.rows} rows, found {end}")

    def check_fixed(self, leaf: Snapshot, layout: StateLayout) -> None:
        """Number, names and sizes of the leaf's fixed parts equal the destination's."""
        expected = [(part.name, part.nbytes) for part in layout.fixed]
        found = [(part.name, part.nbytes) for part in leaf.fixed]
        if expected != found:
            raise LayoutError(f"fixed parts: expected {expected}, found {found}")

    def _on_host(self, chain: Sequence[Snapshot], layout: StateLayout) -> bool:
        return layout.last_columns().on_host and all(link.geometry().on_host for link in chain)

    def check_segments(self, link: Snapshot, rows: Sequence[tuple[str, int]], ends: Sequence[int], where: str) -> None:
        """Count, names, row sizes and continuity of one link's segments.

        Args:
            link: the link.
            rows: name and row bytes of each stream of the destination.
            ends: rows of each stream that the links above bring.
            where: what to call the link in an error.
        """
        told = link.geometry()
        if (told.rows is rows or told.rows == rows) and told.starts == ends and told.ordered:
            return
        if len(link.segments) != len(rows):
            raise LayoutError(f"{where}: expected {len(rows)} segments, found {len(link.segments)}")
        for segment, (name, row_bytes), end in zip(link.segments, rows, ends, strict=True):
            if segment.name != name or segment.row_bytes != row_bytes:
                raise LayoutError(
                    f"{where}, {name}: expected rows of {row_bytes} bytes, "
                    f"found {segment.name} with {segment.row_bytes}"
                )
            if segment.start != end or segment.stop < end:
                raise LayoutError(
                    f"{where}, {name}: expected rows from {end} on, found {segment.start}..{segment.stop}"
                )

    def pieces(self, layout: StateLayout, starts: Sequence[int]) -> tuple[tuple[FixedCopy, ...], tuple[Segment, ...]]:
        """Pack fixed parts, then segments, each start aligned; no padding at the end."""
        if len(starts) != len(layout.rows):
            raise LayoutError(f"starts: expected {len(layout.rows)}, found {len(starts)}")
        offset, fixed, segments = 0, [], []
        for part in layout.fixed:
            offset = aligned(offset)
            fixed.append(FixedCopy(name=part.name, nbytes=part.nbytes, offset=offset))
            offset += part.nbytes
        for stream, start in zip(layout.rows, starts, strict=True):
            if not 0 <= start <= stream.rows:
                raise LayoutError(f"{stream.name}: expected a start in 0..{stream.rows}, found {start}")
            offset = aligned(offset)
            segment = Segment(
                name=stream.name,
                row_bytes=stream.row_bytes,
                start=start,
                stop=stream.rows,
                offset=offset,
            )
            segments.append(segment)
            offset += segment.nbytes
        return tuple(fixed), tuple(segments)

    def fixed_pairs(self, snapshot: Snapshot, layout: StateLayout) -> list[Pair]:
        """(live, stored) of one shape for every fixed part."""
        stored = split_arena(snapshot.arena, snapshot.fixed, [part.tensor.dtype for part in layout.fixed])
        pairs = zip((part.tensor for part in layout.fixed), stored, strict=True)
        return [(live, copy.view(live.shape)) for live, copy in pairs if live.numel()]

    def row_pairs(self, snapshot: Snapshot, layout: StateLayout) -> list[Pair]:
        """(live, stored) of one shape for every segment of one link that holds rows."""
        stored = snapshot.rows_as(tuple((r.tensor.dtype, r.tensor.shape[1:]) for r in layout.rows))
        spans = zip(layout.rows, snapshot.segments, stored, strict=True)
        return [(r.tensor[s.start : s.stop], copy) for r, s, copy in spans if s.stop > s.start]

    def allocate(self, size: int, device: torch.device) -> Tensor:
        """Memory for one arena: (size,) u8, contents undefined."""
        return self.arenas.take(size, device)

    def copy(self, pairs: Sequence[Pair]) -> None:
        """Copy source to destination for all (destination, source) pairs, in few launches."""
        targets, sources = [to for to, _ in pairs], [source for _, source in pairs]
        if not pairs or (targets[0].device.type == "cpu" and sources[0].device.type == "cpu"):
            _copy_all(targets, sources)
            return
        groups: dict[tuple[object, ...], tuple[list[Tensor], list[Tensor]]] = {}  # one fused call each
        for to, source in pairs:
            group = groups.setdefault((to.dtype, to.device, source.device), ([], []))
            group[0].append(to)
            group[1].append(source)
        for targets, sources in groups.values():
            _copy_all(targets, sources)

    def device(self, layout: StateLayout) -> torch.device:
        """Where the arena lives: with the first part that is not on the host, else on the host."""
        devices = [part.tensor.device for part in layout.parts()]
        return next((d for d in devices if d.type != "cpu"), torch.device("cpu"))

    def _arena_bytes(self, fixed: Sequence[FixedCopy], segments: Sequence[Segment]) -> int:
        pieces: tuple[Piece, ...] = (*fixed, *segments)
        return max((piece.offset + piece.nbytes for piece in pieces), default=0)


def _fits(link: Geometry, told: Columns) -> bool:
    """Whether each segment of a link lies in the memory of its stream, whatever was looked at before."""
    alike = link.rows is told.rows or link.rows == told.rows
    room = link.deepest <= told.shallowest or _within(link.stops, told.capacities)
    return alike and link.ordered and room


def _within(ends: Sequence[int], capacities: Sequence[int]) -> bool:
    return all(map(le, ends, capacities))


def _copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, sources)


def split_arena(arena: Tensor, pieces: Sequence[Piece], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """Flat live views of pieces of an arena, in few calls whatever their number.

    Args:
        arena: (bytes,) u8.
        pieces: what to view, by ascending offset; offsets are multiples of `PART_ALIGN`.
        dtypes: element type of each piece.
    """
    views: dict[int, Tensor] = {}
    for dtype in dict.fromkeys(dtypes):
        size, at = dtype.itemsize, 0
        whole = arena[: arena.numel() // size * size].view(dtype)
        chosen = [i for i, other in enumerate(dtypes) if other == dtype]
        cuts: list[int] = []  # gap, piece, gap, piece, …, rest
        for i in chosen:
            start, count = pieces[i].offset // size, pieces[i].nbytes // size
            cuts += (start - at, count)
            at = start + count
        split = whole.split_with_sizes([*cuts, whole.numel() - at])
        views |= dict(zip(chosen, split[1::2], strict=False))
    return [views[i] for i in range(len(pieces))]


def stored_bytes(snapshot: Snapshot, name: str) -> bytes:
    """A copy of the bytes that a link holds of a part, or of its metadata."""
    if name == METADATA_PART:
        return snapshot.meta
    return bytes(bytes_view(snapshot.held(name)).cpu().numpy().tobytes())
