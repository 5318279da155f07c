"""Certificates folders whose ledger does not hold together, or is not what the status was made of.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.certifying.issue import issue
from harness.certifying.ledger import regenerate, supersede_event, write_event
from harness.certifying.store import read_store
from harness.model.evidence import Trust
from harness.wire import canonical
from tests.fakes.evidence import recorded, scenario
from tests.gating.fixtures import (
    KEY,
    NOBODY,
    SCENARIO,
    a_run,
    a_run_elsewhere,
    add_event,
    certificates,
    file_run,
    fixture,
    ids,
    only,
    rewrite,
    the_event,
    valid,
    valid_ledger,
    valid_stop,
)


@fixture("CG501")
def event_without_target(folder: Path) -> None:
    valid(folder)
    add_event(folder, target=NOBODY)


@fixture("CG501")
def event_without_successor(folder: Path) -> None:
    valid(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    add_event(folder, kind="supersede", target=ids(folder)[0], by=NOBODY)


@fixture("CG501")
def ledger_circle(folder: Path) -> None:
    valid_ledger(folder)
    old, new = ids(folder)[:2]
    add_event(folder, kind="supersede", target=new, by=old)


@fixture("CG501")
def differs_wrong(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    file_run(folder, a_run(2, 2))
    old, new = ids(folder)
    add_event(folder, kind="supersede", target=old, by=new, differs=("subject.model.digest",))


@fixture("CG501")
def withdrawn_twice(folder: Path) -> None:
    valid(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    for hour in (1, 2):
        add_event(folder, target=ids(folder)[0], created=f"2026-01-09T0{hour}:00:00Z")


@fixture("CG501")
def event_of_a_day_to_come(folder: Path) -> None:
    """A reinstate that no later withdraw can answer, since events are read by their times."""
    valid(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    add_event(folder, target=ids(folder)[0])
    add_event(folder, kind="reinstate", target=ids(folder)[0], created="2999-01-09T00:00:00Z")


@fixture("CG501")
def stop_withdrawn(folder: Path) -> None:
    valid_stop(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    add_event(folder, target=ids(folder)[0])


@fixture("CG501")
def stop_behind_a_chain(folder: Path) -> None:
    valid_stop(folder)
    for day in (2, 3):
        issue(a_run(day, day).data(), folder)
    issue(a_run_elsewhere(4, 4).data(), folder)
    add_event(folder, target=ids(folder)[2])


@fixture("CG501")
def failed_cell_not_run_again(folder: Path) -> None:
    text = SCENARIO.replace(b"{at: [1, 2]}", b"{at: [1, 2, 3]}").replace(b"{at: 2}", b"{at: [1, 2]}")
    other_cells = recorded(scenario(text), run=2, day=2)
    valid_stop(folder)
    file_run(folder, other_cells)
    old, new = read_store(folder).of_claim(KEY)
    event = supersede_event(old, new, "2026-01-09T00:00:00Z")
    write_event(folder, event)
    regenerate(folder, KEY)


@fixture("CG502")
def status_edited(folder: Path) -> None:
    valid_ledger(folder)
    old = next(path for path in certificates(folder) if b'"superseded"' in path.read_bytes())
    value = json.loads(old.read_bytes())
    value["status"] = {"state": "current", "events": []}
    old.write_bytes(canonical.render(value))


@fixture("CG502", "CG503")
def event_deleted(folder: Path) -> None:
    valid_ledger(folder)
    the_event(folder).unlink()


@fixture("CG502")
def readme_edited(folder: Path) -> None:
    valid_ledger(folder)
    rewrite(folder / KEY / "README.md", b"superseded", b"current")


@fixture("CG502")
def readme_missing(folder: Path) -> None:
    valid(folder)
    (folder / KEY / "README.md").unlink()


@fixture("CG502")
def readme_of_nothing(folder: Path) -> None:
    valid(folder)
    (folder / "README.md").write_text("# All certificates passed\n")


@fixture("CG503")
def two_current(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    file_run(folder, a_run(2, 2))


@fixture("CG504", "CG502")
def stop_hidden_by_hand(folder: Path) -> None:
    valid_stop(folder)
    value = json.loads(only(folder).read_bytes())
    value["status"] = {"state": "withdrawn", "events": []}
    only(folder).write_bytes(canonical.render(value))


@fixture("CG602")
def unknown_algorithm(folder: Path) -> None:
    run = a_run()
    told = [replace(one, algorithm="md5-part-v1") if isinstance(one, Trust) else one for one in run.observations]
    file_run(folder, replace(run, observations=tuple(told)))
