"""What mutants say of themselves: which ones there are, their fault, and the check that must stop each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from harness.engines import registry
from harness.errors import NothingToDoError, UsageError
from harness.model.scenario import CellPlan, Plan, Scenario
from harness.pipeline import SCALED, make_plans

_FACT: Final = "mutant."


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a mutant says of itself: its fault, and the check that must fail."""

    id: str
    fault: str
    scenario: str
    cell: Mapping[str, str]
    """Labels of axes besides the scale."""
    check: str
    part: str
    """Name or family of the first part that must differ; empty: the check is not about parts."""
    phase: str
    reason: str


def chosen(words: Sequence[str], preset: str = "tiny", engine: str = "torch") -> list[str]:
    """Return the ids that the words mean: whole ids, or kinds like ``K07``; all, without words.

    A mutant whose entry point asks for an extra is one of the preset (real weights) or of the engine of that name, and
    of no other.

    Args:
        words: Ids and kinds.
        preset: Model preset of the clean engine.
        engine: The clean engine.

    Raises:
        NothingToDoError: A word means no mutant of the preset, or none is installed.
    """
    weights = {name: registry.extras(name, registry.MUTANTS) for name in registry.names(registry.MUTANTS)}
    asked = {extra for extras in weights.values() for extra in extras}
    own = {preset, engine} & asked
    known = [name for name, extras in weights.items() if (own & set(extras) if own else not extras)]
    for word in words:
        needed = weights.get(word, ())
        if needed and word not in known:
            if needed[0] in registry.names():
                raise NothingToDoError(f"mutant {word!r} is one of another engine: --target {needed[0]}")
            raise NothingToDoError(f"mutant {word!r} needs real weights: --target transformers --preset {needed[0]}")
    for word in words:
        if not any(_means(word, name) for name in known):
            near = get_close_matches(word, known, n=3)
            meant = f" (did you mean {' or '.join(near)}?)" if near else ""
            where = "`statecert mutants --count`; those of a scenario: `statecert mutants --scenario ID`"
            raise NothingToDoError(f"no mutant {word!r}{meant}; ids and kinds: {where}")
    found = [name for name in known if not words or any(_means(word, name) for word in words)]
    if not found:
        raise NothingToDoError("no mutant is installed")
    return found


def _means(word: str, name: str) -> bool:
    return word == name or word == name.partition(".")[0]


def expected_of(name: str, facts: Mapping[str, str | int | bool]) -> Expected:
    """Return what a mutant says of itself in the facts of its identity.

    Raises:
        UsageError: It does not say which check must stop it.
    """
    told = {key.removeprefix(_FACT): str(fact) for key, fact in facts.items() if key.startswith(_FACT)}
    missing = sorted({"fault", "scenario", "check"} - set(told))
    if missing:
        raise UsageError(f"mutant {name} does not say what must stop it: its identity lacks mutant.{missing[0]}")
    labels = [pair.partition("=") for pair in told.get("cell", "").split(",") if pair]
    return Expected(
        id=name,
        fault=told["fault"],
        scenario=told["scenario"],
        cell={axis: label for axis, _, label in labels},
        check=told["check"],
        part=told.get("part", ""),
        phase=told.get("phase", ""),
        reason=told.get("reason", ""),
    )


def cell_of(expected: Expected, scenarios: Mapping[str, Scenario]) -> Plan:
    """Return the plan with the one cell that must stop a mutant.

    Raises:
        UsageError: There is no such scenario, cell or check, or more than one cell.
    """
    scenario = scenarios.get(expected.scenario)
    if scenario is None:
        raise UsageError(f"mutant {expected.id}: there is no scenario {expected.scenario}")
    suite = scaled_suite(scenario)
    whole = make_plans([(scenario, [])], suite)[0]
    fitting = [cell for cell in whole.cells if not cell.excluded and _fits(cell, expected.cell)]
    if len(fitting) != 1:
        labels = ",".join(f"{axis}={label}" for axis, label in expected.cell.items())
        raise UsageError(f"mutant {expected.id}: {len(fitting)} cells of {scenario.id} fit [{labels}]; expected one")
    if all(check.id != expected.check for check in fitting[0].checks):
        raise UsageError(f"mutant {expected.id}: {fitting[0].id} has no check {expected.check}")
    return make_plans([(scenario, [fitting[0].id])], suite)[0]


def scaled_suite(scenario: Scenario) -> str:
    """Return the suite in which a scenario runs scaled down; its first one where it has no such suite."""
    return next((suite for suite in SCALED if suite in scenario.suites), next(iter(scenario.suites), SCALED[0]))


def _fits(cell: CellPlan, labels: Mapping[str, str]) -> bool:
    return all(str(cell.coords.get(axis)) == label for axis, label in labels.items())
