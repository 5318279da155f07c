"""The check ``reused``: by the engine's own counts, and never against a turn that was not cold."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.errors import InvalidDocumentError
from harness.model.evidence import Turn
from harness.model.values import Outcome
from tests.fakes.evidence import Recorded, recorded


def asked(at: str = "warm.again", reference: str = "cold.a", limit: int = 500_000) -> Recorded:
    found = recorded()
    procedure: dict[str, Any] = copy.deepcopy(dict(found.header.procedure))
    check = {"id": "spared", "reused": {"at": at, "reference": reference, "at_most_ppm": limit}}
    procedure["checks"] = [*procedure["checks"], check]
    return found.with_procedure(procedure)


def test_a_turn_that_forwards_a_part_passes() -> None:
    result = asked().result("spared")

    assert (result.outcome, result.code, result.unit) == (Outcome.PASS, "COUNT.REUSED@1", "ppm")
    assert 0 < int(result.observed) < 500_000


def test_a_part_above_the_limit_fails() -> None:
    result = asked(limit=1).result("spared")

    assert (result.outcome, result.reason) == (Outcome.FAIL, "nothing_spared")


def test_a_turn_that_reused_nothing_fails_whatever_the_limit() -> None:
    result = asked(at="warm.first", limit=1_000_000).result("spared")

    assert (result.outcome, result.reason) == (Outcome.FAIL, "nothing_spared")


def test_counts_that_do_not_make_up_the_prompt_fail() -> None:
    found = asked()
    turn = next(one for one in found.observations if isinstance(one, Turn) and one.label == "again")
    result = found.with_turn("warm", "again", prefilled=turn.prefilled + 1).result("spared")

    assert (result.outcome, result.reason) == (Outcome.FAIL, "tokens_unaccounted")


def test_a_reference_that_reused_tokens_is_no_ground() -> None:
    result = asked(reference="warm.again", at="warm.first").result("spared")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "reference_not_cold")


def test_a_turn_that_is_not_there_is_no_pass() -> None:
    found = asked().without(lambda one: isinstance(one, Turn) and one.label == "again")

    assert found.result("spared").outcome is Outcome.ERROR


def test_a_step_without_a_turn_is_refused() -> None:
    with pytest.raises(InvalidDocumentError, match="there is no such step"):
        asked(at="warm.nowhere").result("spared")
