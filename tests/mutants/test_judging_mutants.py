"""What counts as stopped: the named check fails, at the expected part and phase, and nothing has crashed."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.errors import NothingToDoError, UsageError
from harness.model.decision import CellDecision, CheckResult
from harness.model.evidence import Crash, Evidence
from harness.model.values import CellId, CrashKind, DecisionAxis, Outcome, Phase
from harness.mutation.crossing import claims
from harness.mutation.expecting import Expected, cell_of, chosen, expected_of
from harness.mutation.trying import judged
from harness.pipeline import available_scenarios

EXPECTED = Expected(
    id="K01.x",
    fault="Something.",
    scenario="A01",
    cell={},
    check="again",
    part="recurrent",
    phase="restored",
    reason="",
)
DETAIL = {"part": "layer0.recurrent", "family": "recurrent", "phase": "restored"}


def result(outcome: Outcome = Outcome.FAIL, reason: str = "parts_differ", **detail: str) -> CheckResult:
    return CheckResult(
        id="again",
        code="EXACT.STATE@1",
        axis=DecisionAxis.EXACTNESS,
        outcome=outcome,
        reason=reason,
        detail={**DETAIL, **detail},
    )


def why_not(found: CheckResult, expected: Expected = EXPECTED, *crashes: Crash) -> str:
    decision = CellDecision(id=CellId("A01[scale=16]"), coords={}, outcome=found.outcome, reason="", checks=(found,))
    evidence = cast("Evidence", SimpleNamespace(observations=crashes))
    return judged(expected, decision, evidence).why_not


def test_the_named_check_at_the_expected_part_stops() -> None:
    assert why_not(result()) == ""
    assert why_not(result(), replace(EXPECTED, part="layer0.recurrent")) == ""
    assert why_not(result(), replace(EXPECTED, part="", phase="")) == ""


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (result(Outcome.PASS), "says pass"),
        (result(Outcome.ERROR, "observation_missing"), "says error"),
        (result(Outcome.INCONCLUSIVE, "not_repeatable"), "says inconclusive"),
        (result(part="layer0.conv", family="conv"), "expected recurrent"),
        (result(phase="prefilled"), "found in phase prefilled"),
        (result(reason="refused"), "a refusal does not count"),
    ],
)
def test_anything_else_does_not(found: CheckResult, word: str) -> None:
    assert word in why_not(found)


def test_a_reason_that_was_named_must_be_the_reason() -> None:
    refusing = replace(EXPECTED, part="", phase="", reason="refused")
    assert why_not(result(reason="refused"), refusing) == ""
    assert "another reason" in why_not(result(reason="parts_differ"), refusing)


def test_a_crash_anywhere_in_the_cell_does_not_count() -> None:
    crash = Crash(
        cell=CellId("A01[scale=16]"), arm="warm", rep=0, label="again", kind=CrashKind.CRASH, detail="SIGSEGV", t_ns=0
    )
    assert "a crash does not count" in why_not(result(), EXPECTED, crash)


def test_kinds_and_ids_choose() -> None:
    assert chosen(["K13.chunks-shift-on-hit"]) == ["K13.chunks-shift-on-hit"]
    assert {name.partition(".")[0] for name in chosen(["K13"])} == {"K13"}
    assert set(chosen(["K01"])) < set(chosen([]))
    assert EXPECTED.phase == Phase.RESTORED
    with pytest.raises(NothingToDoError, match=r"no mutant 'K99'.*--count.*--scenario ID"):
        chosen(["K99"])
    with pytest.raises(NothingToDoError, match=r"did you mean K01\.conv-zeroed"):
        chosen(["K01.conv-zero"])


def test_a_mutant_that_does_not_say_what_must_stop_it_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"lacks mutant\.check"):
        expected_of("K01.x", {"mutant.fault": "Something.", "mutant.scenario": "A01"})


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"check": "no-such-check"}, "has no check no-such-check"),
        ({"scenario": "Z99"}, "there is no scenario Z99"),
        ({"cell": {"arch": "round"}}, "0 cells of A01 fit"),
        ({"cell": {}}, "6 cells of A01 fit"),
    ],
)
def test_what_must_stop_it_must_be_there(wrong: dict[str, Any], word: str) -> None:
    right = replace(EXPECTED, cell={"arch": "hybrid"})
    assert cell_of(right, available_scenarios()).selected == ("A01[scale=16,arch=hybrid,route=ar]",)
    with pytest.raises(UsageError, match=re.escape(word)):
        cell_of(replace(right, **wrong), available_scenarios())


def test_claims_are_what_scenarios_list() -> None:
    scenarios = available_scenarios()
    found = claims([replace(EXPECTED, id="K05.pending-visible")], scenarios)
    assert [scenario.id for _, scenario in found] == ["D01"]
