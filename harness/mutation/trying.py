"""Each mutant against the check that must stop it, and whether it did.

After the mutants of a cell the clean engine runs the same cell in the same child and must pass: so the check does not
fail by itself, and no fault has outlived its mutant. A mutant that ends the child has lost its chance: a crash is not a
stop, and the next one gets a new child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, Protocol

from harness.engines import registry
from harness.errors import EngineError
from harness.model.decision import CellDecision, CheckResult
from harness.model.evidence import Crash, Evidence
from harness.model.scenario import Plan, Scenario
from harness.model.values import Outcome
from harness.mutation.expecting import Expected, cell_of
from harness.mutation.workshops import Workshop, run_cell, side_by_side

REFUSED: Final = "refused"
"""Reason of a check that was answered by a refusal, which stops a mutant only where the refusal is its fault."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One mutant after its run."""

    expected: Expected
    cell: str
    """Id of the cell; empty: it did not come to a run."""
    found: str
    """What the check found: part and phase, or the reason of its failure."""
    why_not: str
    """Why the mutant counts as not stopped; empty: it was stopped."""

    @property
    def stopped(self) -> bool:
        """Whether the named check failed where it had to."""
        return not self.why_not


class Teller(Protocol):
    """Is told what is run, and what it came to."""

    def cell_begin(self, cell: str) -> None:
        """A run begins."""

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """A run ended."""


class Serial:
    """Tells one display from several threads.

    Args:
        display: Is called by one thread at a time.
    """

    def __init__(self, display: Teller) -> None:
        self._display = display
        self._lock = Lock()

    def cell_begin(self, cell: str) -> None:
        """A run begins."""
        with self._lock:
            self._display.cell_begin(cell)

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """A run ended."""
        with self._lock:
            self._display.cell_end(cell, outcome, reason)


def runs_of(wanted: Sequence[Expected], scenarios: Mapping[str, Scenario]) -> list[list[tuple[Expected, Plan]]]:
    """Return mutants with their cells, those of one cell together.

    Raises:
        UsageError: A mutant names a cell or a check that does not exist.
    """
    by_cell: dict[str, list[tuple[Expected, Plan]]] = {}
    for expected in wanted:
        plan = cell_of(expected, scenarios)
        by_cell.setdefault(plan.selected[0], []).append((expected, plan))
    return sorted(by_cell.values(), key=len, reverse=True)


def try_all(shops: Sequence[Workshop], runs: Sequence[Sequence[tuple[Expected, Plan]]], display: Teller) -> list[Tried]:
    """Run every mutant against its cell, and after those of a cell the clean engine in the same child.

    Args:
        shops: Where they run, side by side.
        runs: Of :func:`runs_of`.
        display: Shows each run.

    Raises:
        StatecertError: The harness could not go on.
    """
    done = side_by_side(shops, runs, lambda shop, group: _try_group(shop, group, display))
    return sorted((one for group in done for one in group), key=lambda one: one.expected.id)


def _try_group(shop: Workshop, group: Sequence[tuple[Expected, Plan]], display: Teller) -> list[Tried]:
    tried = [_shown(shop, expected, plan, display) for expected, plan in group]
    cell = f"{shop.engine} {group[0][1].selected[0]}"
    display.cell_begin(cell)
    unsound = why_unsound(shop, group[0][1])
    display.cell_end(cell, "error" if unsound else "pass", unsound)
    return [replace(one, why_not=unsound) if unsound else one for one in tried]


def _shown(shop: Workshop, expected: Expected, plan: Plan, display: Teller) -> Tried:
    display.cell_begin(expected.id)
    tried = try_one(shop, expected, plan)
    display.cell_end(expected.id, "stopped" if tried.stopped else "survived", tried.why_not)
    return tried


def try_one(shop: Workshop, expected: Expected, plan: Plan) -> Tried:
    """Run one mutant against its cell."""
    try:
        evidence, decision = run_cell(shop, expected.id, registry.MUTANTS, plan)
    except EngineError as error:
        return Tried(expected=expected, cell=plan.selected[0], found="", why_not=f"did not start: {error}")
    return judged(expected, decision, evidence)


def why_unsound(shop: Workshop, plan: Plan) -> str:
    """Run the clean engine against a cell; return why a failure in that cell means nothing, or nothing."""
    _, decision = run_cell(shop, shop.engine, registry.ENGINES, plan)
    if decision.outcome is Outcome.PASS:
        return ""
    worst = next((check for check in decision.checks if check.outcome is not Outcome.PASS), None)
    word = f"{worst.id}: {worst.reason}" if worst is not None else decision.reason
    return f"the clean engine does not pass the cell: {decision.outcome} ({word})"


def judged(expected: Expected, decision: CellDecision, evidence: Evidence) -> Tried:
    """Tell whether a decision stops a mutant."""
    result = next((check for check in decision.checks if check.id == expected.check), None)
    return Tried(
        expected=expected,
        cell=decision.id,
        found=found_of(result) if result is not None else decision.reason,
        why_not=_why_not(expected, result, decision, evidence),
    )


def found_of(result: CheckResult) -> str:
    """Return what a check found, in short."""
    if result.outcome is Outcome.PASS:
        return str(Outcome.PASS)
    part, phase = result.detail.get("part", ""), result.detail.get("phase", "")
    if part:
        return f"{part} {phase}".strip()
    return result.reason


def crash_in(evidence: Evidence) -> str:
    """Return how an engine of the run broke down; empty: none did."""
    crash = next((one for one in evidence.observations if isinstance(one, Crash)), None)
    return f"{crash.kind} in {crash.arm}.{crash.label}" if crash is not None else ""


def _why_not(expected: Expected, result: CheckResult | None, decision: CellDecision, evidence: Evidence) -> str:
    crash = crash_in(evidence)
    if crash:
        return f"a crash does not count: {crash}"
    if result is None:
        return f"the cell was not judged: {decision.outcome} ({decision.reason})"
    if result.outcome is not Outcome.FAIL:
        return f"the check says {result.outcome}" + (f" ({result.reason})" if result.reason else "")
    if expected.reason and result.reason != expected.reason:
        return f"failed for another reason: {result.reason}; expected {expected.reason}"
    if result.reason == REFUSED != expected.reason:
        return "a refusal does not count"
    part, family = result.detail.get("part", ""), result.detail.get("family", "")
    if expected.part and expected.part not in (part, family):
        return f"found at {part or result.reason}; expected {expected.part}"
    phase = result.detail.get("phase", "")
    if expected.phase and phase != expected.phase:
        return f"found in phase {phase or 'none'}; expected {expected.phase}"
    return ""
