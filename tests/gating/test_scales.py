"""A record under a scenario's name was made at a scale that the scenario has: shrunk to a few tokens it shows less."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ExitCode
from harness.gating.gate import gate
from harness.gating.rules import cg603
from harness.pipeline import available_scenarios
from tests.gating.fixtures import a_run, valid


def stands_for(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    header = a_run().header
    held = {header.scenario_id: cg603.Procedures(now=header.procedure_digest, former={}, largest=largest)}
    monkeypatch.setattr(cg603, "known", lambda: held)


def test_a_run_at_a_larger_scale_than_any_suite_has_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    valid(tmp_path)
    scale = max(a_run().header.scales)
    stands_for(scale - 1, monkeypatch)

    (found,) = gate([tmp_path]).findings

    assert (found.rule, found.exit_code) == ("CG603", ExitCode.FINDINGS)
    assert found.where.endswith("#/body/run/scales")


def test_a_run_at_the_scale_of_its_suite_or_a_smaller_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid(tmp_path)
    for more in (0, 1):
        stands_for(max(a_run().header.scales) + more, monkeypatch)
        assert gate([tmp_path]).findings == ()


def test_a_gate_without_the_list_of_procedures_is_never_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    valid(tmp_path)
    monkeypatch.setattr(cg603, "MANIFEST", "nothing.json")
    cg603.known.cache_clear()

    assert gate([tmp_path]).exit_code is ExitCode.BROKEN
    cg603.known.cache_clear()


def test_the_list_has_the_largest_scale_of_each_scenario() -> None:
    wanted = {name: max(map(max, one.suites.values())) for name, one in available_scenarios().items()}

    assert {name: held.largest for name, held in cg603.known().items()} == wanted
