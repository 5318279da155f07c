"""Which suite a scenario runs in where the caller says none."""

from __future__ import annotations

import argparse

import pytest

from harness.commands.common import add_scenarios, chosen_plans
from harness.errors import UsageError
from harness.pipeline import SCALED, available_scenarios


def plans(*words: str) -> list[tuple[str, str]]:
    parser = argparse.ArgumentParser()
    add_scenarios(parser)
    return [(plan.scenario.id, plan.suite) for plan in chosen_plans(parser.parse_args(words))]


def test_a_scenario_that_is_named_runs_scaled_where_the_default_suite_leaves_it_out() -> None:
    assert plans("A01", "A16") == [("A01", "default"), ("A16", "more")]


def test_without_names_it_is_the_default_suite() -> None:
    found = plans()

    assert {suite for _, suite in found} == {"default"}
    assert {"A01", "A02", "B01", "B02", "D01", "F08", "A10"} <= {identity for identity, _ in found}


def test_a_suite_that_is_named_holds_for_all() -> None:
    assert plans("A01", "A16", "--suite", "full") == [("A01", "full"), ("A16", "full")]
    with pytest.raises(UsageError, match="belongs to suite 'default'"):
        plans("A16", "--suite", "default")


def test_a_scenario_that_is_never_scaled_is_not_left_out_in_silence() -> None:
    with pytest.raises(UsageError, match="belongs to suite 'default'; suites are: quality"):
        plans("A01", "Q01")


def test_no_scenario_is_in_two_suites_that_scale() -> None:
    assert all(len(set(SCALED) & set(one.suites)) < 2 for one in available_scenarios().values())
