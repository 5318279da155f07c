"""A self-test answers what it is asked, fails where something is planted, and its result is a certificate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.certifying.issue import issue
from harness.cli import main
from harness.errors import ExitCode
from harness.gating.gate import gate
from harness.gating.rules import RULES
from harness.reporting.campaigns import told
from harness.selfcheck import selftest, specimens
from harness.selfcheck.references import Asked, ask, references, require
from harness.wire import canonical
from harness.wire.certificate_doc import parse_certificate
from tests.fakes.campaign import Flown
from tests.fakes.selfcheck import fuzzed, self_tested
from tests.gating.fixtures import valid_ledger


def documents(folder: Path) -> list[bytes]:
    valid_ledger(folder)
    return [path.read_bytes() for path in sorted(folder.glob("T*/*/*/*.json"))]


def test_every_reference_at_hand_agrees(tmp_path: Path) -> None:
    answers = {one.name: one for one in references(documents(tmp_path))}

    assert len(answers) == 7
    assert {one.outcome for one in answers.values()} == {"pass"}
    assert all(one.count for one in answers.values())


def test_a_wrong_canonical_form_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = documents(tmp_path)
    real = canonical.canonical
    monkeypatch.setattr(canonical, "canonical", lambda value: real(value).replace(b"pass", b"past"))

    answers = {one.name: one.outcome for one in references(texts)}

    assert answers["canonical form by rfc8785"] == "fail"
    assert answers["canonical form by json"] == "fail"


def test_a_reference_that_is_not_installed_is_not_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    answers = {one.name: one for one in references(documents(tmp_path))}

    assert answers["signatures by ssh-keygen"] == Asked(
        "references", answers["signatures by ssh-keygen"].name, "not_run", 0, "not_installed"
    )


def test_a_rule_that_does_not_fire_fails_its_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = [rule._replace(document=None) if rule.id == "CG104" else rule for rule in RULES]
    monkeypatch.setattr("harness.gating.gate.asked_for", lambda _: [rule for rule in deaf if not rule.option])
    monkeypatch.setattr(selftest, "RULES", [rule for rule in deaf if rule.id in ("CG103", "CG104")])

    answers = {one.name: one for one in selftest.questions(tmp_path, ["rules"])}

    assert answers["CG104"].outcome == "fail"
    assert answers["CG104"].reason.startswith("silent_on_")


def test_a_question_that_compares_nothing_is_no_pass() -> None:
    def breaks() -> int:
        raise ZeroDivisionError

    def differs() -> int:
        require(holds=False, word="differs")
        return 1

    assert ask("rules", "a", lambda: 0) == Asked("rules", "a", "fail", 0, "nothing_compared")
    assert ask("rules", "a", breaks).reason == "raised_zerodivisionerror"
    assert ask("rules", "a", differs).reason == "differs"


@pytest.mark.parametrize(
    ("records", "overall", "reasons"),
    [
        (self_tested(), "pass", []),
        (self_tested().with_line("asked", outcome="fail", reason="x"), "stop", ["failed_rules"]),
        (self_tested().without(lambda line: line.get("group") == "hostile"), "error", ["nothing_asked"]),
    ],
    ids=["good", "failed", "empty"],
)
def test_a_decision_follows_from_the_answers(records: Flown, overall: str, reasons: list[str]) -> None:
    body = records.body()

    assert body["kind"] == "harness"
    assert body["decision"] == {"overall": overall, "reasons": reasons}
    assert "not_run:references:ssh-keygen" in body["limits"]


def test_a_group_that_was_left_out_is_a_limit() -> None:
    body: dict[str, Any] = self_tested(groups=("rules", "mutants")).body()

    assert {"not_asked:references", "not_asked:hostile"} <= set(body["limits"])


@pytest.mark.parametrize("records", [self_tested(), fuzzed()], ids=["selftest", "fuzz"])
def test_its_certificate_is_issued_gated_and_told(records: Flown, tmp_path: Path) -> None:
    issue(records.data(), tmp_path)

    assert gate([tmp_path]).exit_code is ExitCode.GOOD
    [path] = tmp_path.glob("[a-z]*/statecert-gate/*/*.json")
    said = told(parse_certificate(path.read_bytes(), "a.json"))
    assert said.claims
    assert "known here" not in said.sentence
    assert main(["report", str(tmp_path), "--certificate", path.stem[-12:]]) == 0


def test_the_command_without_mutants_ends_in_0_and_asks_hostile_records_and_judging(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["selftest", "--without", "mutants", "--without", "rules", "--out", str(tmp_path)])

    assert code == 0
    assert "self-test: pass" in capsys.readouterr().out
    [path] = tmp_path.rglob("selftest.jsonl")
    answers = [line for line in map(json.loads, path.read_text().splitlines()) if line["type"] == "asked"]
    apart = [line for line in answers if line["group"] in ("determinism", "hostile")]
    assert {line["outcome"] for line in apart} == {"pass"}
    assert {line["group"] for line in apart} == {"determinism", "hostile"}


def test_the_mutants_of_a_self_test_exist_and_are_of_different_kinds() -> None:
    from harness.mutation.expecting import chosen

    assert chosen(selftest.MUTANTS) == sorted(selftest.MUTANTS)
    assert len({name[:3] for name in selftest.MUTANTS}) == len(selftest.MUTANTS)


def test_specimens_are_those_of_the_tests() -> None:
    from tests.gating import fixtures

    assert specimens.folders().FIXTURES is fixtures.FIXTURES
