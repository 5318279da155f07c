"""CG314: what is claimed of another build was seen of another build."""

from __future__ import annotations

from typing import Final

from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.gating.sight import Sight
from harness.model.evidence import StepRecord
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef, StepKind

_SEES_PARTS: Final = ("parts", "image")


def check(subject: Subject) -> Problems:
    """Every passing question across builds: two builds by their digests, and a named refusal or measured nearness."""
    if subject.sight is None:
        return
    for index, cell in enumerate(subject.body["cells"]):
        plan = subject.sight.plans.get(cell["id"])
        specs = {spec.id: spec for spec in plan.checks if spec.kind is CheckKind.ACROSS} if plan else {}
        for number, result in enumerate(cell["checks"]):
            spec = specs.get(result["id"])
            fault = _fault(subject.sight, plan, spec) if plan and spec and result["outcome"] == "pass" else ""
            if fault:
                yield Problem(f"/body/cells/{index}/checks/{number}", f"{result['id']} passes; {fault}")


def _fault(sight: Sight, plan: CellPlan, spec: CheckSpec) -> str:
    restart, brought = _record(sight, plan, spec.restarted), _record(sight, plan, spec.at)
    if restart is None or restart.kind != StepKind.RESTART or restart.ended != "done":
        return "no restart led into another build"
    builds = [str(restart.detail.get(name, "")) for name in ("build_before", "build")]
    if not all(builds):
        return "the engine does not tell what it has loaded"
    if builds[0] == builds[1]:
        return "both builds have loaded the same"
    if brought is None or brought.kind != StepKind.IMPORT:
        return "no image was brought into the other build"
    if brought.ended == "refused":
        return "" if brought.code in spec.codes else f"it was refused with {brought.code or 'no code'}"
    return _not_near(sight, plan, spec)


def _not_near(sight: Sight, plan: CellPlan, spec: CheckSpec) -> str:
    """An image that was taken lies within the limits, part by part, at a look of its own."""
    if sight.grade not in _SEES_PARTS:
        return "the image was taken, and nobody sees what came of it"
    pairs = sight.pairs(plan.id, spec)
    if not any(sight.parts(one) for one, _ in pairs):
        return "the image was taken, and nobody looked at what came of it"
    for one, other in pairs:
        if other is None:
            return f"at {one.phase} there is no look of the reference"
        fault = sight.too_far(plan.id, spec, one, other)
        if fault:
            return f"at {one.phase} {fault}"
    return ""


def _record(sight: Sight, plan: CellPlan, ref: PointRef | None) -> StepRecord | None:
    return sight.steps.get((plan.id, ref.arm, ref.label)) if ref is not None else None


RULE = Rule(
    id="CG314",
    text="What goes across builds went into another build by digests, and was refused by name or measured as near.",
    pain="The same build twice takes every image; a build that takes what it cannot read answers 200 too.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "one_build_twice",
        "build_not_told",
        "refused_without_a_name",
        "taken_and_far_away",
        "taken_and_not_looked_at",
    ),
    passing="valid_across",
    certificate=check,
)
