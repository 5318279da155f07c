"""From results of checks to the outcome of a cell, and from cells to a decision per axis and overall.

Worst first everywhere: ``error`` > ``fail`` (a ``stop`` as a decision) > ``inconclusive`` > ``pass``. An error is the
worst, since it says that the ground under the other answers is missing: a failing comparison beside a control that
was not seen proves nothing.

Cells:

- no check at all, or nothing asked beyond controls and the harness' own checks, is ``error``.

Per axis:

- a cell in error counts as ``error`` on every axis that it asks about: nothing in it may count as a pass;
- a cell that was not run or is not supported makes ``inconclusive`` of a pass on every axis that it would have
  asked about;
- exactness is asked about by comparisons alone: what makes them believable (controls, repeatability, inventories) shows
  nothing to be exact where nothing was compared;
- answers are a matter of trained weights: a target that has none is not evaluated on quality;
- nearness within limits is an axis of its own (``tolerance``), there only where it was asked about;
- an axis that no cell asks about is ``not_evaluated``; excluded cells ask about nothing.

Overall: no cells (or only excluded ones) is ``error``; else the worst cell, where not run and not supported count as
``inconclusive``. ``pass`` needs every cell that is not excluded to pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.checks.answers import AXES, CODES, COMPARISONS
from harness.model.decision import CellDecision, CheckResult, Decision
from harness.model.scenario import CellPlan, CheckKind
from harness.model.values import DecisionAxis, Outcome, Verdict

_WORST_FIRST: Final = (Outcome.ERROR, Outcome.FAIL, Outcome.NOT_RUN, Outcome.INCONCLUSIVE, Outcome.PASS)
_VERDICTS: Final[Mapping[Outcome, Verdict]] = {
    Outcome.ERROR: Verdict.ERROR,
    Outcome.FAIL: Verdict.STOP,
    Outcome.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    Outcome.NOT_RUN: Verdict.INCONCLUSIVE,
    Outcome.NOT_SUPPORTED: Verdict.INCONCLUSIVE,
    Outcome.PASS: Verdict.PASS,
}
_VERDICTS_WORST_FIRST: Final = (Verdict.ERROR, Verdict.STOP, Verdict.INCONCLUSIVE, Verdict.PASS)
_JUDGING: Final = frozenset(
    CODES[kind]
    for kind in (
        CheckKind.EXACT,
        CheckKind.NEAR,
        CheckKind.ACROSS,
        CheckKind.UNCHANGED,
        CheckKind.CACHED,
        CheckKind.REUSED,
        CheckKind.ENTRIES,
        CheckKind.REFUSED,
        CheckKind.COUNTER,
        CheckKind.SAME_IMAGE,
        CheckKind.ENDED,
        CheckKind.ANSWERS,
    )
)
"""Checks that ask the engine something about exactness or robustness, beyond the harness' own."""


def decide_cell(cell: CellPlan, results: Sequence[CheckResult]) -> CellDecision:
    """Return the outcome of a cell that was run."""
    if not results:
        return unjudged(cell, Outcome.ERROR, "no_checks")
    worst = min(results, key=lambda result: _WORST_FIRST.index(result.outcome))
    outcome, reason = worst.outcome, worst.reason
    if outcome is not Outcome.ERROR and not any(result.code in _JUDGING for result in results):
        outcome, reason = Outcome.ERROR, "nothing_judged"
    return CellDecision(
        id=cell.id,
        coords=cell.coords,
        outcome=outcome,
        reason=reason if outcome in (Outcome.ERROR, Outcome.NOT_RUN, Outcome.INCONCLUSIVE) else "",
        checks=tuple(results),
    )


def unjudged(cell: CellPlan, outcome: Outcome, reason: str) -> CellDecision:
    """Return the decision of a cell whose checks were not asked."""
    return CellDecision(id=cell.id, coords=cell.coords, outcome=outcome, reason=reason, checks=())


def decide(cells: Sequence[tuple[CellPlan, CellDecision]], reasons: Sequence[str] = ()) -> Decision:
    """Fold all cells of the product, in order.

    Args:
        cells: Each plan, as the target can run it, with its decision.
        reasons: Why nothing of the run can be believed; any makes every judged axis and the whole an ``error``.
    """
    by_axis = {axis: _axis(cells, axis) for axis in DecisionAxis}
    if by_axis[DecisionAxis.TOLERANCE] is Verdict.NOT_EVALUATED:
        del by_axis[DecisionAxis.TOLERANCE]
    overall = _overall([decision.outcome for _, decision in cells])
    if reasons:
        overall = Verdict.ERROR
        by_axis = {
            axis: verdict if verdict is Verdict.NOT_EVALUATED else Verdict.ERROR for axis, verdict in by_axis.items()
        }
    return Decision(
        cells=tuple(decision for _, decision in cells), by_axis=by_axis, overall=overall, reasons=tuple(reasons)
    )


def _overall(outcomes: Sequence[Outcome]) -> Verdict:
    counted = [_VERDICTS[outcome] for outcome in outcomes if outcome is not Outcome.EXCLUDED]
    return min(counted, key=_VERDICTS_WORST_FIRST.index, default=Verdict.ERROR)


def _axis(cells: Sequence[tuple[CellPlan, CellDecision]], axis: DecisionAxis) -> Verdict:
    found = [verdict for plan, decision in cells if (verdict := _on_axis(plan, decision, axis)) is not None]
    return min(found, key=_VERDICTS_WORST_FIRST.index, default=Verdict.NOT_EVALUATED)


def _asks(plan: CellPlan, axis: DecisionAxis) -> bool:
    if axis is DecisionAxis.EXACTNESS:
        return any(check.kind in COMPARISONS for check in plan.checks)
    return any(AXES[check.kind] is axis for check in plan.checks)


def _on_axis(plan: CellPlan, decision: CellDecision, axis: DecisionAxis) -> Verdict | None:
    """Return what one cell says on an axis; None: nothing."""
    if decision.outcome is Outcome.EXCLUDED or not _asks(plan, axis):
        return None
    if axis is DecisionAxis.QUALITY and decision.outcome is Outcome.NOT_SUPPORTED:
        return None
    if decision.outcome in (Outcome.ERROR, Outcome.NOT_RUN, Outcome.NOT_SUPPORTED):
        return _VERDICTS[decision.outcome]
    outcomes = [result.outcome for result in decision.checks if result.axis is axis]
    worst = min(outcomes, key=_WORST_FIRST.index, default=Outcome.ERROR)
    return _VERDICTS[worst]
