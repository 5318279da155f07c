"""What a gate run says to a forge: within its limits, and nothing in it can act."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.certifying.sign import sign_folder
from harness.cli import main
from harness.errors import ExitCode
from harness.gating import forge
from harness.model.certificate import Finding, GateReport, Waived
from harness.model.values import Sha256
from tests.gating.all_fixtures import FIXTURES
from tests.gating.fixtures import rewrite, valid, valid_ledger, valid_stop
from tests.gating.ledger_fixtures import LAST, signer, waive

HOSTILE = "\x1b]0;x\x07\r\n::error::x%0A|`<b a='1'>&\u202e\ud800"


def finding(
    text: str = "found", rule: str = "CG101", severity: str = "error", code: ExitCode = ExitCode.INVALID
) -> Finding:
    return Finding(rule=rule, severity=severity, where=f"{text}#/a", message=text, hint=text, exit_code=code)


def report(*findings: Finding, waived: tuple[Finding, ...] = (), stops: tuple[str, ...] = ()) -> GateReport:
    return GateReport(
        exit_code=ExitCode.INVALID if findings else ExitCode.GOOD,
        findings=findings,
        certificates=1,
        events=0,
        evidence_files=1,
        rules=("CG001", "CG010", "CG101"),
        stops=stops,
        waived=tuple(Waived(finding=one, event=Sha256("ab" * 32), until="") for one in waived),
    )


def test_each_rule_is_a_test_case_that_failed_broke_or_was_skipped() -> None:
    broken = finding(rule="CG301", code=ExitCode.BROKEN)

    suite = ET.fromstring(forge.junit(report(finding(), finding("two"), broken, waived=(finding(rule="CG010"),))))[0]

    cases = {case.attrib["name"]: [inner.tag for inner in case] for case in suite}
    assert cases == {"CG001": [], "CG010": ["skipped"], "CG101": ["failure"], "CG301": ["error"]}
    assert suite.attrib == {"name": "statecert gate", "tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    assert "two#/a two" in (suite[2][0].text or "")


def test_a_note_fails_no_test_case() -> None:
    suite = ET.fromstring(forge.junit(report(finding(severity="note"))))[0]

    assert suite.attrib["failures"] == "0"


def test_ten_annotations_are_the_worst_nine_and_one_that_counts() -> None:
    ten, eleven = (forge.workflow_commands(report(*[finding(f"n{n}") for n in range(count)])) for count in (10, 11))

    assert len(ten.splitlines()) == len(eleven.splitlines()) == forge.ANNOTATIONS
    assert "more; the log lists them" not in ten
    assert [line.partition("::")[2][:14] for line in eleven.splitlines()[:2]] == ["error file=n0,", "error file=n1,"]
    assert eleven.splitlines()[-1].startswith("::error title=statecert gate::2 more; the log lists them")


def test_notes_and_waivers_are_said_too() -> None:
    said = forge.workflow_commands(report(finding(severity="note"), waived=(finding(rule="CG010"),)))

    assert [line.split()[0] for line in said.splitlines()] == ["::notice", "::warning"]


@given(st.one_of(st.text(alphabet=st.characters(codec=None)), st.just(HOSTILE)))
def test_no_text_can_act_or_break_the_form(text: str) -> None:
    made = report(finding(text), finding(text, severity="note"), waived=(finding(text, "CG010"),), stops=(text,))

    for line in forge.workflow_commands(made).splitlines():
        assert re.fullmatch(r"::(error|notice|warning) (file=[^:,]*,)?title=[^:,]*::[\x20-\x7e]*", line), line
        assert not re.search(r"%(?!25|0A|0D|3A|2C)", line)
    assert len(ET.fromstring(forge.junit(made))[0]) == 3
    page = forge.summary(made).decode()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| rule")]
    assert len(rows) == 4
    for row in rows:
        assert row.count("|") == 4
        assert row.count("`") % 2 == 0
        assert not re.search(r"[<&]", re.sub(r"`[^`]*`", "", row))


def test_a_summary_says_the_end_and_what_is_waived() -> None:
    page = forge.summary(report(finding(), waived=(finding(rule="CG010"),), stops=("a.json: stop",))).decode()

    assert page.startswith("### statecert gate: exit 2\n")
    assert "#### Findings: 1" in page
    assert f"by {'ab' * 32}" in page
    assert "| | `a.json: stop` | |" in page.replace("|  |", "| |")


def test_a_long_list_is_cut_and_counted() -> None:
    page = forge.summary(report(*[finding(f"n{n}") for n in range(150)])).decode()

    assert "and 50 more" in page


# -- the command -------------------------------------------------------------------------------


def test_the_command_writes_all_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    FIXTURES["duplicate_key"].build(folder)
    xml, page = tmp_path / "gate.xml", tmp_path / "summary.md"
    page.write_text("before\n")

    code = main(["gate", str(folder), "--github", "--junit", str(xml), "--summary", str(page)])

    assert code == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("::error file=")
    assert ET.fromstring(xml.read_bytes())[0].attrib["failures"] != "0"
    assert page.read_text().startswith("before\n### statecert gate: exit 2\n")


def test_a_file_that_cannot_be_written_is_exit_3_and_two_voices_are_exit_4(tmp_path: Path) -> None:
    valid(tmp_path)

    assert main(["gate", str(tmp_path), "--junit", str(tmp_path / "nowhere" / "gate.xml")]) == 3
    assert main(["gate", str(tmp_path), "--summary", str(tmp_path / "nowhere" / "page.md")]) == 3
    assert main(["gate", str(tmp_path), "--json", "--github"]) == 4


def test_fix_writes_what_is_generated_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid_ledger(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    page = next(tmp_path.glob("T*/*/*/README.md"))
    page.write_bytes(b"by hand\n")
    certificate = min(tmp_path.glob("T*/*/*/*.json"))
    rewrite(certificate, b'"state": "superseded"', b'"state": "current"')
    assert main(["gate", str(tmp_path)]) == 2
    capsys.readouterr()

    assert main(["gate", str(tmp_path), "--fix"]) == 0

    assert capsys.readouterr().err.splitlines() == sorted([f"fixed {certificate}", f"fixed {page}"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_fix_mends_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid(tmp_path)
    certificate = next(tmp_path.glob("T*/*/*/*.json"))
    rewrite(certificate, b'"overall": "pass"', b'"overall": "stop"')
    held = certificate.read_bytes()

    assert main(["gate", str(tmp_path), "--fix"]) == 2
    assert "nothing is fixed" in capsys.readouterr().err
    assert certificate.read_bytes() == held
    assert main(["gate", str(tmp_path / "elsewhere"), "--fix"]) == 4


def test_signers_by_the_command(tmp_path: Path) -> None:
    from harness.wire.sshsig import key_text

    folder, signers = tmp_path / "certificates", tmp_path / "allowed_signers"
    folder.mkdir()
    valid(folder)
    signers.write_text(f"lab-a {key_text(signer().public_key)}\n")
    usual = ["gate", str(folder), "--signers", str(signers), "--at", "2026-06-01T00:00:00Z"]

    assert main(usual) == 0
    assert main([*usual, "--require-signatures"]) == 2
    sign_folder(folder, signer())
    assert main([*usual, "--require-signatures"]) == 0
    revoked = tmp_path / "revoked"
    revoked.write_text(f"{key_text(signer().public_key)}\n")
    assert main([*usual, "--revoked", str(revoked)]) == 2
    assert main(["gate", str(folder), "--require-signatures"]) == 4
    assert main(["gate", str(folder), "--signers", str(tmp_path / "nothing")]) == 4
    assert main([*usual[:-1], "soon"]) == 4


def test_waivers_by_the_command(tmp_path: Path) -> None:
    valid_stop(tmp_path)
    waive(tmp_path, until=LAST)

    assert main(["gate", str(tmp_path), "--require-pass", "--at", "2026-06-01T00:00:00Z"]) == 0
    assert main(["gate", str(tmp_path), "--require-pass", "--at", "2027-01-01T00:00:00Z"]) == 1
