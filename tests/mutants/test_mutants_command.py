"""The command, on real children: some mutants are stopped, and what only looks like a stop is none."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness import cli
from harness.certifying.issue import issue, why_draft
from harness.errors import ExitCode, InvalidDocumentError

ADAPTERS = Path(__file__).parent / "adapters"
STOPPED = ("K01.conv-zeroed", "K05.pending-visible", "K15.evict-root")


def run(*words: str, out: Path) -> int:
    return cli.main(["mutants", *words, "--quiet", "--jobs", "1", "--out", str(out)])


def rows(text: str) -> Mapping[str, Mapping[str, str]]:
    return {row["mutant"]: row for row in json.loads(text)["rows"]}


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ADAPTERS)])


def test_each_of_these_is_stopped_and_the_clean_engine_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*STOPPED, out=tmp_path) == ExitCode.GOOD
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "3 mutants, 3 stopped, 0 not stopped"
    evidence = sorted(tmp_path.glob("*/child-*/*/evidence/*.jsonl"))
    assert len(evidence) == 6, "one of each mutant, and one of the clean engine for each of their cells"
    data = next(path for path in evidence if "mutant_k01" in path.name).read_bytes()
    assert why_draft(data) == "mutant"
    with pytest.raises(InvalidDocumentError, match="mutant"):
        issue(data, tmp_path / "certificates")


@pytest.mark.usefixtures("fakes")
def test_what_only_looks_like_a_stop_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("Z00", "Z01", "Z02", "Z03", "Z04", "--json")
    assert run(*words, out=tmp_path) == ExitCode.FINDINGS
    found = rows(capsys.readouterr().out)
    assert {row["stopped"] for row in found.values()} == {"no"}
    assert found["Z00.nothing-planted"]["why_not"] == "the check says pass"
    assert found["Z01.crashes"]["why_not"].startswith("a crash does not count: crash in warm")
    assert found["Z02.raises"]["why_not"].startswith("a crash does not count: engine_error in warm")
    assert found["Z03.refuses"]["why_not"] == "a refusal does not count"
    assert found["Z04.elsewhere"]["why_not"] == "found at layer0.recurrent; expected kv"


def test_nothing_matches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("K99", out=tmp_path) == ExitCode.NOTHING
    assert "K99" in capsys.readouterr().err


@pytest.mark.usefixtures("forked")
def test_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("K04.miss-reason-blank", "--scenario", "E11", "--scenario", "F03", "--matrix", out=tmp_path)
        == ExitCode.GOOD
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["stopped by no scenario here: none", "1 mutant, 1 stopped, 0 not stopped"]
    assert any(line.split() == ["K04.miss-reason-blank", "x", "."] for line in lines)


def test_counting_runs_nothing_and_says_how_many_there_are_of_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("K12", "--count", "--json", out=tmp_path) == ExitCode.GOOD
    counted = {row["kind"]: row for row in json.loads(capsys.readouterr().out)["rows"]}

    assert set(counted) == {"K12", "all"}
    assert counted["K12"]["mutants"] == counted["all"]["mutants"] >= 6
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("fakes")
def test_counting_finds_a_scenario_that_claims_a_mutant_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "scenarios" / "A" / "A26-moved-beside.yaml").read_text()
    folder = tmp_path / "own" / "A"
    folder.mkdir(parents=True)
    (folder / "A26-moved-beside.yaml").write_text(text.replace("K12.copy-not-awaited", "K12.never-planted"))

    assert run("K12", "--count", "--scenarios", str(folder.parent), out=tmp_path) == ExitCode.FINDINGS
    assert "K12.never-planted" in capsys.readouterr().out
