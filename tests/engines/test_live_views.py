"""Views of live buffers that are made once: what a look lists is what the buffers are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from harness.adapters.torch_views import LiveViews  # noqa: E402 - torch may be absent
from harness.adapters.torch_words import state_part  # noqa: E402
from harness.engines.interface import StatePart  # noqa: E402
from harness.torch_engine.state import FixedPart, Part, RowStream  # noqa: E402


def _fixed() -> FixedPart:
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    return FixedPart(name="layer0.conv", family="conv", layer=0, element_type="f32", tensor=tensor)


def _rows(rows: int = 2) -> RowStream:
    tensor = torch.arange(20, dtype=torch.float32).reshape(5, 4)
    return RowStream(name="layer1.k", family="kv", layer=1, element_type="f32", tensor=tensor, rows=rows)


def _told(part: StatePart) -> tuple[object, ...]:
    view = memoryview(part.data)
    raw = view.cast("B") if view.nbytes else view
    return part.name, part.family, part.layer, part.element_type, tuple(part.shape), part.stream, bytes(raw)


def test_a_part_that_is_where_it_was_is_listed_as_before_and_shows_what_was_written_since() -> None:
    views, part = LiveViews(), _fixed()
    before = views.part(part)

    part.tensor[1, 2] = -1

    assert views.part(part) is before
    assert _told(views.part(part)) == _told(state_part(part))


@pytest.mark.parametrize("rows", [0, 1, 3, 5])
def test_rows_that_came_or_went_are_another_cut_of_the_same_buffer(rows: int) -> None:
    views, part = LiveViews(), _rows()
    views.part(part)

    after = replace(part, rows=rows)
    part.tensor[rows - 1] = 7

    assert _told(views.part(after)) == _told(state_part(after))
    assert _told(views.part(part)) == _told(state_part(part))


@pytest.mark.parametrize(
    "changes",
    [
        {"tensor": torch.full((2, 3), 9.0)},
        {"tensor": torch.full((3, 3), 9.0)},
        {"family": "recurrent"},
        {"layer": 3},
        {"element_type": "i32"},
    ],
    ids=str,
)
def test_a_part_that_is_another_one_is_listed_anew(changes: dict[str, object]) -> None:
    views, part = LiveViews(), _fixed()
    views.part(part)

    after = replace(part, **changes)  # type: ignore[arg-type] # one field at a time

    assert _told(views.part(after)) == _told(state_part(after))


def test_a_buffer_that_was_given_other_memory_in_place_is_seen() -> None:
    views, part = LiveViews(), _fixed()
    views.part(part)

    part.tensor.set_(torch.full((2, 3), 4.0))

    assert _told(views.part(part)) == _told(state_part(part))


def test_a_buffer_that_shrank_in_place_is_seen() -> None:
    views, part = LiveViews(), _fixed()
    views.part(part)

    part.tensor.resize_(1, 3)

    assert _told(views.part(part)) == _told(state_part(part))


def test_a_buffer_with_gaps_is_handed_over_as_it_is() -> None:
    views, part = LiveViews(), replace(_fixed(), tensor=torch.arange(6, dtype=torch.float32).reshape(3, 2).t())

    assert not memoryview(views.part(part).data).c_contiguous
    assert not memoryview(views.part(part).data).c_contiguous


def test_parts_of_a_session_are_listed_as_each_of_them_is_now() -> None:
    views, fixed, rows = LiveViews(), _fixed(), _rows(2)
    before = views.parts([fixed, rows])
    more = replace(rows, rows=4)
    fixed.tensor[0, 0], more.tensor[3] = 5, 6

    after = views.parts([fixed, more])

    assert after[0] is before[0]
    assert list(map(_told, after)) == [_told(state_part(fixed)), _told(state_part(more))]
    assert views.parts([fixed, more])[1] is after[1]


@pytest.mark.parametrize("other", ["memory", "size", "tensor", "order", "fewer"])
def test_parts_of_a_session_whose_buffers_are_others_are_listed_anew(other: str) -> None:
    views, fixed, rows = LiveViews(), _fixed(), _rows(2)
    parts: Sequence[Part] = [fixed, rows]
    views.parts(parts)
    if other == "memory":
        fixed.tensor.set_(torch.full((2, 3), 4.0))
    elif other == "size":
        fixed.tensor.resize_(1, 3)
    elif other == "tensor":
        parts = [replace(fixed, tensor=torch.full((2, 3), 9.0)), rows]
    else:
        parts = [rows, fixed] if other == "order" else [rows]

    assert list(map(_told, views.parts(parts))) == [_told(state_part(part)) for part in parts]


def test_a_buffer_that_cannot_be_shown_in_place_is_taken_anew_at_every_look() -> None:
    views = LiveViews()
    gaps = replace(_fixed(), tensor=torch.arange(6, dtype=torch.float32).reshape(3, 2).t())

    before = views.parts([gaps, _rows()])

    assert views.parts([gaps, _rows()])[0] is not before[0]
