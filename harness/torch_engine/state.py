"""The state of a session as labelled buffers: fixed parts and row streams.

This is all that a snapshot knows about a model, so any torch model that can label its buffers can be
snapshotted. Two rules make deltas right:

1. a fixed part is overwritten in place; a snapshot copies it whole;
2. a row stream only grows; a row below a boundary is never written again by the same prefix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from harness.torch_engine.errors import LayoutError, MissingError
from harness.torch_engine.kv.types import STORED, elements_of
from harness.torch_engine.scatter import Places

if TYPE_CHECKING:
    from typing_extensions import Buffer

FAMILIES = ("kv", "index", "recurrent", "conv", "window", "ple", "logits", "sampler", "draft")
HOST_LAYER = -1
"""Layer number of parts that belong to no layer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedPart:
    """A buffer that is overwritten in place."""

    name: str
    """Unique in its layout, like ``layer0.recurrent``."""
    family: str
    """One of `FAMILIES`."""
    layer: int
    """Layer index from 0, or `HOST_LAYER`."""
    element_type: str
    """Name of the element type, like ``f32``."""
    tensor: Tensor = field(repr=False)
    """The live buffer, contiguous; never a copy."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions in elements."""
        return elements_of(self.element_type, tuple(self.tensor.shape))

    @property
    def room(self) -> tuple[int, ...]:
        """Dimensions in elements that there is memory for."""
        return self.shape

    def valid(self) -> Tensor:
        """A live view of what counts: all of it."""
        return self.tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class RowStream:
    """An append-only buffer of rows."""

    name: str
    """Unique in its layout, like ``layer3.k``."""
    family: str
    """One of `FAMILIES`."""
    layer: int
    """Layer index from 0, or `HOST_LAYER`."""
    element_type: str
    """Name of the element type, like ``bf16``."""
    tensor: Tensor = field(repr=False)
    """The live buffer (capacity, *row shape), contiguous; rows from ``rows`` on mean nothing."""
    rows: int
    """Rows that are valid now."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.tensor.shape[1:]) * self.tensor.element_size()

    @property
    def nbytes(self) -> int:
        """Bytes of the valid rows."""
        return self.rows * self.row_bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions of the valid rows in elements."""
        return (self.rows, *self.room[1:])

    @property
    def room(self) -> tuple[int, ...]:
        """Dimensions in elements that there is memory for."""
        return elements_of(self.element_type, tuple(self.tensor.shape))

    def valid(self) -> Tensor:
        """A live view of the valid rows."""
        return self.tensor[: self.rows]


Part = FixedPart | RowStream
RowSizes = tuple[tuple[str, int], ...]
"""Name and bytes of one row of each stream."""


@lru_cache(maxsize=256)
def one_of_equal(rows: RowSizes) -> RowSizes:
    """The same object for equal row sizes, so that comparing them again looks at no name."""
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """The row streams of a layout, column by column, to be checked and written at once."""

    rows: RowSizes
    """Name and bytes of one row of each."""
    counts: tuple[int, ...]
    """Valid rows of each."""
    capacities: tuple[int, ...]
    """Rows that there is memory for."""
    shallowest: int
    """The least of these."""
    buffers: tuple[Tensor, ...]
    """The live buffers."""
    places: tuple[int, ...]
    """Address of each."""
    at: Places
    """The same, to put pieces into."""
    on_host: bool
    """Whether all lie on the host, without gaps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateLayout:
    """All parts of a state in a fixed order: fixed parts first, then row streams."""

    fixed: tuple[FixedPart, ...]
    """Parts that a snapshot copies whole."""
    rows: tuple[RowStream, ...]
    """Parts that a snapshot copies above its parent's end."""
    told: list[Columns] = field(init=False, repr=False, compare=False, default_factory=list)
    """What `columns` said before; only to say it once."""

    def columns(self) -> Columns:
        """The row streams column by column; made anew where a buffer lies elsewhere than before."""
        told = self.told[0] if self.told else None
        if told is None or told.places != tuple(map(Tensor.data_ptr, told.buffers)):
            told = _columns(self.rows)
            self.told[:] = [told]
        return told

    def last_columns(self) -> Columns:
        """What `columns` has just said: for the rest of a call that began with it."""
        return self.told[0] if self.told else self.columns()

    def parts(self) -> Iterator[Part]:
        """Fixed parts, then row streams."""
        yield from self.fixed
        yield from self.rows

    def part(self, name: str) -> Part:
        """The part with a name.

        Raises:
            MissingError: no part has it.
        """
        for part in self.parts():
            if part.name == name:
                return part
        raise MissingError(f"part: expected one of {[p.name for p in self.parts()]}, found {name!r}")

    def signature(self) -> tuple[tuple[str, str, int, str], ...]:
        """Name, kind, bytes (of the part or of one row) and element type of every part."""
        fixed = tuple((p.name, "fixed", p.nbytes, p.element_type) for p in self.fixed)
        return fixed + tuple((r.name, "rows", r.row_bytes, r.element_type) for r in self.rows)

    def validate(self) -> None:
        """Check names, families, types, contiguity and row counts.

        Raises:
            LayoutError: the first part that breaks a rule, by name.
        """
        names: set[str] = set()
        for part in self.parts():
            _check_part(part)
            if part.name in names:
                raise LayoutError(f"{part.name}: expected unique part names, found it twice")
            names.add(part.name)
        for stream in self.rows:
            capacity = stream.tensor.shape[0]
            if not 0 <= stream.rows <= capacity:
                raise LayoutError(f"{stream.name}: expected 0..{capacity} rows, found {stream.rows}")


