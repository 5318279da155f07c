"""Pages and states that the producer writes are those that the gate makes again, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.certifying.ledger import regenerate, reinstate, withdraw
from harness.errors import ExitCode
from harness.gating.gate import gate
from harness.model.values import ReasonCode
from tests.gating.fixtures import KEY, a_run, add_event, file_run, ids, valid, valid_ledger


@pytest.mark.parametrize("reason", list(ReasonCode))
def test_every_reason_is_worded_alike(tmp_path: Path, reason: ReasonCode) -> None:
    valid_ledger(tmp_path)
    withdraw(tmp_path, ids(tmp_path)[1], reason, "2026-02-01T00:00:00Z")

    report = gate([tmp_path])

    assert report.exit_code is ExitCode.GOOD
    assert sum(report.outcomes.values()) == 2


def test_every_kind_of_event_is_told_alike(tmp_path: Path) -> None:
    valid_ledger(tmp_path)
    first, second, _ = ids(tmp_path)
    withdraw(tmp_path, second, ReasonCode.HARNESS_BUG, "2026-02-01T00:00:00Z")
    reinstate(tmp_path, first, ReasonCode.RECORD_ERROR, "2026-02-02T00:00:00Z")
    add_event(tmp_path, kind="waive", target=first, created="2026-02-03T00:00:00Z", rule="CG601")
    add_event(tmp_path, kind="annotate", target=first, created="2026-02-03T00:00:00Z", note="seen by the lab")

    report = gate([tmp_path])

    assert report.findings == ()
    assert (report.events, report.exit_code) == (5, ExitCode.GOOD)


def test_what_differs_and_what_was_dropped_is_told_alike(tmp_path: Path) -> None:
    valid(tmp_path)
    changed = a_run(2, 2).with_target(
        device={f"fact_{number}": number for number in range(12)}, engine_version="2.0", model_digest="b4" * 32
    )
    file_run(tmp_path, changed)
    from harness.certifying.ledger import supersede_event, write_event
    from harness.certifying.store import read_store

    old, new = read_store(tmp_path).of_claim(KEY)
    write_event(tmp_path, supersede_event(old, new, "2026-02-01T00:00:00Z"))
    regenerate(tmp_path, KEY)

    report = gate([tmp_path])

    assert report.findings == ()
    assert b"and 7 more" in (tmp_path / KEY / "README.md").read_bytes()
