"""One mutant against whole scenarios: those that claim to stop it, or any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.engines import registry
from harness.model.decision import CellDecision
from harness.model.evidence import Evidence
from harness.model.scenario import Scenario
from harness.model.values import Outcome
from harness.mutation.expecting import Expected, scaled_suite
from harness.mutation.trying import REFUSED, crash_in, found_of
from harness.mutation.workshops import Workshop, run_cell
from harness.pipeline import make_plans

_CONTROLS: Final = "CTRL."
_HARNESS: Final = frozenset({"REPEAT.COLD@1", "RUN.FINISHED@1"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Cross:
    """One mutant against one scenario."""

    mutant: str
    scenario: str
    word: str
    """``stopped``, ``survived``, ``refused``, ``crash`` or ``error``."""
    by: str
    """Cell and check that stopped it, or what else happened."""


def claims(wanted: Sequence[Expected], scenarios: Mapping[str, Scenario]) -> list[tuple[Expected, Scenario]]:
    """Return mutants with the scenarios that list them among the faults that they must stop."""
    return [(one, scenario) for one in wanted for scenario in scenarios.values() if one.id in scenario.faults]


def cross(shop: Workshop, expected: Expected, scenario: Scenario) -> Cross:
    """Run a mutant against the cells of a scenario, until one of them stops it.

    A refusal counts only where the fault itself is that the engine refuses.

    Raises:
        StatecertError: The harness could not go on.
    """
    suite = scaled_suite(scenario)
    whole = make_plans([(scenario, [])], suite)[0]
    best = Cross(mutant=expected.id, scenario=scenario.id, word="survived", by="")
    for cell in whole.cells:
        if cell.excluded:
            continue
        plan = make_plans([(scenario, [cell.id])], suite)[0]
        evidence, decision = run_cell(shop, expected.id, registry.MUTANTS, plan)
        word, by = _crossed(decision, evidence, refuses=expected.reason == REFUSED)
        if word == "stopped":
            return replace(best, word=word, by=by)
        if best.word == "survived":
            best = replace(best, word=word, by=by)
    return best


def _crossed(decision: CellDecision, evidence: Evidence, *, refuses: bool) -> tuple[str, str]:
    asked = [one for one in decision.checks if not one.code.startswith(_CONTROLS) and one.code not in _HARNESS]
    failed = [one for one in asked if one.outcome is Outcome.FAIL]
    strong = next((one for one in failed if refuses or one.reason != REFUSED), None)
    if crash := crash_in(evidence):
        return "crash", f"{decision.id} {crash}"
    if strong is not None:
        return "stopped", f"{decision.id} {strong.id}: {found_of(strong)}"
    if failed:
        return "refused", f"{decision.id} {failed[0].id}"
    if decision.outcome is Outcome.PASS:
        return "survived", ""
    worst = next((one for one in decision.checks if one.outcome is not Outcome.PASS), None)
    return "error", f"{decision.id} {worst.id}: {worst.reason}" if worst else f"{decision.id} {decision.reason}"
