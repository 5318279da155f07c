"""CG307: exactness and nearness, recomputed from part tables, distances, logits, tokens; nothing silently unhashed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.gating.looks import due, faults
from harness.gating.rule import Body, Problem, Problems, Rule, Subject
from harness.gating.sight import Sight
from harness.model.scenario import CellPlan, CheckKind, CheckSpec
from harness.model.values import Guarantee, Phase
from harness.wire.sha256 import NOTHING

_COMPARING: Final = (CheckKind.EXACT, CheckKind.NEAR, CheckKind.UNCHANGED)
_SEES_PARTS: Final = ("parts", "image")


def check(subject: Subject) -> Problems:
    """Every passing comparison, and the part lists of every passing cell; a claimed difference must be there too."""
    if subject.sight is None:
        return
    for index, cell in enumerate(subject.body["cells"]):
        plan = subject.sight.plans.get(cell["id"])
        if plan is None or not cell["checks"]:
            continue
        specs = {spec.id: spec for spec in plan.checks if spec.kind in _COMPARING}
        for number, result in enumerate(cell["checks"]):
            fault = _comparison(subject.sight, plan, specs.get(result["id"]), result)
            if fault:
                yield Problem(f"/body/cells/{index}/checks/{number}", fault)
        fault = next(faults(subject.sight, plan), "") if cell["outcome"] == "pass" else ""
        if fault:
            yield Problem(f"/body/cells/{index}", f"passes; {fault}")


def _comparison(sight: Sight, plan: CellPlan, spec: CheckSpec | None, result: Body) -> str:
    if spec is None:
        return ""
    if result["outcome"] == "pass":
        return _unequal(sight, plan, spec) or _unseen(sight, plan, spec)
    if result["outcome"] == "fail" and result.get("reason") in ("parts_differ", "logits_differ", "tokens_differ"):
        pairs = sight.pairs(plan.id, spec)
        differs = any(other and sight.unequal(one, other, _fields(spec)) for one, other in pairs)
        return "" if differs else f"{spec.id} fails with {result['reason']}; nothing differs"
    return ""


def _unequal(sight: Sight, plan: CellPlan, spec: CheckSpec) -> str:
    for one, other in sight.pairs(plan.id, spec):
        at = f"{spec.id} passes; at {one.phase}"
        if spec.guarantee is Guarantee.TOKENS_ONLY and one.phase is not Phase.END:
            continue
        if other is None:
            return f"{at} there is no look of the reference"
        if one.position != other.position:
            return f"{at} the positions are {one.position} and {other.position}"
        if not (one.logits_finite and other.logits_finite):
            return f"{at} the logits are not finite"
        if "logits" in _fields(spec) and NOTHING in (one.logits, other.logits):
            return f"{at} the logits have no bytes"
        near = spec.kind is CheckKind.NEAR
        fault = sight.too_far(plan.id, spec, one, other) if near else sight.unequal(one, other, _fields(spec))
        if fault:
            return f"{at} {fault}"
    return ""


def _unseen(sight: Sight, plan: CellPlan, spec: CheckSpec) -> str:
    """A comparison that looked at nothing, or left out a look that its step must leave behind."""
    pairs = sight.pairs(plan.id, spec)
    phases = [one.phase for one, _ in pairs]
    lacking = [phase for phase in _due(plan, spec) if phase not in phases]
    if lacking:
        return f"{spec.id} passes; there is no look at {lacking[0]}"
    if "parts" in _fields(spec) and sight.grade in _SEES_PARTS:
        if any(not sight.parts(one) for one, _ in pairs):
            return f"{spec.id} passes; a part table is empty"
        return "" if pairs else f"{spec.id} passes; no part was compared"
    return "" if any(one.logits or one.tokens for one, _ in pairs) else f"{spec.id} passes; nothing was compared"


def _due(plan: CellPlan, spec: CheckSpec) -> Iterator[Phase]:
    if spec.kind is CheckKind.UNCHANGED:
        return
    steps = (step for arm in plan.arms if spec.candidate and arm.id == spec.candidate.arm for step in arm.steps)
    step = next((one for one in steps if spec.candidate and one.label == spec.candidate.label), None)
    if step is None:
        return
    yield from (phase for phase in due(step) if _wanted(spec, phase))


def _wanted(spec: CheckSpec, phase: Phase) -> bool:
    if spec.guarantee is Guarantee.TOKENS_ONLY:
        return phase is Phase.END
    return not spec.phases or phase in spec.phases


def _fields(spec: CheckSpec) -> tuple[str, ...]:
    return ("tokens",) if spec.guarantee is Guarantee.TOKENS_ONLY else tuple(spec.fields)


RULE = Rule(
    id="CG307",
    text="Equality holds in part tables, logits and tokens, nearness in the distances; every look lists the inventory.",
    pain="A part that nobody hashed differs; two empty lists are equal; a judge with a bug is its own alibi.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "differing_part_passes",
        "differing_tokens_pass",
        "differing_logits_pass",
        "logits_not_finite",
        "logits_of_no_bytes",
        "rows_of_no_row",
        "reference_varies",
        "look_left_out",
        "pauses_left_out_of_both_runs",
        "reference_not_looked_at",
        "reference_varies_at_a_pause",
        "turn_left_out",
        "part_unlisted",
        "difference_invented",
        "distance_left_out",
        "distance_beyond_limit",
    ),
    certificate=check,
)
