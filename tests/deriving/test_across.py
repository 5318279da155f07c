"""What another build made of an image: who it was must be told, and the image must have been brought to it."""

from __future__ import annotations

import pytest

from harness.deriving.product import expand
from harness.deriving.validity import require_sensible
from harness.errors import InvalidScenarioError, UsageError
from harness.model.values import DecisionAxis, Outcome, Phase
from tests.fakes.evidence import recorded, scenario
from tests.gating.across_fixtures import NEW, OLD, SCENARIO, a_move, a_refusal
from tests.gating.fixtures import part_name

RESTART = b"""        - {restart: {how: stop, engine: {build: other}, as: changed}}
"""
IMPORT = b"""        - {import: {image: i, session: second, may_refuse: true, as: in}}
"""


def test_an_image_that_another_build_holds_passes_as_near() -> None:
    found = a_move().result("across")

    assert (found.outcome, found.axis, found.detail["answer"]) == (Outcome.PASS, DecisionAxis.TOLERANCE, "taken")


@pytest.mark.parametrize("told", [("", ""), (OLD, ""), ("", NEW)])
def test_a_build_that_is_not_told_is_an_error(told: tuple[str, str]) -> None:
    found = a_move(*told).result("across")

    assert (found.outcome, found.reason) == (Outcome.ERROR, "build_untold")


def test_one_build_twice_is_left_open() -> None:
    found = a_move(OLD, OLD).result("across")

    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, "same_build")


@pytest.mark.parametrize(("code", "outcome"), [("format", Outcome.PASS), ("short_buffer", Outcome.FAIL)])
def test_a_refusal_answers_by_its_name(code: str, outcome: Outcome) -> None:
    assert a_refusal(code).result("across").outcome is outcome


def test_a_state_that_was_not_measured_is_an_error() -> None:
    found = a_move().with_part("moved", "in", Phase.RESTORED, part_name("recurrent")).result("across")

    assert found.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (RESTART + IMPORT, IMPORT + RESTART, "an import after moved.changed"),
        (b"candidate: moved.in", b"candidate: moved.a", "it is looked at as it came in, at moved.in"),
        (b"restarted: moved.changed", b"restarted: moved.out", "a restart step"),
    ],
)
def test_what_another_build_is_handed_is_brought_after_the_restart(old: bytes, new: bytes, words: str) -> None:
    assert old in SCENARIO

    with pytest.raises(UsageError, match=words):
        expand(scenario(SCENARIO.replace(old, new)), [16], suite="default")


BEYOND = SCENARIO.replace(b"{candidate: other_text.a,", b"{beyond: across, candidate: other_text.a,")
"""Its other text must lie beyond the limits of the question across builds."""


def test_limits_across_builds_that_a_wrong_state_keeps_make_the_cell_an_error() -> None:
    builds = {"build_before": OLD, "build": NEW}
    found = recorded(scenario(BEYOND)).with_step("moved", "changed", detail={"how": "stop", **builds})

    assert found.result("across").outcome is Outcome.PASS
    assert (found.result("other-seen").outcome, found.result("other-seen").reason) == (
        Outcome.ERROR,
        "control_within_limits",
    )


def test_limits_across_builds_need_a_control_beyond_them() -> None:
    require_sensible(expand(scenario(BEYOND), [16]).cells[0], "test.yaml")

    with pytest.raises(InvalidScenarioError, match="no seen check with beyond: across"):
        require_sensible(expand(scenario(SCENARIO), [16]).cells[0], "test.yaml")
