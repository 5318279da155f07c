"""A target that sums in another order after a restore is judged within the scenario's limits; any other one exactly."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.deriving.product import expand
from harness.deriving.support import for_target
from harness.model.scenario import CellPlan, CheckKind, CheckSpec
from harness.model.values import Capability, Guarantee
from harness.pipeline import available_scenarios


def cell_of(scenario: str, **labels: str) -> CellPlan:
    plan = expand(available_scenarios()[scenario], [16], suite="default")
    return next(cell for cell in plan.cells if all(cell.coords[name] == label for name, label in labels.items()))


def asked(cell: CellPlan, check: str, told: Mapping[str, object]) -> CheckSpec:
    fitted = for_target(cell, tuple(Capability), told)
    return next(one for one in fitted.checks if one.id == check)


def test_a_window_that_is_packed_anew_is_judged_within_limits() -> None:
    found = asked(cell_of("A06", arch="sliding"), "second-turn", {"reordered_families": "window"})

    assert (found.kind, found.guarantee) == (CheckKind.NEAR, Guarantee.TOLERANCE)
    assert found.limits["window"] == {"relative_ppb": 2_000_000}


@pytest.mark.parametrize("told", [{}, {"reordered_families": "conv"}, {"families": "kv"}])
def test_a_target_that_tells_nothing_of_it_is_judged_exactly(told: Mapping[str, object]) -> None:
    assert asked(cell_of("A06", arch="sliding"), "second-turn", told).kind is CheckKind.EXACT


def test_a_cell_without_such_a_family_is_judged_exactly() -> None:
    told = {"reordered_families": "window"}

    assert asked(cell_of("A06", arch="hybrid"), "second-turn", told).kind is CheckKind.EXACT


def test_the_state_right_after_a_restore_has_no_limits() -> None:
    told = {"reordered_families": "conv,kv,recurrent,window"}

    assert asked(cell_of("R06", arch="sliding"), "came-back", told).kind is CheckKind.UNCHANGED
