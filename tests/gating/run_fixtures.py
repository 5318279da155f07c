"""Certificates of runs that none may rest on: other procedures, changed trees, partial runs, private words.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.certifying.store import read_evidence as bytes_of_evidence
from harness.model.evidence import CellEvent, StepRecord, Turn
from harness.model.values import CellId, Sha256
from harness.wire.evidence_doc import read_evidence
from tests.fakes.evidence import Recorded, recorded, scenario
from tests.gating.fixtures import HOME, SCENARIO, VALID, Body, a_run, edited, file_run, fixture


@fixture("CG603")
def another_procedure(folder: Path) -> None:
    file_run(folder, recorded(scenario(SCENARIO.replace(b"id: T02", b"id: A01"))))


FORMER = Sha256("c3983bd970b1b87bfeea74b1db61082f9bfa9e76d9fc225bf7c75b31f57f911a")
"""Evidence of a run of F15, by a procedure that it had then."""


def a_former_run(created: str = "", finished: str = "") -> Recorded:
    """A committed run by a former procedure of its scenario, begun on any day; by default on its own."""
    certificates = Path(__file__).parents[2] / "certificates"
    held = read_evidence(bytes_of_evidence(certificates, FORMER), "F15")
    assert held.end is not None
    run = Recorded(header=held.header, observations=tuple(held.observations), finished=held.end.finished)
    return run.with_header(created=created).with_end(finished) if created else run


def valid_former(folder: Path) -> None:
    """A run by the procedure that its scenario had on that day."""
    file_run(folder, a_former_run())


VALID.update(valid_former=valid_former)


@fixture("CG603")
def former_procedure_after_its_end(folder: Path) -> None:
    """Somebody runs the scenario's file of last month, whose controls are fewer, and certifies what comes of it."""
    file_run(folder, a_former_run("2027-01-01T08:00:00Z", "2027-01-01T09:00:00Z"))


@fixture("CG604")
def dirty_tree(folder: Path) -> None:
    file_run(folder, a_run().with_header(source={**a_run().header.source, "tree": "dirty"}))


@fixture("CG604")
def mutant(folder: Path) -> None:
    file_run(folder, a_run().with_target(group="harness.mutants"))


@fixture("CG604")
def forked(folder: Path) -> None:
    environment = dict(a_run().header.environment)
    facts = environment["facts"]
    assert isinstance(facts, Mapping)
    file_run(folder, a_run().with_header(environment={**environment, "facts": {**facts, "children": "forked"}}))


@fixture("CG604")
def partial_run(folder: Path) -> None:
    file_run(folder, a_run().with_header(selected=(a_run().header.selected[0],)))


@fixture("CG604")
def interrupted(folder: Path) -> None:
    file_run(folder, replace(a_run(), interrupted=True))


@fixture("CG604")
def nothing_ran(folder: Path) -> None:
    absent = CellEvent(cell=CellId("T02[scale=16,at=1]"), event="not_run", reason="hardware_absent")
    file_run(folder, replace(a_run(), observations=(absent,)))


@fixture("CG701", "CG301")
def cell_dropped(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"].pop()
        body["totals"].update({"planned": 1, "excluded": 0})

    edited(folder, change)


@fixture("CG701", "CG301")
def cell_twice(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"].append(body["cells"][0])
        body["totals"].update({"planned": 3, "pass": 2})

    edited(folder, change)


@fixture("CG701", "CG301")
def axis_shortened(folder: Path) -> None:
    def change(body: Body) -> None:
        body["axes"][1]["values"].pop()

    edited(folder, change)


@fixture("CG701", "CG301")
def cell_excluded_by_hand(folder: Path) -> None:
    def change(body: Body) -> None:
        passed, excluded = body["cells"]
        excluded.update({"outcome": "not_run", "reason": "hardware_absent"})
        body["totals"].update({"excluded": 0, "not_run": 1})
        body["decision"]["overall"] = "inconclusive"
        assert passed["outcome"] == "pass"

    edited(folder, change)


@fixture("CG903")
def path_in_evidence(folder: Path) -> None:
    run = a_run()
    turn = next(one for one in run.observations if isinstance(one, Turn))
    told = StepRecord(
        cell=turn.cell, arm="warm", rep=0, label="first", kind="run", ended="done", detail={"library": HOME}
    )
    file_run(folder, replace(run, observations=(*run.observations, told)))


@fixture("CG903")
def path_in_body(folder: Path) -> None:
    file_run(folder, a_run().with_target(identity={"library": HOME}))
