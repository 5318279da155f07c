"""A state that llama.cpp wrote is taken apart to the last byte, or refused; where it lay is no part of it."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from harness.adapters.llama_blob import BlobError, Shape, parse, shape_of

ROW, CELLS = 64, 5
SHAPE = Shape(caches=1, extended=False, rotations=True, recurrent=2)


def blob(
    *,
    sequence: int = 0,
    streams: int = 1,
    positions: list[int] | None = None,
    transposed: bool = False,
    extended: bool = False,
    recurrent: int = 2,
) -> bytes:
    at = positions if positions is not None else list(range(CELLS))
    made = struct.pack("<Iii", 0x1234, sequence, streams) + struct.pack("<I", 0) * (streams - 1)
    made += struct.pack("<I", len(at))
    for position in at:
        made += struct.pack("<iI", position, 1) + bytes(12 if extended else 0) + struct.pack("<i", sequence)
    made += struct.pack("<4I", int(transposed), 2, 0, 0)
    for layer in range(2):
        made += struct.pack("<iQ", 1, ROW) + b"".join(row(0, layer, position) for position in at)
    for layer in range(2):
        rows = np.frombuffer(b"".join(row(1, layer, position) for position in at), np.uint16).reshape(len(at), -1)
        head = struct.pack("<iII", 1, 2, ROW // 2) if transposed else struct.pack("<iQ", 1, ROW)
        made += head + (rows.T if transposed else rows).tobytes()
    if recurrent:
        made += struct.pack("<IiI", 1, max(at), 0) + struct.pack("<2I", 0, 4)
        for kind, size in ((2, 48), (3, 96)):
            for layer in range(recurrent):
                made += struct.pack("<iQ", 0, size) + bytes([kind * 16 + layer]) * size
    return made


def row(kind: int, layer: int, position: int) -> bytes:
    return bytes((kind * 100 + layer * 40 + position * 7 + index) % 251 for index in range(ROW))


def contents(data: bytes, shape: Shape = SHAPE) -> dict[str, bytes]:
    return {piece.name: piece.data(data) for piece in parse(data, shape).pieces}


def test_every_part_is_found_with_its_bytes() -> None:
    found = contents(blob())

    assert list(found) == [
        "kv0.k",
        "kv1.k",
        "kv0.v",
        "kv1.v",
        "recurrent0.r",
        "recurrent1.r",
        "recurrent0.s",
        "recurrent1.s",
    ]
    assert found["kv1.v"] == b"".join(row(1, 1, position) for position in range(CELLS))
    assert found["recurrent1.s"] == bytes([49]) * 96


@pytest.mark.parametrize(
    "other", [{"sequence": 3}, {"streams": 4}, {"transposed": True}, {"positions": [3, 4, 0, 1, 2]}]
)
def test_equal_states_are_equal_wherever_they_lay(other: dict[str, object]) -> None:
    assert contents(blob(**other)) == contents(blob())  # type: ignore[arg-type] # one argument of several types


def test_a_byte_of_a_transposed_value_is_found_where_it_lies() -> None:
    data = blob(transposed=True, positions=[3, 4, 0, 1, 2])
    piece = next(one for one in parse(data, SHAPE).pieces if one.name == "kv1.v")

    flat = piece.data(data)
    assert all(data[piece.offset(byte)] == flat[byte] for byte in range(len(flat)))


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_how_a_build_writes_is_found_by_trying(extended: bool, layers: int) -> None:
    found = shape_of(blob(extended=extended, recurrent=layers), caches=1, recurrent=True)

    assert (found.extended, found.recurrent) == (extended, layers)


@pytest.mark.parametrize("size", [0, 7, 40, 200, -1, -50])
def test_a_cut_state_is_refused(size: int) -> None:
    with pytest.raises(BlobError):
        parse(blob()[:size], SHAPE)


def test_bytes_behind_a_state_are_refused() -> None:
    with pytest.raises(BlobError, match="behind"):
        parse(blob() + b"more", SHAPE)


def test_a_state_of_no_known_shape_is_refused() -> None:
    with pytest.raises(BlobError, match="0 shapes"):
        shape_of(blob()[:-1], caches=1, recurrent=True)
