"""Waivers and signatures: what they cover, what they never cover, and that nothing is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import ExitCode, UsageError
from harness.gating import outputs
from harness.gating.gate import gate
from harness.wire import schemas
from tests.gating.fixtures import ids, rewrite, the_event, valid, valid_ledger, valid_stop
from tests.gating.ledger_fixtures import DAY, LAST, all_signed, keyring, signed, the_only, valid_signed, waive


def test_a_waived_finding_is_listed_counted_and_without_weight(tmp_path: Path) -> None:
    valid_stop(tmp_path)
    refused = gate([tmp_path], require_pass=True, day=DAY)
    waive(tmp_path, until=LAST)

    report = gate([tmp_path], require_pass=True, day=DAY)

    assert refused.exit_code is ExitCode.FINDINGS
    assert report.exit_code is ExitCode.GOOD
    assert tuple(one.finding for one in report.waived) == refused.findings
    assert {(one.event, one.until) for one in report.waived} == {(the_event(tmp_path).stem, LAST)}
    shown = outputs.text(report)
    assert f"waived CG010 {the_only(tmp_path)}#/body/" in shown
    assert f"(by event {the_event(tmp_path).stem[:12]}, until {LAST})" in shown
    assert f", {len(refused.findings)} waived\n" in shown
    value = json.loads(outputs.to_json(report))
    schemas.validate(value, "gate.v1", "report")
    assert {one["event"] for one in value["waived"]} == {the_event(tmp_path).stem}


@pytest.mark.parametrize(
    ("day", "fields", "covered"),
    [
        (DAY, {"until": DAY}, True),
        (DAY, {}, True),
        ("2026-06-02", {"until": DAY}, False),
        ("2026-01-08", {"until": LAST}, False),
        (DAY, {"until": LAST, "rule": "CG003"}, False),
    ],
    ids=["its last day", "no end", "the day after", "before it was made", "another rule"],
)
def test_a_waiver_covers_its_rule_for_its_time(
    tmp_path: Path, day: str, fields: dict[str, str], *, covered: bool
) -> None:
    valid_stop(tmp_path)
    waive(tmp_path, **fields)

    report = gate([tmp_path], require_pass=True, day=day)

    assert (report.exit_code is ExitCode.GOOD) is covered
    assert bool(report.waived) is covered


def test_nobody_waives_that_a_record_cannot_be_trusted(tmp_path: Path) -> None:
    valid(tmp_path)
    for rule in ("CG301", "CG502"):
        waive(tmp_path, rule)
    rewrite(next(tmp_path.glob("T*/*/*/README.md")), b"pass", b"stop")

    report = gate([tmp_path], day=DAY)

    assert {finding.rule for finding in report.findings} == {"CG502"}
    assert report.exit_code is ExitCode.INVALID
    assert report.waived == ()


def test_nobody_waives_a_rule_that_broke(tmp_path: Path) -> None:
    from harness.gating.rules import RULES

    def broken(*_: object) -> object:
        raise ZeroDivisionError

    valid_stop(tmp_path)
    waive(tmp_path)
    rules = [rule._replace(certificate=broken) if rule.id == "CG010" else rule for rule in RULES]  # type: ignore[arg-type]

    report = gate([tmp_path], require_pass=True, day=DAY, rules=rules)

    assert report.exit_code is ExitCode.BROKEN
    assert report.waived == ()


def test_a_waiver_covers_no_other_certificate(tmp_path: Path) -> None:
    valid_ledger(tmp_path)
    waive(tmp_path)
    valid_stop(tmp_path / "other")

    report = gate([tmp_path / "other", tmp_path], require_pass=True, day=DAY)

    assert report.exit_code is not ExitCode.GOOD
    assert report.waived == ()


def test_an_ended_waiver_is_a_finding_until_it_is_renewed_or_not_asked_for(tmp_path: Path) -> None:
    valid_stop(tmp_path)
    waive(tmp_path, until="2026-05-31")

    assert gate([tmp_path], day=DAY).exit_code is ExitCode.GOOD
    found = gate([tmp_path], require_pass=True, day=DAY)
    assert {one.rule for one in found.findings} == {"CG003", "CG010"}
    assert found.exit_code is ExitCode.FINDINGS
    waive(tmp_path, until=LAST, created="2026-05-31T00:00:00Z")
    renewed = gate([tmp_path], require_pass=True, day=DAY)
    assert (renewed.exit_code, renewed.findings) == (ExitCode.GOOD, ())


def test_an_ended_waiver_of_a_superseded_certificate_is_history(tmp_path: Path) -> None:
    valid_ledger(tmp_path)
    waive(tmp_path, until="2026-02-01", created="2026-01-31T00:00:00Z")

    assert ids(tmp_path)
    assert gate([tmp_path], require_pass=True, day=DAY).exit_code is ExitCode.GOOD


def test_signatures_that_count_are_no_finding_and_missing_ones_only_where_required(tmp_path: Path) -> None:
    valid_signed(tmp_path)

    assert gate([tmp_path], **all_signed()).findings == ()
    next(tmp_path.glob("ledger/*/*.sig")).unlink()
    assert gate([tmp_path], **signed()).findings == ()
    missing = gate([tmp_path], **all_signed())
    assert [one.rule for one in missing.findings] == ["CG901"]
    assert missing.exit_code is ExitCode.INVALID


def test_no_signature_is_looked_at_without_signers(tmp_path: Path) -> None:
    valid_signed(tmp_path)
    first, second, *_ = sorted(tmp_path.glob("T*/*/*/*.json.sig"))
    first.write_bytes(second.read_bytes())

    report = gate([tmp_path])

    assert report.findings == ()
    assert "CG901" not in report.rules
    assert "CG901" in gate([tmp_path], keyring=keyring()).rules
    with pytest.raises(UsageError, match="whose"):
        gate([tmp_path], require_signatures=True)
