"""The check ``answers``: an answer that is lost fails, one that was never there claims nothing."""

from __future__ import annotations

from typing import Any

import pytest

from harness.deriving.checks.told import check, holds
from harness.deriving.decide import decide, decide_cell, unjudged
from harness.deriving.support import OTHER_TOKENIZER, capabilities_missing
from harness.model.evidence import Point
from harness.model.scenario import Arm, CellPlan, CheckKind, CheckSpec, PointRef, Step, StepKind
from harness.model.values import (
    ArmRole,
    Capability,
    CellId,
    DecisionAxis,
    Observability,
    Outcome,
    Phase,
    Sha256,
    Verdict,
)

ANSWER = (71, 72)


def spec(**changed: Any) -> CheckSpec:
    fields: dict[str, Any] = {
        "id": "answer",
        "kind": CheckKind.ANSWERS,
        "candidate": PointRef(arm="warm", label="a"),
        "reference": PointRef(arm="off", label="a"),
        "ids": ANSWER,
    }
    return CheckSpec(**(fields | changed))


def step() -> Step:
    return Step(kind=StepKind.RUN, label="a", prompt="P", decode=4, stop={"token": 2})


def plan() -> CellPlan:
    arms = (
        Arm(id="off", role=ArmRole.REFERENCE, steps=(step(),)),
        Arm(id="warm", role=ArmRole.CANDIDATE, steps=(step(),)),
    )
    return CellPlan(id=CellId("Q01[scale=1]"), coords={"scale": 1}, arms=arms, checks=(spec(),), tokenizer="a" * 64)


def point(arm: str, rep: int, tokens: tuple[int, ...]) -> Point:
    return Point(
        cell=CellId("Q01[scale=1]"),
        arm=arm,
        rep=rep,
        label="a",
        phase=Phase.END,
        position=9,
        root=Sha256("0" * 64),
        logits="",
        logits_finite=True,
        tokens=tokens,
        t_ns=0,
    )


def view(off: tuple[int, ...], warm: tuple[int, ...] | None, again: tuple[int, ...] | None = None) -> Any:
    from harness.deriving.view import cell_view

    looks = [point("off", 0, off), point("off", 1, off if again is None else again)]
    looks += [point("warm", 0, warm)] if warm is not None else []
    return cell_view(plan(), looks, {}, Observability.TOKENS)


def test_an_answer_that_both_give_passes() -> None:
    result = check(view((5, 71, 72, 2), (71, 72, 9)), spec())

    assert (result.outcome, result.axis, result.code) == (Outcome.PASS, DecisionAxis.QUALITY, "QUALITY.ANSWER@1")


def test_an_answer_that_only_the_reference_gives_fails() -> None:
    result = check(view((5, 71, 72, 2), (71, 73, 72)), spec())

    assert (result.outcome, result.reason) == (Outcome.FAIL, "answer_lost")


@pytest.mark.parametrize("warm", [(1, 3), (71, 72)])
def test_a_baseline_that_fails_claims_nothing_whatever_the_candidate_says(warm: tuple[int, ...]) -> None:
    result = check(view((5, 6), warm), spec())

    assert (result.outcome, result.reason) == (Outcome.INCONCLUSIVE, "baseline_failed")


def test_a_baseline_that_answers_once_of_twice_claims_nothing() -> None:
    assert check(view(ANSWER, ANSWER, again=(5, 6)), spec()).reason == "baseline_failed"


def test_a_turn_that_did_not_come_about_was_not_run() -> None:
    result = check(view(ANSWER, None), spec())

    assert (result.outcome, result.reason) == (Outcome.NOT_RUN, "blocked")


def test_a_cell_with_a_blocked_probe_is_no_pass() -> None:
    decided = decide_cell(plan(), [check(view(ANSWER, None), spec())])

    assert (decided.outcome, decided.reason) == (Outcome.NOT_RUN, "blocked")


@pytest.mark.parametrize(
    ("tokens", "entire", "found"),
    [
        ((71, 72, 2), True, True),
        ((71, 72, 5), True, False),
        ((71, 5, 72), False, False),
        ((8, 80, 81), False, True),
        ((), False, False),
    ],
)
def test_ids_stand_side_by_side_or_alone(tokens: tuple[int, ...], entire: bool, found: bool) -> None:
    assert holds(spec(or_ids=(80, 81), entire=entire), tokens, 2) is found


def test_another_vocabulary_is_not_supported_and_quality_is_not_evaluated() -> None:
    told = {"tokenizer_sha256": "b" * 64}
    missing = capabilities_missing(plan(), set(Capability), Observability.PARTS, told)

    decision = decide([(plan(), unjudged(plan(), Outcome.NOT_SUPPORTED, missing[0]))])

    assert missing == (OTHER_TOKENIZER,)
    assert decision.by_axis[DecisionAxis.QUALITY] is Verdict.NOT_EVALUATED


def test_the_vocabulary_of_the_scenario_is_supported() -> None:
    assert capabilities_missing(plan(), set(Capability), Observability.PARTS, {"tokenizer_sha256": "a" * 64}) == ()
