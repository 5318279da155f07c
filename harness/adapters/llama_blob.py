"""The sequence state that llama.cpp writes, taken apart: pure functions over bytes.

A blob begins with a magic number and the id of the sequence. Then come the attention caches (one; two where the model
has sliding windows), then the recurrent memory where the model has one. Sequence ids and stream counts say where a
state lay, not what it is: parts do not hold them, so two saves of equal states are equal. Values that lie transposed
(without flash attention) are turned back into rows, and rows are put in the order of their positions.

Which optional fields a build writes cannot be told from the blob; a shape is found once, by trying, and accepted only
if it consumes every byte.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

TYPES: Final = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 30: "bf16"}
"""Number of an element type to its name."""
NUMBERS: Final = {name: number for number, name in TYPES.items()}
_BLOCKS: Final = {
    "f32": (4, 1), "f16": (2, 1), "bf16": (2, 1), "q4_0": (18, 32), "q4_1": (20, 32), "q5_0": (22, 32),
    "q5_1": (24, 32), "q8_0": (34, 32),
}  # fmt: skip
"""Bytes of a block, and elements in it."""
_EXTENDED: Final = 12
"""Bytes of a cell's extension: positions in two dimensions, and a token."""
_MOST_LAYERS: Final = 4096


class BlobError(ValueError):
    """The bytes are not of the shape that was tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How a build writes the state of one model."""

    caches: int
    """Attention caches: 0, 1, or 2 (the second holds windows)."""
    extended: bool = False
    """Whether cells carry an extension."""
    rotations: bool = True
    """Whether caches say how their rows are rotated."""
    recurrent: int = 0
    """Layers of the recurrent memory."""


