"""CG309: a run proved that it could fail."""

from __future__ import annotations

from typing import Final

from harness.gating.rule import Body, Problem, Problems, Rule, Subject
from harness.gating.sight import Sight
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef, StepKind

_COMPARING: Final = ("EXACT.STATE", "NEAR.STATE", "BUILD.ACROSS")
_SEEN: Final = "CTRL.SEEN"


def check(subject: Subject) -> Problems:
    """A passing cell that compares states has a control that was seen, in the body and in the evidence."""
    for index, cell in enumerate(subject.body["cells"]):
        codes = [result["code"].partition("@")[0] for result in cell["checks"]]
        if cell["outcome"] == "pass" and not set(_COMPARING).isdisjoint(codes):
            fault = _fault(subject.sight, cell)
            if fault:
                yield Problem(f"/body/cells/{index}", f"passes; {fault}")


def _fault(sight: Sight | None, cell: Body) -> str:
    controls = [one for one in cell["checks"] if one["code"].startswith(_SEEN)]
    if not controls:
        return "no control was run"
    unseen = next((one["id"] for one in controls if one["outcome"] != "pass"), "")
    if unseen:
        return f"the control {unseen} was not seen"
    plan = sight.plans.get(cell["id"]) if sight is not None else None
    if sight is None or plan is None:
        return ""
    specs = {spec.id: spec for spec in plan.checks if spec.kind is CheckKind.SEEN}
    silent = [one["id"] for one in controls if not _fired(sight, plan, specs.get(one["id"]))]
    return f"the control {silent[0]} shows no difference" if silent else ""


def _fired(sight: Sight, plan: CellPlan, spec: CheckSpec | None) -> bool:
    if spec is None:
        return False
    images = [_image(sight, plan, ref) for ref in (spec.candidate, spec.reference)]
    if all(images):
        return images[0] != images[1]
    if spec.limits and not _exceeds(sight, plan, spec):
        return False
    pairs = sight.pairs(plan.id, spec)
    return any(other is not None and sight.unequal(one, other, tuple(spec.fields)) for one, other in pairs)


def _exceeds(sight: Sight, plan: CellPlan, spec: CheckSpec) -> bool:
    """Of each limit that the control was to exceed, as far as something was measured, something lies beyond it."""
    exceeded: dict[str, bool] = {}
    for (cell, check, _, name), found in sight.distances.items():
        key = name if name in spec.limits else found.family
        limits = spec.limits.get(key, {})
        if (cell, check) == (plan.id, spec.id) and any(limits.values()):  # a limit of nothing is no distance
            beyond = any(int(getattr(found, word)) > most for word, most in limits.items())
            exceeded[key] = exceeded.get(key, False) or beyond
    return bool(exceeded) and all(exceeded.values())


def _image(sight: Sight, plan: CellPlan, ref: PointRef | None) -> str:
    """The digest of what a step exported; empty where it is no such step, or exported nothing."""
    record = sight.steps.get((plan.id, ref.arm, ref.label)) if ref is not None else None
    exported = record is not None and record.kind == StepKind.EXPORT and record.ended == "done"
    return str(record.detail.get("sha256", "")) if record is not None and exported else ""


RULE = Rule(
    id="CG309",
    text="Every passing cell with an exact, near or across check has a control, and each of its controls was seen.",
    pain="A comparator that is blind calls everything equal; only a planted difference shows that it sees.",
    hint="add a control to the scenario and run again; a control that is not seen is an error of the harness",
    failing=(
        "control_not_seen",
        "control_missing",
        "control_within_limits",
        "control_within_one_limit",
    ),
    certificate=check,
)
