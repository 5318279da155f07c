"""Results of checks and decisions. Whoever measures does not decide; whoever decides does not print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.noun import dataclass, field
from harness.model.scenario import Coords
from harness.model.values import CellId, DecisionAxis, Outcome, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One question, answered from evidence."""

    id: str
    """The scenario's id of the check; generated ones are like ``repeatable:cold_a``."""
    code: str
    """Stable id and version of the rule, like ``EXACT.PARTS@1``."""
    axis: DecisionAxis
    outcome: Outcome
    reason: str = ""
    """Reason code when the outcome is not ``pass``, like ``parts_differ``; empty otherwise."""
    observed: str | int = ""
    limit: str | int = ""
    unit: str = ""
    detail: Mapping[str, str | int] = field(default_factory=dict)
    """What a reader needs to find the place: phase, part, layer, row, roots, counts, witness."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellDecision:
    """One cell, decided."""

    id: CellId
    coords: Coords
    outcome: Outcome
    reason: str
    """Reason code where the outcome needs one (not_run, not_supported, excluded, error, inconclusive)."""
    checks: Sequence[CheckResult]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """All cells of a run, folded worst first. No cells means ``error``."""

    cells: Sequence[CellDecision]
    by_axis: Mapping[DecisionAxis, Verdict]
    overall: Verdict
    reasons: Sequence[str] = ()
    """Why the whole run is in error although its cells are not, like ``trust_mismatch``."""