@dataclass(kw_only=True, slots=True)
class Piece:
    """A tensor of the state inside a blob."""

    name: str
    kind: str
    """``k``, ``v``, ``r`` (convolution) or ``s`` (recurrent)."""
    cache: int
    """Number of its cache; -1: of the recurrent memory."""
    layer: int
    """Counted within its memory: a blob does not say which layer of the model it is."""
    element_type: str
    row_bytes: int
    at: int
    """Offset of its data in the blob."""
    rows: int
    transposed: bool = False
    order: Sequence[int] = ()
    """Rows in the order of their positions; empty: as they lie."""

    @property
    def elements(self) -> int:
        """Elements of a row."""
        size, count = _BLOCKS[self.element_type]
        return self.row_bytes // size * count

    def data(self, blob: bytes) -> bytes:
        """Return the rows, in the order of their positions."""
        held = np.frombuffer(blob, np.uint8, self.rows * self.row_bytes, self.at)
        if self.transposed:
            width = _BLOCKS[self.element_type][0]
            held = held.reshape(-1, self.rows, width).transpose(1, 0, 2)
        rows = held.reshape(self.rows, self.row_bytes)
        return (rows[list(self.order)] if len(self.order) else rows).tobytes()

    def offset(self, byte: int) -> int:
        """Return where a byte of :meth:`data` lies in the blob."""
        row, column = divmod(byte, self.row_bytes)
        row = self.order[row] if len(self.order) else row
        if not self.transposed:
            return self.at + row * self.row_bytes + column
        width = _BLOCKS[self.element_type][0]
        return self.at + (column // width * self.rows + row) * width + column % width


@dataclass(kw_only=True, slots=True)
class Parsed:
    """A blob, taken apart."""

    pieces: list[Piece] = field(default_factory=list)
    positions: list[Sequence[int]] = field(default_factory=list)
    """Of the cells of each cache, ascending."""


class _Reader:
    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.at = 0

    def take(self, kind: str) -> int:
        size = struct.calcsize(kind)
        if self.at + size > len(self.blob):
            raise BlobError(f"found the end at {len(self.blob)}; expected {size} bytes at {self.at}")
        self.at += size
        return int(struct.unpack_from(f"<{kind}", self.blob, self.at - size)[0])

    def skip(self, size: int) -> int:
        if size < 0 or self.at + size > len(self.blob):
            raise BlobError(f"found the end at {len(self.blob)}; expected {size} bytes at {self.at}")
        self.at += size
        return self.at - size

    def typed(self) -> str:
        number = self.take("i")
        if number not in TYPES:
            raise BlobError(f"found the element type {number}")
        return TYPES[number]


def parse(blob: bytes, shape: Shape) -> Parsed:
    """Take a blob apart.

    Raises:
        BlobError: It is not of that shape, or holds more.
    """
    reader, found = _Reader(blob), Parsed()
    reader.take("I")
    reader.take("i")
    for cache in range(shape.caches):
        _cache(reader, shape, cache, found)
    if shape.recurrent:
        _recurrent(reader, shape, found)
    if reader.at != len(blob):
        raise BlobError(f"found {len(blob) - reader.at} bytes behind the state")
    return found


def shape_of(blob: bytes, *, caches: int, recurrent: bool) -> Shape:
    """Find how a state was written, by trying.

    Args:
        blob: Of a sequence that holds something.
        caches: Attention caches that the model has.
        recurrent: Whether it has a recurrent memory.

    Raises:
        BlobError: No shape fits, or more than one does.
    """
    fits = []
    for shape in _shapes(caches, most=64 if recurrent else 0):
        try:
            parse(blob, shape)
        except BlobError:
            continue
        fits.append(shape)
    if len(fits) != 1:
        raise BlobError(f"found {len(fits)} shapes that fit {len(blob)} bytes of state")
    return fits[0]


def _shapes(caches: int, most: int) -> Iterator[Shape]:
    options = itertools.product((False, True), (True, False)) if caches else iter([(False, True)])
    layers = range(1, most + 1) if most else range(1)
    for (extended, rotations), recurrent in itertools.product(options, layers):
        yield Shape(caches=caches, extended=extended, rotations=rotations, recurrent=recurrent)


def _cells(reader: _Reader, count: int, *, extended: bool) -> list[int]:
    found = []
    for _ in range(count):
        found.append(reader.take("i"))
        ids = reader.take("I")
        if ids > _MOST_LAYERS:
            raise BlobError(f"found {ids} sequences of one cell")
        reader.skip((_EXTENDED if extended else 0) + 4 * ids)
    return found


def _cache(reader: _Reader, shape: Shape, cache: int, found: Parsed) -> None:
    streams = reader.take("I")
    if not 1 <= streams <= _MOST_LAYERS:
        raise BlobError(f"found {streams} streams")
    positions: list[int] = []
    for _ in range(streams):
        count = reader.take("I")
        if not count:
            continue
        if positions:
            raise BlobError("found one sequence in two streams")
        positions = _cells(reader, count, extended=shape.extended)
        _rows(reader, shape, cache, positions, found)
    found.positions.append(sorted(positions))


def _rows(reader: _Reader, shape: Shape, cache: int, positions: Sequence[int], found: Parsed) -> None:
    transposed, layers = reader.take("I"), reader.take("I")
    if transposed > 1 or not 1 <= layers <= _MOST_LAYERS:
        raise BlobError(f"found {layers} layers, transposed {transposed}")
    if shape.rotations and (reader.take("I") > _MOST_LAYERS or reader.take("I") > _MOST_LAYERS):
        raise BlobError("found a rotation that is none")
    count = len(positions)
    order = np.argsort(np.asarray(positions), kind="stable").tolist()
    placed = [] if order == list(range(count)) else order
    for kind, layer in itertools.product("kv", range(layers)):
        element_type = reader.typed()
        turned = kind == "v" and transposed == 1
        row_bytes = reader.take("I") * reader.take("I") if turned else reader.take("Q")
        if not row_bytes or row_bytes % _BLOCKS[element_type][0]:
            raise BlobError(f"found rows of {row_bytes} bytes of {element_type}")
        found.pieces.append(
            Piece(
                name=f"{'swa' if cache else 'kv'}{layer}.{kind}",
                kind=kind,
                cache=cache,
                layer=layer,
                element_type=element_type,
                row_bytes=row_bytes,
                at=reader.skip(row_bytes * count),
                rows=count,
                transposed=turned,
                order=placed,
            )
        )


def _recurrent(reader: _Reader, shape: Shape, found: Parsed) -> None:
    count = reader.take("I")
    if count > 1:
        raise BlobError(f"found {count} recurrent cells of one sequence")
    _cells(reader, count, extended=False)
    if reader.take("I") or not shape.recurrent <= reader.take("I") <= _MOST_LAYERS:
        raise BlobError("found a recurrent memory of another kind")
    sizes: dict[str, int] = {}
    for kind, layer in itertools.product("rs", range(shape.recurrent)):
        element_type, row_bytes = reader.typed(), reader.take("Q")
        if row_bytes != sizes.setdefault(kind, row_bytes) or row_bytes % _BLOCKS[element_type][0]:
            raise BlobError(f"found {row_bytes} bytes in a recurrent layer")
        at = reader.skip(row_bytes * count)
        if row_bytes:
            found.pieces.append(
                Piece(
                    name=f"recurrent{layer}.{kind}",
                    kind=kind,
                    cache=-1,
                    layer=layer,
                    element_type=element_type,
                    row_bytes=row_bytes,
                    at=at,
                    rows=count,
                )
            )