def _columns(rows: tuple[RowStream, ...]) -> Columns:
    places = tuple(r.tensor.data_ptr() for r in rows)
    return Columns(
        rows=one_of_equal(tuple((r.name, r.row_bytes) for r in rows)),
        counts=tuple(r.rows for r in rows),
        capacities=tuple(r.tensor.shape[0] for r in rows),
        shallowest=min((r.tensor.shape[0] for r in rows), default=0),
        buffers=tuple(r.tensor for r in rows),
        places=places,
        at=Places(places),
        on_host=all(r.tensor.device.type == "cpu" and r.tensor.is_contiguous() for r in rows),
    )


def _check_part(part: Part) -> None:
    """The rules that hold for a part alone."""
    if part.family not in FAMILIES:
        raise LayoutError(f"{part.name}: expected a family of {FAMILIES}, found {part.family!r}")
    kind = STORED.get(part.element_type)
    if kind is None or kind.dtype != part.tensor.dtype:
        fitting = [name for name, stored in STORED.items() if stored.dtype == part.tensor.dtype]
        raise LayoutError(f"{part.name}: expected an element type of {fitting}, found {part.element_type!r}")
    units = kind.size // kind.dtype.itemsize
    if units > 1 and (not part.tensor.dim() or part.tensor.shape[-1] % units):
        raise LayoutError(f"{part.name}: expected whole blocks of {units} bytes, found {tuple(part.tensor.shape)}")
    if not part.tensor.is_contiguous():
        raise LayoutError(f"{part.name}: expected a contiguous buffer, found {part.tensor.stride()}")
    if isinstance(part, RowStream) and part.tensor.dim() < 1:
        raise LayoutError(f"{part.name}: expected (capacity, *row), found a scalar")


def load_bytes(layout: StateLayout, parts: Mapping[str, Buffer]) -> None:
    """Overwrite the valid bytes of every part; everything is checked before anything is written.

    Args:
        layout: the destination, with the row counts that the bytes belong to.
        parts: the bytes of each part by name, contiguous.

    Raises:
        LayoutError: a part is missing, unknown, or of another size.
    """
    expected = {part.name: part.nbytes for part in layout.parts()}
    found = {name: memoryview(data).nbytes for name, data in parts.items()}
    if expected != found:
        wrong = sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n))
        first = wrong[0]
        raise LayoutError(f"{first}: expected {expected.get(first)} bytes, found {found.get(first)}")
    for part in layout.parts():
        if part.nbytes:
            data = np.frombuffer(memoryview(parts[part.name]), dtype=np.uint8).copy()
            bytes_view(part.valid()).copy_(torch.from_numpy(data))


def bytes_view(tensor: Tensor) -> Tensor:
    """A flat live view of a contiguous tensor's bytes (u8)."""
    return tensor.view(-1).view(torch.uint8) if tensor.numel() else tensor.new_empty(0, dtype=torch.uint8)


def flip_bits(tensor: Tensor, byte_offset: int, xor_mask: int, *, where: str) -> None:
    """XOR one byte of a contiguous tensor in place.

    Raises:
        LayoutError: the offset lies outside the tensor, or the mask is not in 1..255.
    """
    flat = bytes_view(tensor)
    if not 0 <= byte_offset < flat.numel():
        raise LayoutError(f"{where}: expected a byte offset below {flat.numel()}, found {byte_offset}")
    if not 1 <= xor_mask <= 0xFF:
        raise LayoutError(f"{where}: expected an XOR mask of 1..255, found {xor_mask}")
    flat[byte_offset] = int(flat[byte_offset].item()) ^ xor_mask
