"""What every check's answer is made of: its stable code, its axis, and its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import StepRecord
from harness.model.scenario import Arm, CheckKind, CheckSpec, PointRef, StepKind
from harness.model.values import ArmRole, DecisionAxis, Outcome, RefusalCode

CODES: Final[Mapping[CheckKind, str]] = {
    CheckKind.EXACT: "EXACT.STATE@1",
    CheckKind.NEAR: "NEAR.STATE@1",
    CheckKind.ACROSS: "BUILD.ACROSS@1",
    CheckKind.UNCHANGED: "EXACT.UNCHANGED@1",
    CheckKind.SAME_IMAGE: "EXACT.IMAGE@1",
    CheckKind.ENDED: "COUNT.ENDED@1",
    CheckKind.CACHED: "COUNT.CACHED@1",
    CheckKind.REUSED: "COUNT.REUSED@1",
    CheckKind.STORED: "FOOT.STORED@1",
    CheckKind.SIZED: "FOOT.SIZED@1",
    CheckKind.FOOTPRINT: "FOOT.RATIO@1",
    CheckKind.ENTRIES: "COUNT.ENTRIES@1",
    CheckKind.REFUSED: "REFUSE.CODE@1",
    CheckKind.COUNTER: "COUNT.STORE@1",
    CheckKind.BALANCE: "FOOT.BALANCE@1",
    CheckKind.ANSWERS: "QUALITY.ANSWER@1",
    CheckKind.QUICKER: "LAT.PAIRED@1",
    CheckKind.SEEN: "CTRL.SEEN@1",
    CheckKind.REPEATABLE: "REPEAT.COLD@1",
    CheckKind.INVENTORY: "STATE.INVENTORY@1",
    CheckKind.FINISHED: "RUN.FINISHED@1",
}
"""Stable id and version of each rule; the version rises when the same evidence could get another answer."""

_MANIPULATIONS: Final = frozenset(
    {
        StepKind.CORRUPT,
        StepKind.EVICT,
        StepKind.BUDGET,
        StepKind.PRESSURE,
        StepKind.STORE,
        StepKind.ALTER,
        StepKind.SPOIL,
        StepKind.CANCEL,
    }
)

AXES: Final[Mapping[CheckKind, DecisionAxis]] = {
    CheckKind.EXACT: DecisionAxis.EXACTNESS,
    CheckKind.NEAR: DecisionAxis.TOLERANCE,
    CheckKind.ACROSS: DecisionAxis.TOLERANCE,
    CheckKind.UNCHANGED: DecisionAxis.EXACTNESS,
    CheckKind.SAME_IMAGE: DecisionAxis.EXACTNESS,
    CheckKind.SEEN: DecisionAxis.EXACTNESS,
    CheckKind.REPEATABLE: DecisionAxis.EXACTNESS,
    CheckKind.INVENTORY: DecisionAxis.EXACTNESS,
    CheckKind.STORED: DecisionAxis.FOOTPRINT,
    CheckKind.SIZED: DecisionAxis.FOOTPRINT,
    CheckKind.FOOTPRINT: DecisionAxis.FOOTPRINT,
    CheckKind.BALANCE: DecisionAxis.FOOTPRINT,
    CheckKind.CACHED: DecisionAxis.ROBUSTNESS,
    CheckKind.REUSED: DecisionAxis.ROBUSTNESS,
    CheckKind.ENTRIES: DecisionAxis.ROBUSTNESS,
    CheckKind.REFUSED: DecisionAxis.ROBUSTNESS,
    CheckKind.COUNTER: DecisionAxis.ROBUSTNESS,
    CheckKind.ENDED: DecisionAxis.ROBUSTNESS,
    CheckKind.ANSWERS: DecisionAxis.QUALITY,
    CheckKind.QUICKER: DecisionAxis.LATENCY,
    CheckKind.FINISHED: DecisionAxis.ROBUSTNESS,
}

COMPARISONS: Final = frozenset({CheckKind.EXACT, CheckKind.UNCHANGED, CheckKind.SAME_IMAGE})
"""Checks that compare one state with another; without one of them nothing was said about exactness."""


def answer(
    spec: CheckSpec,
    outcome: Outcome,
    reason: str = "",
    *,
    observed: str | int = "",
    limit: str | int = "",
    detail: Mapping[str, str | int] | None = None,
) -> CheckResult:
    """Return the result of a check. A reason belongs to every outcome but ``pass``."""
    return CheckResult(
        id=spec.id,
        code=CODES[spec.kind],
        axis=AXES[spec.kind],
        outcome=outcome,
        reason="" if outcome is Outcome.PASS else reason,
        observed=observed,
        limit=limit,
        unit=spec.unit_name,
        detail=dict(detail or {}),
    )


def absent(view: CellView, spec: CheckSpec, ref: PointRef, detail: Mapping[str, str | int]) -> CheckResult:
    """Return the answer where something that should have been observed is not there.

    A crash is an ``error`` of its kind; a refusal fails a candidate and breaks the harness' ground in any other arm;
    nothing at all is an ``error`` too. Never a pass.
    """
    crash = view.crash_in(ref.arm)
    if crash is not None:
        return answer(spec, Outcome.ERROR, str(crash.kind), detail={**detail, "arm": ref.arm, "label": crash.label})
    arm = view.arm(ref.arm)
    for rep in view.reps(ref.arm):
        refusal = view.refusal_before(ref, rep)
        if refusal is not None:
            at = {**detail, "arm": ref.arm, "label": refusal.label, "refusal": refusal.code}
            outcome, reason = refusal_outcome(arm, refusal)
            return answer(spec, Outcome.ERROR if spec.kind is CheckKind.SEEN else outcome, reason, detail=at)
    return answer(spec, Outcome.ERROR, "observation_missing", detail={**detail, "at": str(ref)})


def refusal_outcome(arm: Arm | None, refusal: StepRecord) -> tuple[Outcome, str]:
    """Return what a refusal that nobody allowed for comes to.

    A candidate that refuses what the scenario asks fails. An engine that does not know what is asked
    (``unsupported``), or that refuses a manipulation by the harness, was not tested: that is an ``error``; and so is
    a reference or a control that did not run through.
    """
    if refusal.code == RefusalCode.UNSUPPORTED:
        return Outcome.ERROR, "unsupported"
    if arm is None or arm.role is not ArmRole.CANDIDATE:
        return Outcome.ERROR, f"{arm.role if arm is not None else 'arm'}_refused"
    if refusal.kind in _MANIPULATIONS:
        return Outcome.ERROR, "manipulation_refused"
    return Outcome.FAIL, "refused"
