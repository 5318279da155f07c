"""The largest of some numbers, from their bytes."""

from __future__ import annotations

import struct

import pytest

from harness.engines.largest import largest


@pytest.mark.parametrize(("kind", "code"), [("f64", "d"), ("f32", "f"), ("f16", "e"), ("u32", "I"), ("i32", "i")])
def test_the_places_of_the_largest_are_told_ascending(kind: str, code: str) -> None:
    assert largest(struct.pack(f"<5{code}", 1, 7, 0, 7, 3), kind) == [1, 3]


def test_a_bf16_is_the_upper_half_of_an_f32() -> None:
    halves = b"".join(struct.pack("<f", value)[2:] for value in (-2.0, -0.5, -8.0))

    assert largest(halves, "bf16") == [1]


def test_of_what_cannot_be_read_nothing_is_told() -> None:
    assert largest(b"1234", "q8_0") == largest(b"", "f32") == ()


def test_a_piece_of_an_element_is_refused() -> None:
    with pytest.raises(ValueError, match="f32 elements have 4 each"):
        largest(b"12345", "f32")
