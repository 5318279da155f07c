"""Which bits are flipped: a function of the seed and the part table, spread evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.deriving.faults import plan_flips
from harness.errors import InvalidDocumentError
from harness.model.evidence import PartRow
from harness.model.values import Sha256


def row(name: str, family: str, element_type: str, shape: tuple[int, ...], width: int) -> PartRow:
    size = width
    for extent in shape:
        size *= extent
    return PartRow(
        name=name,
        family=family,
        layer=1,
        element_type=element_type,
        shape=shape,
        stream="rows",
        bytes=size,
        sha256=Sha256("0" * 64),
    )


ROWS = [
    row("meta", "meta", "u8", (40,), 1),
    row("k", "kv", "bf16", (100, 2, 8), 2),
    row("v", "kv", "bf16", (100, 2, 8), 2),
    row("state", "recurrent", "f32", (4, 8), 4),
    row("none", "index", "f32", (0, 8), 4),
    row("blocks", "kv", "q8_0", (3, 34), 1),
    row("logits", "logits", "f32", (16,), 4),
    row("history", "sampler", "i32", (100,), 4),
]


def test_flips_go_round_all_parts_that_have_bytes_of_a_known_width() -> None:
    flips = plan_flips(ROWS, count=240, seed=1, kind="bf16")

    assert Counter(flip.part for flip in flips) == {"k": 80, "v": 80, "state": 80}
    assert Counter(flip.where for flip in flips) == {"store": 120, "live": 120}


def test_bit_positions_are_dealt_out_evenly() -> None:
    flips = plan_flips(ROWS, count=240, seed=1, kind="bf16")

    of_kv = Counter(flip.bit for flip in flips if flip.element_type == "bf16")
    of_state = Counter(flip.bit for flip in flips if flip.element_type == "f32")
    assert of_kv == dict.fromkeys(range(16), 10)
    assert set(of_state) == set(range(32))
    assert max(of_state.values()) - min(of_state.values()) <= 1


def test_places_lie_in_the_part_and_agree_with_each_other() -> None:
    by_name = {one.name: one for one in ROWS}
    for flip in plan_flips(ROWS, count=500, seed=3, kind="f32"):
        part = by_name[flip.part]
        in_row = part.bytes // part.shape[0]
        width = {"bf16": 2, "f32": 4}[part.element_type]
        assert flip.byte == flip.row * in_row + flip.element * width + flip.bit // 8
        assert flip.byte < part.bytes
        assert flip.mask == 1 << flip.bit % 8


def test_the_kind_of_a_bit_is_that_of_its_element_type() -> None:
    flips = plan_flips(ROWS, count=240, seed=1, kind="bf16")

    kinds = {(flip.element_type, flip.bit): flip.bits for flip in flips}
    assert [kinds["bf16", bit] for bit in (0, 6, 7, 14, 15)] == ["mantissa", "mantissa", "exponent", "exponent", "sign"]
    assert [kinds["f32", bit] for bit in (22, 23, 30, 31)] == ["mantissa", "exponent", "exponent", "sign"]


def test_seed_and_kind_draw_other_places_and_the_same_seed_the_same() -> None:
    one = plan_flips(ROWS, count=60, seed=1, kind="f32")

    assert one == plan_flips(ROWS, count=60, seed=1, kind="f32")
    assert one != plan_flips(ROWS, count=60, seed=2, kind="f32")
    assert one != plan_flips(ROWS, count=60, seed=1, kind="f16")


def test_a_state_without_bytes_cannot_be_flipped_in() -> None:
    with pytest.raises(InvalidDocumentError, match="nothing can be flipped"):
        plan_flips([ROWS[0], ROWS[4]], count=1, seed=1, kind="f32")
