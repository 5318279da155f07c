"""``RUN.FINISHED``: what was planned was run, wholly, with the prompts that were declared.

A crash, a hang or a lost observation is an ``error``: it says nothing about exactness, and nothing may be concluded
from what is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.deriving.checks.answers import answer, refusal_outcome
from harness.deriving.course import astray
from harness.deriving.looks import TURNS, expected_phases, source
from harness.deriving.prompts import prompt_summary
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import Turn
from harness.model.scenario import Arm, CheckSpec, PointRef, Step, StepKind
from harness.model.values import Outcome, Phase


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if view.crashes:
        crash = view.crashes[0]
        where: dict[str, str | int] = {"arm": crash.arm, "label": crash.label, "rep": crash.rep, "how": crash.detail}
        return answer(spec, Outcome.ERROR, str(crash.kind), detail=where)
    events = [event.event for event in view.events]
    if events != ["begin", "end"]:
        return answer(spec, Outcome.ERROR, "cell_not_closed", observed=" ".join(events) or "none", limit="begin end")
    count = 0
    for arm, rep, step in _planned(view):
        count += 1
        fault = _step_fault(view, spec, arm, rep, step)
        if fault is not None:
            return fault
    found = astray(view.cell, view.course, pauses=view.pauses)
    if found is not None:
        where = {"arm": found.arm, "label": found.label, "rep": found.rep, "what": found.what}
        return answer(spec, Outcome.ERROR, "observation_missing" if found.missing else "out_of_place", detail=where)
    return answer(spec, Outcome.PASS, observed=count, limit=count, detail={"steps": count})


def _planned(view: CellView) -> Iterator[tuple[Arm, int, Step]]:
    for arm in view.cell.arms:
        for rep in view.reps(arm.id):
            for step in arm.steps:
                yield arm, rep, step


def _step_fault(view: CellView, spec: CheckSpec, arm: Arm, rep: int, step: Step) -> CheckResult | None:
    ref = PointRef(arm=arm.id, label=step.label)
    where: dict[str, str | int] = {"arm": arm.id, "label": step.label, "rep": rep}
    record = view.record(ref, rep)
    if record is not None and record.ended == "refused":
        if step.may_refuse:
            return None
        outcome, reason = refusal_outcome(arm, record)
        return answer(spec, outcome, reason, detail={**where, "refusal": record.code})
    fault = (
        _unrecorded(view, ref, rep, step)
        or _decode_fault(view, ref, rep, step)
        or _finish_fault(view, ref, rep, step)
        or _prompt_fault(view, arm, view.turn(ref, rep), step)
    )
    return answer(spec, Outcome.ERROR, fault, detail=where) if fault else None


def _unrecorded(view: CellView, ref: PointRef, rep: int, step: Step) -> str:
    if step.kind in TURNS:
        there = view.turn(ref, rep) is not None
    elif step.kind is StepKind.STORE:
        there = view.store(ref, rep) is not None
    else:
        record = view.record(ref, rep)
        there = record is not None and record.kind == step.kind
    lacks = any(view.look(ref, phase, rep) is None for phase in expected_phases(step))
    return "observation_missing" if lacks or not there else ""


def _decode_fault(view: CellView, ref: PointRef, rep: int, step: Step) -> str:
    """Return whether another number of tokens was decoded than declared; a stop token may have ended it early."""
    turn, look = view.turn(ref, rep), view.look(ref, Phase.END, rep)
    declared = step.cancel_after or step.decode
    if step.stop and look is not None and 0 < len(look.tokens) < declared:
        declared = len(look.tokens)
    counts = {turn.decoded if turn is not None else declared, len(look.tokens) if look is not None else declared}
    return "" if counts == {declared} else "other_decode_count"


def _finish_fault(view: CellView, ref: PointRef, rep: int, step: Step) -> str:
    """Return whether a decode that may end early ended for another reason than its tokens show."""
    look = view.look(ref, Phase.END, rep)
    if look is None or not (step.stop or step.cancel_after):
        return ""
    turn, record = view.turn(ref, rep), view.record(ref, rep)
    said = turn.finish if turn is not None else record.detail.get("finish") if record is not None else None
    stop = _stop_token(view, step)
    if stop is not None and stop in look.tokens:
        return "" if said == "stop" and look.tokens.index(stop) == len(look.tokens) - 1 else "other_finish"
    if stop is None and step.stop:
        return "observation_missing"
    shown = "cancel" if len(look.tokens) == step.cancel_after else "length"
    return "" if said == shown else "other_finish"


def _stop_token(view: CellView, step: Step) -> int | None:
    """Return the token that ends a decode, where it is known."""
    if "of" not in step.stop:
        return int(step.stop["token"]) if step.stop else None
    arm, _, label = str(step.stop["of"]).partition(".")
    look, index = view.look(PointRef(arm=arm, label=label), Phase.END), int(step.stop["index"])
    return look.tokens[index] if look is not None and index < len(look.tokens) else None


def _prompt_fault(view: CellView, arm: Arm, turn: Turn | None, step: Step) -> str:
    """Return whether a turn had another prompt than declared."""
    begun = source(arm, step.label) if step.kind is StepKind.RESUME else step
    if turn is None or begun is None or begun.prompt is None:
        return ""
    count, _, digest = prompt_summary(view.cell.prompts, begun.prompt)
    length = count + (turn.cached if step.kind is StepKind.EXTEND else 0)
    right = (view.templated or turn.prompt_tokens == length) and turn.prompt_digest == digest
    return "" if right else "other_prompt"
