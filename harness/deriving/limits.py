"""What a run does not cover, as codes. A certificate that leaves its limits to the reader claims too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.deriving.about import limits_of_target
from harness.deriving.support import dropped_arms, facts_of, families_absent
from harness.model.decision import Decision
from harness.model.evidence import Header, Trust
from harness.model.scenario import Plan
from harness.model.values import Guarantee, Outcome, Verdict


def limits(plan: Plan, decision: Decision, header: Header, trust: Sequence[Trust]) -> tuple[str, ...]:
    """Return the codes, sorted; cells and checks stand behind a colon."""
    of_target = limits_of_target(header.target, header.source)
    return tuple(sorted({*of_target, *_of_trust(trust), *_of_decision(decision), *_of_plan(plan, header)}))


def _of_trust(trust: Sequence[Trust]) -> Iterator[str]:
    if not sum(one.spot_checks for one in trust):
        yield "no_spot_checks"


def _of_decision(decision: Decision) -> Iterator[str]:
    for axis, verdict in decision.by_axis.items():
        if verdict is Verdict.NOT_EVALUATED:
            yield f"{axis}_not_evaluated"
    for cell in decision.cells:
        if cell.outcome in (Outcome.NOT_RUN, Outcome.NOT_SUPPORTED, Outcome.EXCLUDED):
            yield f"{cell.outcome}:{cell.id}"


def _of_plan(plan: Plan, header: Header) -> Iterator[str]:
    found = header.target.get("capabilities")
    capabilities = [str(name) for name in found] if isinstance(found, (list, tuple)) else []
    told = facts_of(header.target)
    for cell in plan.cells:
        for arm in dropped_arms(cell, capabilities, told):
            yield f"control_dropped:{cell.id}:{arm}"
        for family in families_absent(cell, told):
            yield f"family_absent:{cell.id}:{family}"
        for check in cell.checks:
            if check.guarantee in (Guarantee.SESSION_EXACT, Guarantee.TOLERANCE, Guarantee.TOKENS_ONLY):
                yield f"{check.guarantee}:{check.id}"
