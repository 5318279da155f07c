"""Runs single cells on the torch engine, varied in one legitimate way, and judges them."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.deriving.judge import judge_cell
from harness.deriving.product import expand, expand_procedure
from harness.model.decision import CellDecision
from harness.model.evidence import Observation, PartTable, Trust
from harness.model.scenario import CellPlan, Plan, Scalar
from harness.model.target import Target
from harness.model.values import Outcome
from harness.pipeline import Bench, available_scenarios, bench
from harness.running.run import OpenRun
from harness.wire.evidence_doc import EvidenceWriter

SCALE = 32


@dataclass
class Seen:
    """One cell that was run."""

    plan: Plan
    cell: CellPlan
    observations: list[Observation]


class Runs:
    """A bench on which cells are run one after another."""

    def __init__(self, up: Bench) -> None:
        self.up = up
        self._number = 0

    def run(self, plan: Plan, coords: Mapping[str, Scalar] | None = None, /, **engine: Scalar) -> Seen:
        """Run the one cell with these labels, with engine options on top of its own."""
        wanted = {"scale": SCALE, **(coords or {})}
        [found] = [cell for cell in plan.cells if all(cell.coords.get(name) == label for name, label in wanted.items())]
        cell = replace(found, engine={**found.engine, **engine})
        self._number += 1
        folder = self.up.folder / f"run{self._number}"
        folder.mkdir()
        seen: list[Observation] = []
        writer = EvidenceWriter(folder / "evidence.jsonl", self.up.header(plan))
        run = OpenRun(self.up.host, writer, folder=folder, progress=seen.append)
        run.run(cell)
        run.close()
        shutil.rmtree(folder)
        return Seen(plan=plan, cell=cell, observations=seen)

    def judged(self, seen: Seen) -> CellDecision:
        """Judge what was seen."""
        tables = {one.root: one for one in seen.observations if isinstance(one, PartTable)}
        mine = [one for one in seen.observations if not isinstance(one, (PartTable, Trust))]
        return judge_cell(self.up.header(seen.plan), seen.cell, mine, tables, interrupted=False)[1]

    def passes(self, plan: Plan, coords: Mapping[str, Scalar] | None = None, /, **engine: Scalar) -> None:
        """Run a cell and insist that it passes."""
        insist(self.judged(self.run(plan, coords, **engine)))


def insist(decision: CellDecision) -> None:
    faults = [(one.id, one.outcome, one.reason, dict(one.detail)) for one in decision.checks if one.reason]
    assert (decision.outcome, decision.reason, faults) == (Outcome.PASS, "", [])


@contextmanager
def torch_runs(folder: Path) -> Iterator[Runs]:
    """A bench of the torch engine on the device ``cpu``, named as such."""
    target = Target(name="torch-cpu", adapter="torch", device="cpu", options={"preset": "tiny"})
    with bench(target, folder) as up:
        yield Runs(up)


def scenario_plan(name: str) -> Plan:
    """Return the plan of a scenario that travels with the package."""
    return expand(available_scenarios()[name], [SCALE])


def small_plan(
    prompts: Mapping[str, object], warm: Sequence[object], cached: object, *, decode: int | None = None
) -> Plan:
    """Return a plan of its own: prompt A cold, the given steps warm (one of them labelled ``again``), a control."""
    procedure: dict[str, Any] = {
        "observability": "parts",
        "requires": ["parts", "logits", "boundaries", "prefix_cache"],
        "chunk": 8192,
        "engine": {"arch": "hybrid"},
        "axes": {},
        "prompts": dict(prompts),
        "arms": [
            {"id": "cold", "role": "reference", "steps": [{"run": {"prompt": "A", "decode": 8, "as": "a"}}]},
            {"id": "warm", "role": "candidate", "steps": copy.deepcopy(list(warm))},
            {"id": "other", "role": "control", "steps": [{"run": {"prompt": "B", "decode": 8, "as": "b"}}]},
        ],
        "checks": [
            {"id": "cached", "cached": {"at": "warm.again", "equals": cached}},
            {"id": "again", "exact": {"candidate": "warm.again", "reference": "cold.a", "witness": "copied"}},
            {"id": "seen", "seen": {"candidate": "other.b", "reference": "cold.a", "phases": ["prefilled"]}},
        ],
    }
    for step in [step for arm in procedure["arms"] for step in arm["steps"] if decode is not None]:
        step["run"] = {**step["run"], "decode": decode}
    return expand_procedure("Z90", procedure, [SCALE])
