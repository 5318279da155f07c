"""A reader must not take for shown what only the engine's own counters tell: that state was reused."""

from __future__ import annotations

from collections.abc import Mapping

from harness.reporting.claimable import limits
from harness.reporting.reading import mapping
from tests.reporting.bodies import body, cell, exact, seen

TOLD = "reused is told by the engine alone"


def made(*capabilities: str, checks: Mapping[str, object]) -> dict[str, object]:
    """A body of an engine with these capabilities and one passing cell."""
    found = body(cell("end", "pass", [checks, seen()]))
    return {**found, "subject": {**mapping(found, "subject"), "capabilities": list(capabilities)}}


def told(found: Mapping[str, object]) -> bool:
    return any(TOLD in sentence for sentence in limits(found))


def test_reuse_is_the_engines_word_where_nothing_planted_can_come_back() -> None:
    assert told(made("parts", "logits", "prefix_cache", checks=exact()))


def test_reuse_is_shown_where_a_planted_corruption_came_back() -> None:
    assert not told(made("parts", "logits", "prefix_cache", "corrupt", checks=exact()))


def test_nothing_is_said_of_reuse_where_none_passed() -> None:
    cold = exact(detail={"witness": "none"})

    assert not told(made("parts", checks=cold))
    assert not told(made("parts", checks=exact("fail")))
