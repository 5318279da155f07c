"""A condition that no suite of a scenario meets is refused before anything runs: its check would never be asked."""

from __future__ import annotations

import pytest

from harness.errors import InvalidScenarioError
from harness.pipeline import make_plans
from tests.fakes.evidence import SCENARIO, scenario

ENTRIES = b"    - {id: entries, entries:"


def under(when: bytes) -> bytes:
    """Return the scenario with a condition on one of its checks."""
    return SCENARIO.replace(ENTRIES, b"    - {id: entries, when: " + when + b", entries:")


@pytest.mark.parametrize("when", [b"{scale: 16}", b"{scale: [16]}"])
def test_a_check_at_a_scale_of_a_suite_is_asked(when: bytes) -> None:
    plan = make_plans([(scenario(under(when)), ())], "default")[0]

    assert "entries" in {check.id for check in plan.cells[0].checks}


@pytest.mark.parametrize("when", [b"{scale: 8}", b"{scale: [16, 8]}"])
def test_a_check_at_a_scale_of_no_suite_is_refused(when: bytes) -> None:
    with pytest.raises(InvalidScenarioError, match=r"checks/11/when/scale.*found scale 8.*suites are: 16"):
        make_plans([(scenario(under(when)), ())], "default")


def test_an_exclusion_at_a_scale_of_no_suite_is_refused() -> None:
    text = SCENARIO.replace(b"axes: {}", b"axes: {}\n  exclude: [{when: {scale: 4}, reason: too_big}]")

    with pytest.raises(InvalidScenarioError, match=r"exclude/0/when/scale.*found scale 4"):
        make_plans([(scenario(text), ())], "default")
