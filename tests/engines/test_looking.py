"""An adapter is held to its own words before anything it hands over is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.engines.interface import StatePart
from harness.engines.looking import Logits, logits_of, part_rows, part_views, row_from
from harness.errors import ProtocolError

META = StatePart(name="meta", family="meta", layer=-1, element_type="u8", shape=(4,), stream="fixed", data=b"abcd")
ROWS = StatePart(name="layer0.k", family="kv", layer=0, element_type="f32", shape=(2, 3), stream="rows", data=bytes(24))


def test_sound_parts_become_flat_views() -> None:
    assert [view.nbytes for view in part_views([META, ROWS])] == [4, 24]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (replace(ROWS, name="meta"), "twice"),
        (replace(ROWS, shape=(2, 4)), "24 bytes for shape"),
        (replace(ROWS, family="cache"), "family 'cache'"),
        (replace(ROWS, stream="ring"), "stream 'ring'"),
        (replace(ROWS, data=memoryview(bytes(48))[::2]), "gaps"),
        (replace(ROWS, name="logits"), "logits: found a part of family 'kv' with this name"),
        (replace(ROWS, name="tokens"), "tokens: found a part of family 'kv' with this name"),
        (replace(ROWS, name="position"), "position: found a part of family 'kv' with this name"),
    ],
)
def test_a_part_that_breaks_the_seam_is_refused_by_name(part: StatePart, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        part_views([META, part])


def test_pending_logits_may_be_a_part_under_their_own_name() -> None:
    logits = replace(ROWS, name="logits", family="logits")

    assert [view.nbytes for view in part_views([META, logits])] == [4, 24]


def test_the_metadata_must_come_first() -> None:
    with pytest.raises(ProtocolError, match="expected 'meta'"):
        part_views([ROWS, META])


def test_a_row_survives_the_channel() -> None:
    row = part_rows([ROWS], [memoryview(bytes(24))], ["0" * 64])[0]

    noun = row_from(row)

    assert (noun.name, noun.shape, noun.bytes, noun.stream) == ("layer0.k", (2, 3), 24, "rows")


@pytest.mark.parametrize("change", [{"bytes": "24"}, {"name": 3}, {"shape": [2, True]}, {"sha256": None}])
def test_a_row_of_other_types_is_refused(change: Mapping[str, object]) -> None:
    row = {**part_rows([ROWS], [memoryview(bytes(24))], ["0" * 64])[0], **change}

    with pytest.raises(ProtocolError, match="part row"):
        row_from(row)


@pytest.mark.parametrize(
    ("data", "told"),
    [(bytes(64), True), (b"\1" * 100_000, True), (bytes(63), False), (bytes(99_999) + b"\1", False), (b"", False)],
)
def test_a_part_of_one_value_is_told(data: bytes, told: bool) -> None:
    part = replace(ROWS, element_type="u8", shape=(len(data),), data=data)

    assert row_from(part_rows([part], [memoryview(data)], ["0" * 64])[0]).uniform is told


@pytest.mark.parametrize("data", [None, b""])
def test_logits_without_a_byte_are_none(data: bytes | None) -> None:
    class Silent:
        def logits(self) -> bytes | None:
            return data

    assert logits_of(Silent(), [META]) == Logits(sha256="", finite=True)  # type: ignore[arg-type]
