"""Which suite a scenario runs in where the caller says none."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from harness.commands.common import add_scenarios, chosen_plans
from harness.errors import UsageError
from harness.model.scenario import Scenario
from harness.pipeline import SCALED, available_scenarios, shipped_scenarios
from harness.wire.scenario_doc import parse_scenario


def plans(*words: str) -> list[tuple[str, str]]:
    parser = argparse.ArgumentParser()
    add_scenarios(parser)
    return [(plan.scenario.id, plan.suite) for plan in chosen_plans(parser.parse_args(words))]


def test_a_scenario_that_is_named_runs_scaled_where_the_default_suite_leaves_it_out() -> None:
    assert plans("A01", "A16") == [("A01", "default"), ("A16", "more")]


def test_a_scenario_that_is_named_is_read_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(text: bytes, where: str) -> Scenario:
        read.append(where)
        return parse_scenario(text, where)

    monkeypatch.setattr("harness.pipeline.parse_scenario", noted)

    assert plans("a01[scale=16,arch=attention,route=ar]") == [("A01", "default")]

    assert read == ["scenarios/A/A01-restored-prefill.yaml"]


def test_every_shipped_scenario_is_found_by_its_id() -> None:
    everything = available_scenarios()

    assert shipped_scenarios(everything.keys()) == everything
    assert shipped_scenarios(["Z99"]) == {}


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


def test_the_help_names_every_suite_that_scenarios_have() -> None:
    parser = argparse.ArgumentParser()
    add_scenarios(parser)
    told = " ".join(parser.format_help().split())

    assert all(suite in told for one in available_scenarios().values() for suite in one.suites)


def test_a_suite_that_a_named_scenario_lacks_is_refused_with_the_suites_of_that_one() -> None:
    with pytest.raises(UsageError, match="suites of A02 are: default, full, hw"):
        plans("A02", "--suite", "quality")
    with pytest.raises(UsageError, match="suites are: default, engines, full, hw, more, quality"):
        plans("--suite", "nightly")


def test_an_unknown_id_that_lies_among_the_own_scenarios_is_told_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scenarios" / "X").mkdir(parents=True)
    (tmp_path / "scenarios" / "X" / "X01-mine.yaml").touch()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=r"say --scenarios scenarios, or name its file: scenarios/X/X01-mine\.yaml"):
        plans("x01")


def test_an_id_that_is_known_nowhere_gets_a_guess_or_else_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=r"\(did you mean A11\?\); statecert plan lists all$"):
        plans("A011")
    with pytest.raises(UsageError, match="there are: A01, A02"):
        plans("zzz")
