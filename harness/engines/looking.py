"""One look at a session, from inside the child process: views, digests, no copies.

An adapter may be wrong: what it hands over is checked against its own words (unique names, metadata first, bytes
that fit the shape) before anything is believed. A broken promise is a protocol error, not a difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from harness.digest.blocks import equal, opened
from harness.digest.parts import part_digest
from harness.engines.finite import all_finite
from harness.engines.interface import Session, StatePart
from harness.errors import ProtocolError
from harness.model.evidence import PartRow
from harness.model.values import Family, Sha256

Row = Mapping[str, object]
"""One row of a part table on its way to the parent."""

_WIDTHS: Final = {
    **dict.fromkeys(("f64", "i64", "u64"), 8),
    **dict.fromkeys(("f32", "i32", "u32"), 4),
    **dict.fromkeys(("f16", "bf16", "i16", "u16"), 2),
    **dict.fromkeys(("u8", "i8", "bool"), 1),
}
"""Bytes of one element, where elements have whole bytes; block formats are not in it."""
TOLD_FROM: Final = 64
"""Bytes from which on a part is told to be uniform."""
_STREAMS: Final = ("fixed", "rows")
_FAMILIES: Final = frozenset(Family)
_OF_A_ROW: Final = itemgetter("name", "family", "element_type", "stream", "sha256", "layer", "bytes", "shape")
_TEXT: Final = {str}
_INTEGER: Final = {int}
_LOGITS: Final = "f32"
_TAKEN: Final[Mapping[str, Family | None]] = {"logits": Family.LOGITS, "tokens": None, "position": None}
"""Names that a comparison has for things beside the parts, and the one family that may use each; None: none may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logits:
    """The pending logits, seen once."""

    sha256: str
    """Empty: none are valid."""
    finite: bool


def part_views(parts: Sequence[StatePart]) -> Sequence[memoryview]:
    """Return a flat view of the bytes of each part, after checking what the adapter says of it.

    Raises:
        ProtocolError: Something that the seam does not allow, with the part's name.
    """
    if parts and parts[0].name != Family.META:
        raise ProtocolError(f"found {parts[0].name!r} as part 0; expected 'meta'")
    if len({part.name for part in parts}) != len(parts):
        raise ProtocolError("found a part name twice; expected unique names")
    return [_view(part) for part in parts]


def _view(part: StatePart) -> memoryview:
    view = memoryview(part.data)
    if not view.c_contiguous:
        raise ProtocolError(f"{part.name}: found a buffer with gaps; expected C order without gaps")
    if part.family not in _FAMILIES or part.stream not in _STREAMS:
        raise ProtocolError(f"{part.name}: found family {part.family!r} and stream {part.stream!r}")
    if part.name in _TAKEN and part.family != _TAKEN[part.name]:
        raise ProtocolError(
            f"{part.name}: found a part of family {part.family!r} with this name; it is what comparisons call the "
            f"{part.name} that are looked at beside the parts"
        )
    width = _WIDTHS.get(part.element_type)
    if width is not None and math.prod(part.shape) * width != view.nbytes:
        raise ProtocolError(
            f"{part.name}: found {view.nbytes} bytes for shape {list(part.shape)} of {part.element_type}"
        )
    return view.cast("B") if view.nbytes else memoryview(b"")


def part_rows(parts: Sequence[StatePart], views: Sequence[memoryview], digests: Sequence[str]) -> Sequence[Row]:
    """Return one row per part, as :class:`harness.model.evidence.PartRow` has it."""
    return signed(labels(parts, views), digests)


def labels(parts: Sequence[StatePart], views: Sequence[memoryview]) -> Sequence[dict[str, object]]:
    """Return the rows of a part table that lack their digests yet."""
    return [
        {
            "name": part.name,
            "family": str(part.family),
            "layer": part.layer,
            "element_type": part.element_type,
            "shape": list(map(int, part.shape)),
            "stream": part.stream,
            "bytes": view.nbytes,
            "uniform": uniform(view),
        }
        for part, view in zip(parts, views, strict=True)
    ]


def signed(rows: Sequence[dict[str, object]], digests: Sequence[str]) -> Sequence[Row]:
    """Return the rows with their digests."""
    return [{**row, "sha256": sha256} for row, sha256 in zip(rows, digests, strict=True)]


def uniform(view: memoryview) -> bool:
    """Tell whether all bytes of a part have one value; of one that is too small to say, it is not told.

    Args:
        view: All valid bytes, flat.
    """
    if view.nbytes < TOLD_FROM or view[0] != view[TOLD_FROM - 1] or view[0] != view[TOLD_FROM // 2]:
        return False
    if bytes(view[:TOLD_FROM]) != bytes(view[:1]) * TOLD_FROM:
        return False
    data = opened(view)
    return equal(data[1:], data[:-1])


def row_from(value: Row) -> PartRow:
    """Return the noun of a row that came over the channel.

    Raises:
        ProtocolError: A field is missing or has another type.
    """
    try:
        *texts, layer, size, shape = _OF_A_ROW(value)
    except KeyError as error:
        raise ProtocolError(f"found a part row that lacks something ({error})") from error
    extents = shape if type(shape) is list else [shape]
    if {*map(type, texts)} != _TEXT or {*map(type, (layer, size, *extents))} != _INTEGER:
        raise ProtocolError(f"found a part row with a field of another type: {sorted(value.items())}")
    name, family, element_type, stream, sha256 = texts
    same = value.get("uniform", False)
    return PartRow(
        name=name,
        family=family,
        layer=layer,
        element_type=element_type,
        shape=tuple(extents),
        stream=stream,
        bytes=size,
        sha256=Sha256(sha256),
        uniform=same is True,
    )


def logits_of(session: Session, parts: Sequence[StatePart], *, element_type: str = _LOGITS) -> Logits:
    """Hash the pending logits and look for infinities in them; of no bytes they are none.

    Args:
        session: The session; synchronized already.
        parts: Its parts: one of the family ``logits`` tells the element type.
        element_type: What the logits are where no part tells.

    Raises:
        ProtocolError: The bytes are not a whole number of elements.
    """
    data = session.logits()
    if data is None:
        return Logits(sha256="", finite=True)
    told = next((part.element_type for part in parts if part.family == Family.LOGITS), element_type)
    view = memoryview(data)
    if not view.nbytes:
        return Logits(sha256="", finite=True)
    flat = view.cast("B")
    try:
        return Logits(sha256=part_digest(flat), finite=all_finite(flat, told))
    except ValueError as error:
        raise ProtocolError(f"logits: {error}") from error
