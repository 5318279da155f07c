"""CG308: a restore really happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.gating.sight import Sight
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef, Step, StepKind
from harness.model.values import Phase, Witness

_BEGINS: Final = (StepKind.RUN, StepKind.RESTORE, StepKind.IMPORT)
_COPIED: Final = (Witness.COPIED, Witness.RESIDENT, Witness.DISK)
_SEES_PARTS: Final = ("parts", "image")


class _Account(NamedTuple):
    """What the step that began a state says of itself."""

    label: str
    cached: int
    restored: int
    forwarded: int
    demanded: int
    """Tokens that were either reused or forwarded, if the counts are right."""
    from_disk: int = 0
    """Bytes that came from the disk tier."""


def check(subject: Subject) -> Problems:
    """Every passing exact or near check: counters bear out its witness, and a look was taken after the restore."""
    if subject.sight is None:
        return
    for index, cell in enumerate(subject.body["cells"]):
        plan = subject.sight.plans.get(cell["id"])
        specs = (
            {spec.id: spec for spec in plan.checks if spec.kind in (CheckKind.EXACT, CheckKind.NEAR)} if plan else {}
        )
        for number, result in enumerate(cell["checks"]):
            spec = specs.get(result["id"])
            if plan and spec and spec.candidate and result["outcome"] == "pass":
                fault = _fault(subject.sight, plan, spec, spec.candidate)
                if fault:
                    yield Problem(f"/body/cells/{index}/checks/{number}", f"{spec.id} passes; {fault}")


def _fault(sight: Sight, plan: CellPlan, spec: CheckSpec, ref: PointRef) -> str:
    steps = next((arm.steps for arm in plan.arms if arm.id == ref.arm), ())
    step = next((one for one in steps if one.label == ref.label), None)
    begun = _begun(sight, plan, ref, steps)
    account = _account(sight, plan, ref, begun, step) if begun and step else None
    if step is None or account is None:
        return "the step that began its state left no record"
    if account.cached + account.forwarded != account.demanded:
        return f"{account.cached} tokens reused and {account.forwarded} forwarded do not make {account.demanded}"
    if spec.witness in _COPIED:
        return _not_copied(sight, plan, ref, account, from_disk=spec.witness is Witness.DISK)
    if spec.witness is Witness.REUSED:
        return "" if account.cached else "no token was reused"
    if spec.witness is Witness.LIVE:
        return "" if account.cached and not account.restored else "the live session did not go on"
    if spec.witness is Witness.REFUSED:
        return "a refusal witnesses no exact state"
    if step.kind in (StepKind.RUN, StepKind.RESUME) and (account.cached or account.restored):
        return f"it claims no restore and reused {account.cached} tokens"
    return ""


def _not_copied(sight: Sight, plan: CellPlan, ref: PointRef, account: _Account, *, from_disk: bool) -> str:
    if not account.cached:
        return "no token was restored"
    if not account.restored:
        return "no byte was copied back"
    looks = sight.points(plan.id, PointRef(arm=ref.arm, label=account.label))
    restored = [look for look in looks if look.phase is Phase.RESTORED]
    if sight.grade in _SEES_PARTS and not restored and not _is_unseen(plan, ref.arm, account.label):
        return "nobody looked right after the restore"
    if from_disk and not account.from_disk:
        return "no byte came from the disk"
    if any(look.position != account.cached for look in restored):
        return f"{account.cached} tokens were restored, and the look is at {restored[0].position}"
    return ""


def _is_unseen(plan: CellPlan, arm: str, label: str) -> bool:
    """Whether the scenario wants nobody to look after that restore."""
    return any(step.unseen for one in plan.arms if one.id == arm for step in one.steps if step.label == label)


def _begun(sight: Sight, plan: CellPlan, ref: PointRef, steps: Sequence[Step]) -> Step | None:
    """The step that began the state which a step works on: itself, or the last run or restore in its session."""
    own = next((one for one in steps if one.label == ref.label), None)
    if own is None or own.kind in (*_BEGINS, StepKind.EXTEND):
        return own
    found: Step | None = None
    for one in steps:
        record = sight.steps.get((plan.id, ref.arm, one.label))
        refused = record is not None and record.ended == "refused"
        if one.session == own.session and one.kind in _BEGINS and not refused:
            found = one
        if one is own:
            break
    return found


def _account(sight: Sight, plan: CellPlan, ref: PointRef, begun: Step, own: Step) -> _Account | None:
    key = (plan.id, ref.arm, begun.label)
    if begun.kind in (StepKind.RESTORE, StepKind.IMPORT):
        record = sight.steps.get(key)
        if record is None or record.ended != "done":
            return None
        cached, restored = record.detail.get("cached", 0), record.detail.get("restored_bytes", 0)
        return _Account(begun.label, int(cached), int(restored), 0, int(cached))
    turn, more = sight.turns.get(key), sight.turns.get((plan.id, ref.arm, ref.label))
    if turn is None:
        return None
    resumed = more is not None and own.kind is StepKind.RESUME and begun.until is not None
    forwarded = turn.prefilled + (more.prefilled if more is not None and resumed else 0)
    demanded = turn.prompt_tokens if resumed or begun.until is None else begun.until
    return _Account(begun.label, turn.cached, turn.restored_bytes, forwarded, demanded, turn.disk_bytes)


RULE = Rule(
    id="CG308",
    text="Where a restore is claimed, tokens and bytes were restored and the state was looked at right after it.",
    pain="A restore that does nothing, and a prompt that is forwarded again, give perfect equality.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "restore_of_nothing",
        "no_bytes_copied",
        "tokens_unaccounted",
        "nobody_looked",
    ),
    certificate=check,
)
