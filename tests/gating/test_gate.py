"""How findings become an exit code, and what a gate run counts and lists."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.errors import ExitCode, UsageError
from harness.gating import gate as gating
from harness.gating.folder import Entry
from harness.gating.gate import gate
from harness.gating.rule import Problem, Problems, Rule
from harness.gating.rules import RULES
from harness.model.certificate import GateReport
from tests.fakes.evidence import recorded
from tests.gating.all_fixtures import FIXTURES
from tests.gating.fixtures import KEY, certificates, only, the_scenario, valid, valid_ledger, valid_stop

ANY = RULES[0]


def rule(name: str, code: ExitCode, severity: str = "error") -> Rule:
    """A rule that has a finding for every file."""

    def check(_: Entry) -> Problems:
        yield Problem("", "found")

    return ANY._replace(id=name, exit_code=code, severity=severity, folder=None, entry=check)


def broken(name: str) -> Rule:
    """A rule with a bug, after a finding that stands."""

    def check(_: Entry) -> Problems:
        yield Problem("", "seen before the bug")
        raise KeyError(name)

    return ANY._replace(id=name, exit_code=ExitCode.FINDINGS, folder=None, entry=check)


def test_an_empty_folder_is_nothing_to_check(tmp_path: Path) -> None:
    assert gate([tmp_path]).exit_code is ExitCode.NOTHING


def test_an_empty_folder_beside_a_valid_one_is_not_green(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    valid(tmp_path / "full")

    assert gate([tmp_path / "full", tmp_path / "empty"]).exit_code is ExitCode.NOTHING


@pytest.mark.parametrize("names", [[], ["nowhere"]])
def test_no_folder_is_a_usage_error(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UsageError):
        gate([tmp_path / name for name in names])


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        ([ExitCode.NOTHING, ExitCode.FINDINGS], ExitCode.FINDINGS),
        ([ExitCode.FINDINGS, ExitCode.INVALID], ExitCode.INVALID),
        ([ExitCode.INVALID, ExitCode.NOTHING], ExitCode.INVALID),
        ([ExitCode.BROKEN, ExitCode.INVALID, ExitCode.FINDINGS], ExitCode.BROKEN),
    ],
)
def test_the_worst_finding_decides(tmp_path: Path, codes: list[ExitCode], wanted: ExitCode) -> None:
    valid(tmp_path)

    report = gate([tmp_path], rules=[rule(f"CG90{number}", code) for number, code in enumerate(codes)])

    assert report.exit_code is wanted
    assert report.findings[0].exit_code is wanted


def test_a_note_never_changes_the_exit_code(tmp_path: Path) -> None:
    valid(tmp_path)

    report = gate([tmp_path], rules=[rule("CG900", ExitCode.INVALID, severity="note")])

    assert report.findings
    assert report.exit_code is ExitCode.GOOD


def test_a_rule_that_breaks_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    valid(tmp_path)

    report = gate([tmp_path], rules=[broken("CG900"), rule("CG901", ExitCode.INVALID)])

    assert report.exit_code is ExitCode.BROKEN
    assert "KeyError" in report.findings[0].message
    assert report.findings[0].rule == "CG900"
    assert {finding.message for finding in report.findings if finding.rule == "CG900"} > {"seen before the bug"}
    assert "CG901" in {finding.rule for finding in report.findings}


def test_findings_beyond_the_limit_are_counted_and_still_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid(tmp_path)
    monkeypatch.setattr(gating, "MAX_FINDINGS", 2)

    report = gate([tmp_path], rules=[rule("CG900", ExitCode.FINDINGS), rule("CG901", ExitCode.INVALID)])

    assert report.exit_code is ExitCode.INVALID
    assert sum("more findings" in finding.message for finding in report.findings) == 2


def test_a_stop_is_listed_and_refused_only_on_request(tmp_path: Path) -> None:
    valid_stop(tmp_path)

    lenient, strict = gate([tmp_path]), gate([tmp_path], require_pass=True)

    assert lenient.exit_code is ExitCode.GOOD
    assert [stop.endswith(": stop") for stop in lenient.stops] == [True]
    assert strict.exit_code is ExitCode.FINDINGS
    assert lenient.outcomes == {"excluded": 1, "fail": 1}


def test_excluded_cells_are_not_asked_to_pass(tmp_path: Path) -> None:
    valid(tmp_path)

    report = gate([tmp_path], require_pass=True)

    assert report.exit_code is ExitCode.GOOD
    assert report.outcomes == {"excluded": 1, "pass": 1}


def test_superseded_stops_are_neither_listed_nor_counted(tmp_path: Path) -> None:
    valid_ledger(tmp_path)

    report = gate([tmp_path], require_pass=True)

    assert report.exit_code is ExitCode.GOOD
    assert (report.certificates, report.evidence_files, report.events) == (3, 3, 1)
    assert report.outcomes == {"excluded": 2, "pass": 2}


def test_a_draft_is_listed_and_counts_as_not_passed(tmp_path: Path) -> None:
    FIXTURES["draft"].build(tmp_path)

    lenient, strict = gate([tmp_path]), gate([tmp_path], require_pass=True)

    assert lenient.exit_code is ExitCode.GOOD
    assert lenient.stops[0].endswith("draft, not judged")
    assert strict.exit_code is ExitCode.FINDINGS


def test_an_invalid_record_outweighs_a_stop(tmp_path: Path) -> None:
    valid_stop(tmp_path)
    only(tmp_path).chmod(0o755)

    assert gate([tmp_path], require_pass=True).exit_code is ExitCode.INVALID


def test_folders_are_judged_each_on_its_own(tmp_path: Path) -> None:
    valid(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")

    assert gate([tmp_path / "one", tmp_path / "two"]).exit_code is ExitCode.GOOD


def test_the_same_folder_gives_the_same_report(tmp_path: Path) -> None:
    FIXTURES["null_in_event"].build(tmp_path)

    assert gate([tmp_path]) == gate([tmp_path])


def test_every_valid_certificate_of_a_folder_is_looked_at(tmp_path: Path) -> None:
    valid_ledger(tmp_path)
    seen: list[str] = []

    def check(subject: object) -> Problems:
        seen.append(str(getattr(subject, "id", "")))
        return ()

    report: GateReport = gate([tmp_path], rules=[ANY._replace(folder=None, certificate=check)])

    assert report.rules == ("CG001",)
    assert len(set(seen)) == len(certificates(tmp_path)) == 3


def test_a_linked_folder_inside_is_not_followed(tmp_path: Path) -> None:
    valid(tmp_path / "certificates")
    (tmp_path / "certificates" / "loop").symlink_to(tmp_path / "certificates")

    report = gate([tmp_path / "certificates"])

    assert {finding.rule for finding in report.findings} == {"CG103"}
    assert report.certificates == 1


def test_a_folder_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    valid(tmp_path)

    with pytest.raises(UsageError):
        gate([tmp_path / KEY / "README.md"])


def test_no_two_made_up_runs_share_their_observations() -> None:
    first, *others = (recorded(the_scenario(), run=run) for run in (1, 2, 1001, 2001))
    assert all(other.observations != first.observations for other in others)
