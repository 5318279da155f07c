"""``BUILD.ACROSS``: what another build made of an image: refused by name, or held within stated distances.

Two builds sum in other orders and may store otherwise, so nothing that they hold is called equal or corrupt here. The
restart must have led into another build, by the digests of what both have loaded; else nothing was shown. A refusal by
one of the named words is an answer. An image that was taken is measured as it came in, before the other build computes
anything: too far away fails as nearness does. What cannot be measured, since the target shows too little or the build
lays its state out otherwise, is not comparable, and left open.
"""

from __future__ import annotations

from typing import Final

from harness.deriving.checks import near
from harness.deriving.checks.answers import absent, answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import StepRecord
from harness.model.noun import replace
from harness.model.scenario import CheckSpec
from harness.model.values import Observability, Outcome

NOT_COMPARABLE: Final = "not_comparable"
_SHOWS_PARTS: Final = (Observability.PARTS, Observability.IMAGE)
_OTHERWISE: Final = frozenset({"parts_differ", "logits_differ", "tokens_differ"})


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if spec.restarted is None or spec.at is None or spec.candidate is None:
        raise ValueError(f"check {spec.id} names no restart, or no image that was brought")
    restart, brought = view.record(spec.restarted), view.record(spec.at)
    if restart is None or restart.ended != "done":
        return absent(view, spec, spec.restarted, {})
    doubt = _one_build(spec, restart)
    if doubt is not None:
        return doubt
    if brought is None:
        return absent(view, spec, spec.at, {})
    if brought.ended == "refused":
        refused = {"answer": "refused", **_builds(restart)}
        outcome = Outcome.PASS if brought.code in spec.codes else Outcome.FAIL
        return answer(
            spec, outcome, "other_code", observed=brought.code or "none", limit=" ".join(spec.codes), detail=refused
        )
    if view.grade not in _SHOWS_PARTS:
        return answer(spec, Outcome.INCONCLUSIVE, NOT_COMPARABLE, detail={"answer": "taken", **_builds(restart)})
    return _measured(view, spec, restart)


def _measured(view: CellView, spec: CheckSpec, restart: StepRecord) -> CheckResult:
    found = near.check(view, spec)
    detail = {**found.detail, "answer": "taken", **_builds(restart)}
    if found.outcome is Outcome.FAIL and found.reason in _OTHERWISE:
        return answer(spec, Outcome.INCONCLUSIVE, NOT_COMPARABLE, detail={**detail, "how": found.reason})
    return replace(found, detail=detail)


def _one_build(spec: CheckSpec, restart: StepRecord) -> CheckResult | None:
    """Return the answer where the restart is not known to have led into another build; None: it did."""
    before, after = restart.detail.get("build_before"), restart.detail.get("build")
    if not before or not after:
        return answer(spec, Outcome.ERROR, "build_untold")
    return answer(spec, Outcome.INCONCLUSIVE, "same_build", detail=_builds(restart)) if before == after else None


def _builds(restart: StepRecord) -> dict[str, str | int]:
    return {name: str(restart.detail.get(name, "")) for name in ("build_before", "build")}
