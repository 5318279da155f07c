"""A part without bytes is one that nobody wrote, or one that has nothing to hold yet."""

from __future__ import annotations

import hashlib

import pytest

from harness.deriving.checks.inventory import unwritten
from harness.model.evidence import PartRow, Point
from harness.model.values import CellId, Phase, Sha256


def _look(position: int, phase: Phase = Phase.PREFILLED) -> Point:
    return Point(
        cell=CellId("Z99[scale=1]"),
        arm="cold",
        rep=0,
        label="a",
        phase=phase,
        position=position,
        root=Sha256("0" * 64),
        logits="",
        logits_finite=True,
        tokens=(),
        t_ns=0,
    )


def _empty(family: str, stream: str = "rows") -> PartRow:
    return PartRow(
        name="layer0.it",
        family=family,
        layer=0,
        element_type="f32",
        shape=(0, 4),
        stream=stream,
        bytes=0,
        sha256=Sha256(hashlib.sha256(b"").hexdigest()),
        uniform=False,
    )


@pytest.mark.parametrize(
    ("family", "stream", "position"),
    [("kv", "rows", 1), ("index", "rows", 1024), ("index", "fixed", 64), ("recurrent", "fixed", 64)],
)
def test_a_part_that_tokens_should_have_filled_is_named(family: str, stream: str, position: int) -> None:
    assert unwritten(_look(position), [_empty(family, stream)]) == "part_never_written:layer0.it"
    assert not unwritten(_look(position - 1), [_empty(family, stream)])


def test_an_index_has_no_row_until_its_first_block_is_full() -> None:
    assert not unwritten(_look(1023), [_empty("index")])


def test_nothing_is_asked_where_the_model_was_not_run() -> None:
    assert not unwritten(_look(5000, Phase.RESTORED), [_empty("kv")])
