"""A reader must not take for shown what only the engine's own counters tell: that state was reused."""

from __future__ import annotations

from collections.abc import Mapping

from harness.deriving.reuse import shown
from harness.reporting.claimable import limits
from harness.reporting.reading import mapping
from tests.reporting.bodies import body, cell, exact, seen

TOLD = "reused is told by the engine alone"


def another_text() -> dict[str, object]:
    """A control without a flip: another prompt leaves nearly every part another one."""
    flip = seen()
    return {**flip, "detail": {**mapping(flip, "detail"), "parts_differing": 17}}


def made(*capabilities: str, checks: Mapping[str, object], control: Mapping[str, object]) -> dict[str, object]:
    """A body of an engine with these capabilities and one passing cell."""
    found = body(cell("end", "pass", [checks, control]))
    return {**found, "subject": {**mapping(found, "subject"), "capabilities": list(capabilities)}}


def told(found: Mapping[str, object]) -> bool:
    return any(TOLD in sentence for sentence in limits(found))


def test_reuse_is_the_engines_word_where_nothing_planted_can_come_back() -> None:
    assert told(made("parts", "logits", "prefix_cache", checks=exact(), control=another_text()))


def test_a_capability_that_no_control_of_the_record_used_shows_nothing() -> None:
    """An engine may damage a snapshot by its handle and have no store, so that A01 drops its control of the store."""
    found = made("parts", "logits", "prefix_cache", "corrupt", checks=exact(), control=another_text())

    assert told(found)
    assert not shown(found)


def test_reuse_is_shown_where_a_planted_corruption_came_back() -> None:
    found = made("parts", "logits", "prefix_cache", "corrupt", checks=exact(), control=seen())

    assert not told(found)
    assert shown(found)


def test_a_flip_in_the_only_part_of_an_image_is_as_good_as_another_text() -> None:
    opaque = {**seen(), "detail": {"phase": "restored", "part": "image", "parts_compared": 1, "parts_differing": 1}}

    assert told(made("parts", "corrupt", checks=exact(), control=opaque))


def test_nothing_is_said_of_reuse_where_none_passed() -> None:
    cold = exact(detail={"witness": "none"})

    assert not told(made("parts", checks=cold, control=another_text()))
    assert not told(made("parts", checks=exact("fail"), control=another_text()))
