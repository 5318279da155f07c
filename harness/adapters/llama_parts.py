"""State parts of a sequence: what llama.cpp saved of it, taken apart and listed as the seam has it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from harness.adapters.llama_blob import Parsed, Piece
from harness.engines.interface import Options, StatePart
from harness.errors import RefusedError
from harness.model.values import NO_LAYER, Family, RefusalCode


def listed(blob: bytes, held: Parsed, empty: Parsed, meta: Sequence[int]) -> Sequence[StatePart]:
    """Return every part: the metadata, then what the state of this model has, also where nothing is in it yet.

    Args:
        blob: The state of a sequence.
        held: The same, taken apart.
        empty: What parts there are.
        meta: Position, and whether logits are pending.
    """
    found = {piece.name: piece for piece in held.pieces}
    words = struct.pack("<2Q", *meta)
    words += b"".join(struct.pack("<Qq", len(cells), cells[0] if cells else -1) for cells in held.positions)
    first = StatePart(
        name="meta",
        family=Family.META,
        layer=NO_LAYER,
        element_type="u8",
        shape=(len(words),),
        stream="fixed",
        data=words,
    )
    return [first, *(_part(piece, found.get(piece.name), blob) for piece in empty.pieces)]


def flipped(blob: bytes, held: Parsed, part: str, byte: int, mask: int) -> bytes:
    """Return a state with bits of one byte of a part flipped.

    Raises:
        RefusedError: There is no such byte (``missing``).
    """
    piece = next((one for one in held.pieces if one.name == part), None)
    if piece is None or not 0 <= byte < piece.rows * piece.row_bytes:
        raise RefusedError(RefusalCode.MISSING, f"no byte {byte} of a part {part!r}")
    changed = bytearray(blob)
    changed[piece.offset(byte)] ^= mask
    return bytes(changed)


def _part(like: Piece, held: Piece | None, blob: bytes) -> StatePart:
    """One part; a window and a recurrent state have one size for life, with zeros where nothing is yet."""
    data = held.data(blob) if held is not None else b""
    rows, stream = held.rows if held is not None else 0, "rows"
    if family_of(like) is not Family.KV:
        rows, stream = like.rows, "fixed"
        data = data.ljust(rows * like.row_bytes, b"\0")
    return StatePart(
        name=like.name,
        family=family_of(like),
        layer=like.layer,
        element_type=like.element_type,
        shape=(rows, like.elements),
        stream=stream,
        data=data,
    )


def family_of(piece: Piece) -> Family:
    """Return the family of a piece of the state."""
    if piece.cache < 0:
        return Family.CONV if piece.kind == "r" else Family.RECURRENT
    return Family.WINDOW if piece.cache else Family.KV


def reordered(options: Options) -> Options:
    """Say over what is summed in another order after a restore.

    A window is packed at the front of its ring; where all sequences share the cells, rows lie where there is room. The
    rows are the same ones, in another order, so that sums over them differ in their last places.
    """
    if options["kv"] == "unified":
        return {"reordered_families": "conv,kv,recurrent,window"}
    return {} if options["swa_full"] else {"reordered_families": "window"}
