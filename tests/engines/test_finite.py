"""Infinities and not-a-numbers are found from the bits alone."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.finite import all_finite

ANY = st.lists(st.floats(width=32), max_size=40)


@given(ANY)
def test_f32_agrees_with_the_standard_library(values: list[float]) -> None:
    assert all_finite(struct.pack(f"<{len(values)}f", *values), "f32") == all(map(math.isfinite, values))


@given(st.lists(st.floats(width=16), max_size=40))
def test_f16_agrees_with_the_standard_library(values: list[float]) -> None:
    assert all_finite(struct.pack(f"<{len(values)}e", *values), "f16") == all(map(math.isfinite, values))


@given(st.lists(st.floats(), max_size=40))
def test_f64_agrees_with_the_standard_library(values: list[float]) -> None:
    assert all_finite(struct.pack(f"<{len(values)}d", *values), "f64") == all(map(math.isfinite, values))


@given(ANY)
def test_bf16_is_the_upper_half_of_f32(values: list[float]) -> None:
    whole = struct.pack(f"<{len(values)}f", *values)
    upper = b"".join(whole[at + 2 : at + 4] for at in range(0, len(whole), 4))

    expected = all(math.isfinite(value) for value in struct.unpack(f"<{len(values)}f", _widened(upper)))

    assert all_finite(upper, "bf16") == expected


def test_integers_are_always_finite() -> None:
    assert all_finite(b"\xff" * 16, "i32")


def test_half_an_element_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        all_finite(b"abc", "bf16")


def _widened(upper: bytes) -> bytes:
    return b"".join(b"\0\0" + upper[at : at + 2] for at in range(0, len(upper), 2))
