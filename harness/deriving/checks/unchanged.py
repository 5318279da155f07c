"""``EXACT.UNCHANGED``: two looks are equal, also of different sessions. No restore is claimed."""

from __future__ import annotations

from harness.deriving.checks.answers import answer
from harness.deriving.checks.exact import (
    difference_detail,
    missing_look,
    not_finite,
    not_repeatable,
    nothing_compared,
    reason_of,
)
from harness.deriving.pairing import comparisons, pairing
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    found = pairing(view, spec)
    doubt = missing_look(view, spec, found)
    if doubt is not None:
        return doubt
    compared = comparisons(view, spec, found)
    doubt = not_finite(spec, found) or nothing_compared(spec, compared) or not_repeatable(view, spec, found)
    if doubt is not None:
        return doubt
    for one in compared:
        if one.differing:
            first = one.differing[0]
            detail = difference_detail(view, spec, one, first)
            return answer(spec, Outcome.FAIL, reason_of(first), observed=len(one.differing), limit=0, detail=detail)
    parts = sum(one.parts for one in compared)
    return answer(spec, Outcome.PASS, observed=0, limit=0, detail={"parts_compared": parts})
