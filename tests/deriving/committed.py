"""A committed cell of every scenario of the default suite, for tests that change what was seen in it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from harness.certifying.store import read_evidence as bytes_of_evidence
from harness.model.evidence import Evidence, Observation, PartTable, Point, StepRecord, Trust, Turn
from harness.model.noun import replace
from harness.model.values import CellId
from harness.wire.evidence_doc import read_evidence

CERTIFICATES = Path(__file__).parents[2] / "certificates"


def alone(evidence: Evidence, cell: CellId) -> Evidence:
    """Return the evidence of one cell."""
    tables = {one.root: one for one in evidence.observations if isinstance(one, PartTable)}
    here = [one for one in evidence.observations if getattr(one, "cell", "") == cell]
    ran = {one.process for one in here if isinstance(one, Turn)}
    ran |= {int(one.detail.get("process", 0)) for one in here if isinstance(one, StepRecord)}
    seen: list[Observation] = []
    written: set[str] = set()
    for one in evidence.observations:
        if isinstance(one, PartTable) or getattr(one, "cell", cell) != cell:
            continue
        if isinstance(one, Trust) and one.child not in ran:
            continue
        if isinstance(one, Point) and one.root not in written:
            written.add(one.root)
            seen.append(tables[one.root])
        seen.append(one)
    return replace(evidence, header=replace(evidence.header, selected=(cell,)), observations=tuple(seen))


def committed_cell(scenario: str) -> tuple[Evidence, CellId]:
    """Return the evidence of a scenario's :func:`committed` cell, and nothing else."""
    digest, cell = committed()[scenario]
    return alone(read_evidence(bytes_of_evidence(CERTIFICATES, digest), scenario), cell), cell


@cache
def committed() -> dict[str, tuple[str, CellId]]:
    """Return evidence and smallest passing cell of each scenario of the default suite, on the embedded engine."""
    found: dict[str, tuple[str, CellId]] = {}
    for path in sorted(CERTIFICATES.glob("*/torch-tiny/*/*.json")):
        body = json.loads(path.read_bytes())["body"]
        passing = [cell for cell in body.get("cells", ()) if cell["outcome"] == "pass"]
        if body["kind"] == "qualification" and passing:
            least = min(passing, key=lambda cell: len(cell["turns"]))
            found[body["scenario"]["id"]] = body["run"]["evidence"]["sha256"], CellId(least["id"])
    return found
