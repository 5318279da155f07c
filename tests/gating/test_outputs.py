"""What a gate run prints: harmless, deterministic, worst first, with what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ExitCode, UsageError
from harness.gating import forge, outputs
from harness.gating.gate import gate
from harness.gating.rules import RULES
from harness.model.certificate import Finding, GateReport, Waived
from harness.model.noun import replace
from harness.model.values import Sha256
from harness.wire import canonical, schemas
from tests.gating.all_fixtures import FIXTURES
from tests.gating.fixtures import valid, valid_stop
from tests.gating.foreign_fixtures import valid_foreign

HOSTILE = "\x1b[2Jgreen\r::error::\u202e\u200b\x9b\ud800\x00"


def report(*findings: Finding) -> GateReport:
    return GateReport(
        exit_code=ExitCode.INVALID,
        findings=findings,
        certificates=1,
        events=0,
        evidence_files=1,
        rules=("CG101",),
        outcomes={HOSTILE: 1},
        stops=(HOSTILE,),
    )


def finding(message: str = "found", where: str = "a.json", rule: str = "CG101") -> Finding:
    return Finding(
        rule=rule, severity="error", where=where, message=message, hint="mend it", exit_code=ExitCode.INVALID
    )


def test_nothing_that_is_shown_can_act(tmp_path: Path) -> None:
    shown = outputs.text(report(finding(HOSTILE, HOSTILE)))

    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\\x1b[2Jgreen\\r" in shown
    assert "\\u202e\\u200b\\x9b\\ud800\\x00" in shown


def test_hostile_text_gives_valid_json_too() -> None:
    value = json.loads(outputs.to_json(report(finding(HOSTILE, HOSTILE))))

    schemas.validate(value, "gate.v1", "report")
    assert "\x1b" not in value["findings"][0]["message"]


def ended(code: ExitCode, **fields: Any) -> list[str]:
    return outputs.text(replace(report(), exit_code=code, outcomes={"pass": 3}, stops=(), **fields)).splitlines()


@pytest.mark.parametrize("code", [ExitCode.INVALID, ExitCode.BROKEN])
def test_an_end_in_which_records_may_say_anything_shows_outcomes_as_claims(code: ExitCode) -> None:
    lines = ended(code)

    assert "cells  claimed, not accepted: 3 pass" in lines
    assert lines[-1].startswith(f"gate   exit {int(code)}, ")
    assert lines[-1].endswith("no outcome counts")


@pytest.mark.parametrize("code", [code for code in ExitCode if code is not ExitCode.GOOD])
def test_only_a_good_end_says_good_or_valid_first(code: ExitCode) -> None:
    last = ended(code)[-1]

    assert not re.match(r"gate   exit \d, (good|every|valid|pass)", last)
    assert ExitCode.USAGE is code or last.partition(", ")[2]


def test_the_counts_of_valid_records_are_shown_as_they_are() -> None:
    assert "cells  3 pass (of current certificates)" in ended(ExitCode.GOOD)
    assert "cells  3 pass (of current certificates)" in ended(ExitCode.FINDINGS)
    assert ended(ExitCode.FINDINGS)[-1].startswith("gate   exit 1, not met: ")


def test_a_good_end_tells_of_stops_contested_claims_and_waivers() -> None:
    waived = (Waived(finding=finding(), event=Sha256("ab" * 32), until="2026-12-31"),)
    shown = outputs.text(replace(report(), exit_code=ExitCode.GOOD, waived=waived, contested=("a", "b")))

    assert shown.splitlines()[-1] == (
        "gate   exit 0, good: nothing was found that is not waived (1 finding); "
        "valid is not passed: 1 stop, 2 contested claims"
    )
    assert ended(ExitCode.GOOD)[-1] == "gate   exit 0, good: every record is valid"


def test_a_good_end_says_that_every_cell_passed_only_where_that_was_demanded(tmp_path: Path) -> None:
    valid(tmp_path)

    assert outputs.text(gate([tmp_path])).endswith("good: every record is valid\n")
    demanded = outputs.text(gate([tmp_path], require_pass=True))
    assert demanded.endswith("good: every record is valid, and every cell that is not excluded passed\n")
    assert re.search(r"^rules  [0-9]+ held \(--list-rules tells them\)$", demanded, re.MULTILINE)
    options = {"options": "--require-pass"}
    shown = replace(report(), exit_code=ExitCode.GOOD, outcomes={"pass": 3}, stops=(), settings=options)
    assert outputs.ending(shown) == "good: every record is valid, and every cell passed"


def test_nothing_to_check_is_said_to_be_no_pass(tmp_path: Path) -> None:
    lines = outputs.text(gate([tmp_path])).splitlines()

    assert "cells  none" in lines
    assert lines[-1] == "gate   exit 5, nothing to check: no certificate, which is no pass"


def test_a_hostile_file_name_is_shown_escaped(tmp_path: Path) -> None:
    FIXTURES["stray_name_with_escapes"].build(tmp_path)

    shown = outputs.text(gate([tmp_path]))

    assert "\\x1b[2J\\u202egreen\\n::error::.json" in shown


def test_long_text_is_cut() -> None:
    assert len(outputs.text(report(finding("x" * 100_000)))) < 5_000


def test_the_text_has_findings_hints_once_totals_and_one_verdict(tmp_path: Path) -> None:
    FIXTURES["duplicate_key"].build(tmp_path)

    found = gate([tmp_path])
    lines = outputs.text(found).splitlines()

    assert lines[0].startswith("CG101 error ")
    assert "second time" in lines[0]
    assert lines[1].startswith("      fix: ")
    assert sum("      fix: restore the file as it was issued; documents" in line for line in lines) == 1
    rules = len({one.rule for one in found.findings})
    assert f"rules  {len(found.rules)} ran, {rules} with findings (--list-rules tells them)" in lines
    assert lines[-1] == "gate   exit 2, invalid: a record cannot be trusted, so no outcome counts"


def test_one_of_a_thing_is_counted_in_the_singular(tmp_path: Path) -> None:
    valid_stop(tmp_path)

    shown = outputs.text(gate([tmp_path], require_pass=True))

    (read,) = [line for line in shown.splitlines() if line.startswith("read ")]
    assert read == "read   1 certificate, 1 evidence file, 0 events"
    assert " 1 stop listed" in shown
    assert not re.search(r"\b1 (certificates|files|events|findings|notes|stops)\b", shown)


def test_a_foreign_record_that_did_not_pass_is_not_a_thing_that_can_be_mended_here(tmp_path: Path) -> None:
    valid_foreign(tmp_path)

    found = [one for one in gate([tmp_path], require_pass=True).findings if one.rule == "CG010"]

    assert found
    assert {"/foreign/" in one.where for one in found} == {True}
    assert all("whoever published it" in one.hint and "mend the engine" not in one.hint for one in found)


def test_stops_are_shown_when_nothing_is_wrong(tmp_path: Path) -> None:
    valid_stop(tmp_path)

    shown = outputs.text(gate([tmp_path]))

    assert ".json: stop" in shown
    assert shown.endswith("gate   exit 0, good: every record is valid; valid is not passed: 1 stop\n")


def test_many_findings_are_cut_in_the_text_and_whole_in_json() -> None:
    many = report(*[finding(f"number {number}") for number in range(150)])

    assert "... and 50 more" in outputs.text(many)
    assert len(json.loads(outputs.to_json(many))["findings"]) == 150


def test_a_rule_that_finds_much_hides_nothing_of_another_one() -> None:
    many = report(*[finding(f"number {number}", rule="CG601") for number in range(150)], finding("late", rule="CG901"))

    for page in (outputs.text(many), forge.summary(many).decode()):
        assert "late" in page
        assert "number 49" in page
        assert "number 50" not in page
    assert "... and 100 more of CG601; --json lists all" in outputs.text(many)
    assert "Findings: 151" in forge.summary(many).decode()


def test_the_json_is_one_rendering_and_fits_its_schema(tmp_path: Path) -> None:
    valid(tmp_path)

    data = outputs.to_json(gate([tmp_path]))

    schemas.validate(json.loads(data), "gate.v1", "report")
    assert data == canonical.render(json.loads(data))
    assert data == outputs.to_json(gate([tmp_path]))


def test_the_rules_are_listed_in_both_forms() -> None:
    value = json.loads(outputs.rules_json())

    assert [one["id"] for one in value["rules"]] == [rule.id for rule in RULES]
    assert [line[:5] for line in outputs.rules_table().splitlines()] == [rule.id for rule in RULES]


@pytest.mark.parametrize("name", ["CG303", "cg303"])
def test_a_rule_is_explained(name: str) -> None:
    shown = outputs.explain(name)

    assert "exit 2" in shown
    assert "label_of_another_type" in shown
    assert "passes on:  valid" in shown


def test_an_unknown_rule_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="CG301"):
        outputs.explain("CG999\x1b")
