"""How far two parts lie apart: exact, rounded up, and never nothing where something differs."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from harness.digest.distance import MOST, Distance, distance
from harness.errors import NotComparableError


def of(reference: list[float], candidate: list[float], element_type: str = "f32") -> Distance:
    kind = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i32": "<i4", "u8": "u1", "i64": "<i8", "u64": "<u8"}[
        element_type
    ]
    one, other = (np.array(side, dtype=kind).tobytes() for side in (reference, candidate))
    return distance(one, other, element_type=element_type, shape=(len(reference),))


def test_equal_parts_are_no_distance_apart() -> None:
    found = of([1.0, -2.0, float("nan")], [1.0, -2.0, float("nan")])

    assert (found.differing_elements, found.ulp, found.relative_ppb, found.absolute_nano) == (0, 0, 0, 0)
    assert found.finite
    assert found.elements == 3


def test_one_place_of_a_float_is_one_ulp_and_never_zero_billionths() -> None:
    next_one = float(np.nextafter(np.float32(1.0), np.float32(2.0)))
    found = of([1.0, 4.0], [next_one, 4.0])

    assert (found.differing_elements, found.ulp) == (1, 1)
    assert found.absolute_nano == 120  # 2 ** -23, rounded up
    assert found.relative_ppb == 30  # of the largest, 4


def test_one_place_of_a_half_is_one_ulp() -> None:
    next_one = float(np.nextafter(np.float16(1.0), np.float16(2.0)))

    assert of([1.0], [next_one], "f16").ulp == 1


def test_brain_floats_are_read_as_numbers() -> None:
    one, other = (struct.pack("<H", word) for word in (0x3F80, 0x3F81))  # 1.0 and the next one
    found = distance(one, other, element_type="bf16", shape=(1,))

    assert (found.ulp, found.relative_ppb) == (1, 7812500)


def test_places_are_counted_across_zero_and_both_zeros_are_one() -> None:
    smallest = float(np.nextafter(np.float32(0), np.float32(1)))

    assert of([smallest], [-smallest]).ulp == 2
    assert of([0.0], [-0.0]).ulp == 0
    assert of([0.0], [-0.0]).differing_elements == 1


def test_the_farthest_pair_counts_not_the_first() -> None:
    found = of([1.0, 100.0, -7.0], [1.5, 100.0, -9.0])

    assert found.absolute_nano == 2 * 10**9
    assert found.relative_ppb == 2 * 10**7


def test_a_difference_smaller_than_a_billionth_is_still_one() -> None:
    found = of([1e-20, 0.0], [2e-20, 0.0])

    assert found.absolute_nano == 1


def test_next_to_a_reference_of_zeros_any_difference_is_as_far_as_can_be() -> None:
    assert of([0.0, 0.0], [1e-30, 0.0]).relative_ppb == MOST


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_has_no_distance(bad: float) -> None:
    assert not of([1.0, 2.0], [1.0, bad]).finite
    assert not of([1.0, bad], [1.0, 2.0]).finite


@pytest.mark.parametrize("element_type", ["i32", "u8", "i64", "u64"])
def test_integers_lie_as_far_apart_as_their_difference(element_type: str) -> None:
    assert of([3, 200], [3, 17], element_type).ulp == 183


def test_the_whole_range_of_64_bits_neither_overflows_nor_wraps() -> None:
    one, other = struct.pack("<q", -(2**63)), struct.pack("<q", 2**63 - 1)
    found = distance(one, other, element_type="i64", shape=(1,))

    assert (found.ulp, found.absolute_nano) == (MOST, MOST)


def test_neighbours_of_64_bits_are_told_apart() -> None:
    one, other = (struct.pack("<Q", 2**63 + extra) for extra in (0, 1))

    assert distance(one, other, element_type="u64", shape=(1,)).ulp == 1


def test_a_part_of_many_blocks_is_walked_to_its_end() -> None:
    one = np.zeros(3_000_000, dtype="<f4")
    one[0] = 8.0
    other = one.copy()
    other[-1] = 2.0
    found = distance(one.tobytes(), other.tobytes(), element_type="f32", shape=(3_000_000,))

    assert (found.differing_elements, found.relative_ppb) == (1, 250_000_000)


@pytest.mark.parametrize(("element_type", "shape", "size"), [("q8_0", (32,), 34), ("f32", (3,), 8), ("f32", (2,), 12)])
def test_what_cannot_be_subtracted_is_refused(element_type: str, shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(NotComparableError):
        distance(bytes(size), b"\1" * size, element_type=element_type, shape=shape)
