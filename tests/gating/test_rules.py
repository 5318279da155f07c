"""Every rule fires on its failing folders, and only it stands between them and a green end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from harness.certifying.issue import issue
from harness.errors import ExitCode
from harness.gating import outputs
from harness.gating.gate import gate
from harness.gating.kinds import KINDS, applies, kinds_of
from harness.gating.rule import Problem, Rule, Subject
from harness.gating.rules import RULES, asked_for
from harness.model import moments
from harness.model.certificate import GateReport
from harness.wire import schemas
from tests.fakes.campaign import flown
from tests.fakes.selfcheck import self_tested
from tests.gating import campaign_fixtures, foreign_fixtures
from tests.gating.all_fixtures import ASKED, FIXTURES, VALID, Fixture
from tests.gating.fixtures import a_failing_run, good_body, valid

BY_ID = {rule.id: rule for rule in RULES}


def fired(report: GateReport) -> set[str]:
    return {finding.rule for finding in report.findings}


def without(*ids: str) -> Sequence[Rule]:
    return [rule for rule in RULES if rule.id not in ids]


@pytest.mark.parametrize("name", VALID)
def test_a_valid_folder_has_no_finding(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    VALID[name](folder)

    report = gate([folder], **(ASKED[name](folder) if name in ASKED else {}))

    assert report.findings == ()
    assert report.exit_code is ExitCode.GOOD


@pytest.mark.parametrize("fixture", FIXTURES.values(), ids=FIXTURES)
def test_a_rule_fires_and_without_it_the_folder_would_pass(fixture: Fixture, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    fixture.build(folder)

    asked = {"require_pass": fixture.require_pass, **fixture.options(), **fixture.about(folder)}
    whole = gate([folder], **asked)
    alone = gate([folder], **asked, rules=without(*fixture.besides))
    disabled = gate([folder], **asked, rules=without(fixture.rule, *fixture.besides))

    assert fixture.rule in fired(whole)
    assert fired(whole) <= {fixture.rule, *fixture.besides}
    assert fired(alone) == {fixture.rule}
    assert alone.exit_code is BY_ID[fixture.rule].exit_code
    assert disabled.exit_code is ExitCode.GOOD
    assert ExitCode.BROKEN not in {finding.exit_code for finding in whole.findings}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.id))
def test_a_rule_names_its_fixtures_and_explains_itself(rule: Rule) -> None:
    own = sorted(one.name for one in FIXTURES.values() if one.rule == rule.id)

    assert sorted(rule.failing) == own
    assert own
    assert rule.passing in VALID
    assert re.fullmatch(r"CG[0-9]{3}", rule.id)
    assert all(text.strip() for text in (rule.text, rule.pain, rule.hint))


def test_the_table_is_sorted_and_has_one_file_for_each_rule() -> None:
    folder = Path(__file__).parents[2] / "harness" / "gating" / "rules"
    files = sorted(path.stem.upper() for path in folder.glob("cg*.py"))

    assert [rule.id for rule in RULES] == files


def test_rules_that_an_option_asks_for_run_with_it_and_no_others() -> None:
    options = {rule.option for rule in RULES} - {""}

    assert asked_for(options) == list(RULES)
    assert asked_for(()) == [rule for rule in RULES if not rule.option]
    for option in options:
        assert asked_for({option}) == [rule for rule in RULES if rule.option in ("", option)]


def test_the_first_differing_path_is_named(tmp_path: Path) -> None:
    FIXTURES["edited_with_digests"].build(tmp_path)

    (finding,) = gate([tmp_path]).findings

    assert finding.where.endswith(".json#/body/subject/model/digest")
    assert "b3b3" in finding.message
    assert "b2b2" in finding.message


def test_a_judge_that_calls_everything_equal_does_not_fool_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate's own rules look at part tables themselves: a bug in ``derive_body`` is not its own alibi."""
    FIXTURES["differing_part_passes"].build(tmp_path)
    body = good_body()
    body["run"]["evidence"]["sha256"] = a_failing_run().evidence().sha256
    monkeypatch.setattr("harness.gating.gate.derive_body", lambda _: body)

    report = gate([tmp_path], rules=without("CG301"))

    assert fired(report) == {"CG307"}
    assert report.exit_code is ExitCode.INVALID


