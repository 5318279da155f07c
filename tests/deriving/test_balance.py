"""Sums of a store's counters: equal, within, missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.errors import InvalidDocumentError
from harness.model.evidence import StoreView
from harness.model.values import Outcome
from tests.fakes.evidence import Recorded, recorded


def asked(of: list[str], against: dict[str, list[str]], at: str = "warm.held") -> Recorded:
    found = recorded()
    procedure: dict[str, Any] = copy.deepcopy(dict(found.header.procedure))
    procedure["checks"] = [*procedure["checks"], {"id": "sum", "balance": {"at": at, "of": of, **against}}]
    return found.with_procedure(procedure)


def test_a_counter_that_equals_the_listing_passes() -> None:
    result = asked(["stored_bytes"], {"is": ["listed_bytes"]}).result("sum")

    assert (result.outcome, result.code, result.unit) == (Outcome.PASS, "FOOT.BALANCE@1", "bytes")
    assert result.observed == result.limit != 0


def test_sums_that_differ_fail() -> None:
    result = asked(["stored_bytes", "listed_bytes"], {"is": ["listed_bytes"]}).result("sum")

    assert (result.outcome, result.reason) == (Outcome.FAIL, "bytes_unaccounted")


def test_a_sum_beyond_the_other_fails_and_one_within_it_passes() -> None:
    assert asked(["stored_bytes"], {"within": ["listed_bytes"]}).result("sum").outcome is Outcome.PASS
    result = asked(["stored_bytes", "listed_bytes"], {"within": ["listed_bytes"]}).result("sum")

    assert (result.outcome, result.reason) == (Outcome.FAIL, "too_large")


def test_a_counter_that_is_missing_is_no_pass() -> None:
    result = asked(["stored_bytes"], {"within": ["nobody_knows"]}).result("sum")

    assert (result.outcome, result.reason, result.detail["counter"]) == (
        Outcome.ERROR,
        "counter_missing",
        "nobody_knows",
    )


def test_a_store_that_was_not_seen_is_no_pass() -> None:
    found = asked(["stored_bytes"], {"within": ["listed_bytes"]})

    assert found.without(lambda one: isinstance(one, StoreView)).result("sum").outcome is Outcome.ERROR


def test_a_step_that_lists_no_store_is_refused() -> None:
    with pytest.raises(InvalidDocumentError, match="there is no such step"):
        asked(["stored_bytes"], {"within": ["listed_bytes"]}, at="warm.nowhere").result("sum")
