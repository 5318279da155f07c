"""Certificates folders whose names, runs and evidence do not belong together.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.certifying.issue import issue
from harness.certifying.ledger import write_once
from harness.certifying.store import evidence_path
from harness.wire.evidence_doc import read_evidence
from tests.gating.fixtures import (
    NOBODY,
    a_run,
    a_run_elsewhere,
    file_run,
    fixture,
    good_body,
    only,
    rewrite,
    the_event,
    the_evidence,
    valid,
    valid_ledger,
)


@fixture("CG201")
def renamed(folder: Path) -> None:
    valid(folder)
    only(folder).rename(only(folder).with_name("2026-01-01-0123456789ab.json"))


@fixture("CG201", "CG301", "CG502")
def edited_body(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"version": "1.0"', b'"version": "1.1"')


@fixture("CG201")
def renamed_event(folder: Path) -> None:
    valid_ledger(folder)
    the_event(folder).rename(the_event(folder).with_name(f"{NOBODY}.json"))


@fixture("CG201", "CG501", "CG502")
def edited_event(folder: Path) -> None:
    valid_ledger(folder)
    rewrite(the_event(folder), b"rerun_same_inputs", b"measurement_invalid")


@fixture("CG203")
def same_run_twice(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    file_run(folder, a_run_elsewhere(1, 2))


@fixture("CG203", "CG301")
def same_evidence_twice(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    body = good_body()
    body["run"]["run_id"] = f"{9:032x}"
    body["environment"]["machine"] = "c4" * 32
    file_run(folder, a_run(1, 1), body)


@fixture("CG203")
def same_observations_twice(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    again = a_run_elsewhere(2, 2)
    issue(replace(again, observations=a_run(1, 1).observations).data(), folder)


@fixture("CG902")
def ended_before_it_began(folder: Path) -> None:
    edited_times(folder, finished="2026-01-01T07:59:59Z")


@fixture("CG902")
def lasted_too_long(folder: Path) -> None:
    edited_times(folder, finished="2026-01-01T10:00:01Z")


@fixture("CG902")
def no_such_day(folder: Path) -> None:
    edited_times(folder, finished="2026-02-31T09:00:00Z")


def edited_times(folder: Path, finished: str) -> None:
    """A run whose evidence itself has times that cannot be."""
    file_run(folder, a_run().with_end(finished))


@fixture("CG204")
def evidence_missing(folder: Path) -> None:
    valid(folder)
    the_evidence(folder).unlink()


@fixture("CG204")
def evidence_appended(folder: Path) -> None:
    valid(folder)
    the_evidence(folder).write_bytes(the_evidence(folder).read_bytes() + b"{}")


@fixture("CG204")
def evidence_line_dropped(folder: Path) -> None:
    valid(folder)
    lines = the_evidence(folder).read_bytes().splitlines(keepends=True)
    the_evidence(folder).write_bytes(b"".join(lines[:-3] + lines[-1:]))


@fixture("CG204")
def evidence_cut_off(folder: Path) -> None:
    file_run(folder, replace(a_run(), closed=False), good_body())


@fixture("CG204", "CG301")
def evidence_exchanged(folder: Path) -> None:
    valid(folder)
    the_evidence(folder).write_bytes(a_run(2, 1).data())


@fixture("CG204")
def orphan_evidence(folder: Path) -> None:
    valid(folder)
    data = a_run(2, 2).data()
    write_once(folder / evidence_path(read_evidence(data, "").sha256), data)