def test_evidence_that_breaks_the_judge_is_exit_3_and_not_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    valid(tmp_path)
    monkeypatch.setattr("harness.gating.gate.derive_body", broken)

    report = gate([tmp_path])

    assert report.exit_code is ExitCode.BROKEN
    assert [(one.rule, "ZeroDivisionError" in one.message) for one in report.findings] == [("CG301", True)]


def test_every_kind_of_certificate_has_its_own_rules_and_the_table_shows_them() -> None:
    kinds = schemas.schema("certificate.v1")["$defs"]["body"]["properties"]["kind"]["enum"]  # type: ignore[index]

    assert list(KINDS) == kinds
    assert {rule for own in KINDS.values() for rule in own} <= set(BY_ID)
    assert all(KINDS.values())
    assert (kinds_of("CG307"), kinds_of("CG310"), kinds_of("CG301")) == (["qualification"], ["campaign"], [*KINDS])
    assert kinds_of("CG312") == ["harness"]
    assert "asked of:   campaign certificates" in outputs.explain("CG310")
    assert re.search(r"CG302 .* qualification ", outputs.rules_table())


def test_every_rule_that_a_kind_has_runs_on_its_certificates(tmp_path: Path) -> None:
    campaign_fixtures.valid_campaign(tmp_path)
    issue(self_tested().data(), tmp_path)
    issue(foreign_fixtures.a_record().data(), tmp_path)
    asked: dict[str, set[str]] = {}

    def noting(rule: Rule) -> Rule:
        def check(subject: Subject) -> Sequence[Problem]:
            asked.setdefault(str(subject.body["kind"]), set()).add(rule.id)
            return ()

        return rule._replace(entry=None, document=None, folder=None, certificate=check)

    ran = gate([tmp_path], rules=[noting(rule) for rule in RULES]).rules

    assert asked == {kind: {rule for rule in ran if applies(rule, kind)} for kind in KINDS}


@pytest.mark.parametrize("build", [campaign_fixtures.valid_campaign_stop, campaign_fixtures.valid_campaign_error])
def test_a_campaign_that_is_no_pass_is_listed_and_refused_only_on_request(build: object, tmp_path: Path) -> None:
    assert callable(build)
    build(tmp_path)

    lenient, demanding = gate([tmp_path]), gate([tmp_path], require_pass=True)

    assert lenient.exit_code is ExitCode.GOOD
    assert len(lenient.stops) == 1
    assert demanding.exit_code is ExitCode.FINDINGS


def test_a_campaign_of_which_nothing_is_known_is_not_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign_fixtures.valid_campaign(tmp_path)
    monkeypatch.setattr("harness.gating.campaigns.QUESTIONS", {})

    assert fired(gate([tmp_path])) == {"CG310", "CG311"}


def test_any_changed_byte_of_a_campaign_ends_in_2(tmp_path: Path) -> None:
    issue(flown(flips=1, kinds=("bf16",)).data(), tmp_path)
    [certificate], [evidence] = tmp_path.glob("faults/*/*/*.json"), tmp_path.glob("evidence/*.jsonl")
    for path in (certificate, evidence):
        data = path.read_bytes()
        for place in range(0, len(data), 31):
            changed = bytearray(data)
            changed[place] ^= 1
            path.write_bytes(changed)
            assert gate([tmp_path]).exit_code is ExitCode.INVALID, (path.name, place)
        path.write_bytes(data)
    assert gate([tmp_path]).exit_code is ExitCode.GOOD


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1900, 2000, 2023, 2024, 9999])
def test_a_time_of_a_run_is_the_moment_that_the_calendar_has(year: int) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    for month, day, clock in product(range(14), (0, 1, 28, 29, 30, 31, 32), ("00:00:00", "23:59:59.25")):
        text = f"{year:04d}-{month:02d}-{day:02d}T{clock}Z"
        try:
            since = datetime.fromisoformat(text) - first
        except ValueError:
            assert moments.moment(text) is None
        else:
            whole = (since.days * 86_400 + since.seconds) * 1_000_000_000
            assert moments.moment(text) == whole + since.microseconds * 1000
