"""A target that binds its images to an engine option does not support a cell that changes it; others do."""

from __future__ import annotations

import pytest

from harness.deriving.product import expand
from harness.deriving.support import capabilities_missing
from harness.model.values import Capability
from harness.pipeline import available_scenarios


@pytest.mark.parametrize(
    ("scenario", "bound", "missing"),
    [("R10", "threads", ("image_option",)), ("R10", "seed", ()), ("R07", "threads", ())],
)
def test_an_image_is_not_brought_where_its_target_binds_it(scenario: str, bound: str, missing: tuple[str, ...]) -> None:
    found = available_scenarios()[scenario]
    cell = expand(found, [16], suite=next(iter(found.suites))).cells[0]

    assert capabilities_missing(cell, tuple(Capability), told={"image_options": bound}) == missing
    assert capabilities_missing(cell, tuple(Capability), told={}) == ()


def test_an_import_that_may_be_refused_is_asked_for_all_the_same() -> None:
    plan = expand(available_scenarios()["F62"], [16], suite="default")

    assert capabilities_missing(plan.cells[0], tuple(Capability), told={"image_options": "seed"}) == ()
