"""The matrix: mutants against scenarios, side by side in a few children, and the clean engine where one was stopped.

Scenarios that are judged by times are met first, in one child, while the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from harness.campaigning.campaign import Campaign, Tell, Write, conduct
from harness.deriving.matrix import MATRIX, STOPPED, is_of_harness, pairs_of, word_of
from harness.engines import registry
from harness.engines.host import EngineHost
from harness.errors import EngineError
from harness.model.decision import CellDecision
from harness.model.evidence import Evidence
from harness.model.scenario import Plan, Scenario
from harness.model.values import Outcome
from harness.mutation.expecting import Expected, cell_of, scaled_suite
from harness.mutation.sources import files_of_mutant
from harness.mutation.trying import crash_in
from harness.mutation.workshops import Workshop, expectations, run_cell, side_by_side, workshops
from harness.pipeline import make_plans, plain

_MOST_CELLS: Final = 2
"""Cells that a mutant meets, until one stops it, of a scenario that does not list it; of one that does, all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a caller chose."""

    mutants: Sequence[str]
    reach: str
    jobs: int
    engine: str
    device: str
    preset: str


def run_matrix(folder: Path, asked: Asked, scenarios: Mapping[str, Scenario], tell: Tell | None = None) -> Campaign:
    """Run the campaign, and write its two files into the run folder.

    Raises:
        UsageError: A mutant does not say what must stop it, or names a cell or a check that does not exist.
        EngineError: The clean engine does not start.
    """
    with workshops(folder, asked.jobs, engine=asked.engine, device=asked.device, preset=asked.preset) as shops:
        expected = {one.id: one for one in expectations(shops[0], asked.mutants)}
        plans = {one.id: cell_of(one, scenarios) for one in expected.values()}
        mutants = [_mutant(one, plans[one.id]) for one in expected.values()]
        listed = [_scenario(one) for one in scenarios.values()]
        pairs = pairs_of(mutants, listed, asked.reach)
        bench = shops[0].become(asked.engine, registry.ENGINES)
        bench.folder = folder
        done = _Count(tell)

        def meet(shop: Workshop, pair: tuple[str, str]) -> Mapping[str, object]:
            one = expected[pair[0]]
            own = [plans[one.id]] if pair[1] == one.scenario else _plans(scenarios[pair[1]], one.id)
            met = _met(shop, one, pair[1], own)
            done.one(len(pairs))
            return met

        def work(write: Write) -> Sequence[EngineHost]:
            for record in (*mutants, *listed):
                write(record)
            told = {str(one["id"]): one for one in mutants}
            timed = {name for name in {name for _, name in pairs} if any(p.timed for p in _plans(scenarios[name], ""))}
            alone = [pair for pair in pairs if pair[1] in timed]
            # these first: the load that was probed at the start is still that of a machine without these jobs
            for at_work, some in (
                ([shops[0].alone()], alone),
                (shops, [pair for pair in pairs if pair[1] not in timed]),
            ):
                stopping: dict[str, str] = {}
                for met in side_by_side(at_work, some, meet):
                    write(met)
                    if word_of(met, told[str(met["mutant"])]) == STOPPED:
                        cells = met["cells"]
                        stopping[str(cells[-1]["cell"] if isinstance(cells, list) else "")] = str(met["scenario"])
                cells = sorted(stopping.items())
                for record in side_by_side(
                    at_work, cells, lambda shop, cell: _sound(shop, scenarios[cell[1]], cell[0])
                ):
                    write(record)
            return [shop.host for shop in shops]

        return conduct(bench, MATRIX, {"reach": asked.reach, "mutants": len(mutants)}, work)


class _Count:
    """Tells how many pairs are done, from several threads."""

    def __init__(self, tell: Tell | None) -> None:
        self._tell, self._lock, self._done = tell, Lock(), 0

    def one(self, whole: int) -> None:
        """One more is done."""
        with self._lock:
            self._done += 1
            if self._tell is not None:
                self._tell(f"pairs of {whole}", self._done)


def _mutant(one: Expected, plan: Plan) -> Mapping[str, object]:
    files = files_of_mutant(one.id)
    return {
        "type": "mutant",
        "id": one.id,
        "fault": one.fault,
        "scenario": one.scenario,
        "cell": plan.selected[0],
        "check": one.check,
        "part": one.part,
        "phase": one.phase,
        "reason": one.reason,
        **({} if files is None else {"files": plain(files)}),
    }


def _scenario(one: Scenario) -> Mapping[str, object]:
    return {"type": "scenario", "id": one.id, "procedure_digest": one.procedure_digest, "faults": list(one.faults)}


def _plans(scenario: Scenario, mutant: str) -> list[Plan]:
    suite = scaled_suite(scenario)
    cells = [cell.id for cell in make_plans([(scenario, [])], suite)[0].cells if not cell.excluded]
    return [
        make_plans([(scenario, [cell])], suite)[0]
        for cell in (cells if mutant in scenario.faults else cells[:_MOST_CELLS])
    ]


def _met(shop: Workshop, one: Expected, scenario: str, plans: Sequence[Plan]) -> Mapping[str, object]:
    """Run a mutant against cells until one stops it."""
    cells: list[Mapping[str, object]] = []
    told = {"scenario": one.scenario, "check": one.check, "part": one.part, "phase": one.phase, "reason": one.reason}
    for plan in plans:
        try:
            evidence, decision = run_cell(shop, one.id, registry.MUTANTS, plan)
            cells.append(_cell(decision, evidence))
        except EngineError as error:
            crash = f"did not start: {type(error).__name__}"
            cells.append({"cell": plan.selected[0], "outcome": "error", "crash": crash, "checks": []})
        if word_of({"scenario": scenario, "cells": cells[-1:]}, told) == STOPPED:
            break
    return {"type": "pair", "mutant": one.id, "scenario": scenario, "cells": cells}


def _cell(decision: CellDecision, evidence: Evidence) -> Mapping[str, object]:
    """Record a cell by its checks that did not pass; those of the harness itself stay out."""
    told = [one for one in decision.checks if one.outcome is not Outcome.PASS and not is_of_harness(one.code)]
    return {
        "cell": decision.id,
        "outcome": str(decision.outcome),
        "crash": crash_in(evidence),
        "checks": [
            {
                "id": one.id,
                "code": one.code,
                "outcome": str(one.outcome),
                "reason": one.reason,
                **{name: str(one.detail.get(name, "")) for name in ("part", "family", "phase")},
            }
            for one in told
        ],
    }


def _sound(shop: Workshop, scenario: Scenario, cell: str) -> Mapping[str, object]:
    """Run the clean engine against a cell."""
    plan = make_plans([(scenario, [cell])], scaled_suite(scenario))[0]
    _, decision = run_cell(shop, shop.engine, registry.ENGINES, plan)
    return {"type": "sound", "scenario": scenario.id, "cell": cell, "outcome": str(decision.outcome)}
