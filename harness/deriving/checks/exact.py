"""``EXACT.STATE``: the candidate equals its reference in every part, the logits and the tokens.

In this order: the witness holds; every look is there; the logits are finite; something was compared; the reference
repeats itself; nothing differs; the bytes said to be copied fit the state. The first that does not hold is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.deriving.checks import witness
from harness.deriving.checks.answers import absent, answer
from harness.deriving.compare import Comparison, Differing
from harness.deriving.pairing import Pairing, candidate_look, comparisons, origin, pairing
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec, PointRef
from harness.model.values import Observability, Outcome, Phase

_SHOWS_PARTS = (Observability.PARTS, Observability.IMAGE)


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    found = pairing(view, spec)
    doubt = witness_doubt(view, spec) or missing_look(view, spec, found)
    if doubt is not None:
        return doubt
    compared = comparisons(view, spec, found)
    doubt = not_finite(spec, found) or nothing_compared(spec, compared) or not_repeatable(view, spec, found)
    judged = doubt or _judged(view, spec, compared)
    return (miscounted(view, spec) or judged) if judged.outcome is Outcome.PASS else judged


def missing_look(view: CellView, spec: CheckSpec, found: Pairing) -> CheckResult | None:
    """Return the answer where a look is missing on either side; None: all are there."""
    if not found.missing:
        return None
    ref, phase = found.missing[0]
    return absent(view, spec, ref, {"phase": str(phase)})


def not_finite(spec: CheckSpec, found: Pairing) -> CheckResult | None:
    """Return the answer where logits hold a NaN or an infinity; None: they do not."""
    for pair in found.pairs:
        if not (pair.candidate.logits_finite and pair.reference.logits_finite):
            return answer(spec, Outcome.FAIL, "not_finite", detail={"phase": str(pair.phase)})
    return None


def nothing_compared(spec: CheckSpec, compared: Sequence[Comparison]) -> CheckResult | None:
    """Return the answer where two empty things would count as equal; None: there is something."""
    for one in compared:
        if one.empty:
            where = {"phase": str(one.pair.phase), "field": one.empty[0]}
            return answer(spec, Outcome.ERROR, "nothing_compared", detail=where)
    if not sum(one.digests for one in compared):
        return answer(spec, Outcome.ERROR, "nothing_compared", observed=0)
    return None


def not_repeatable(view: CellView, spec: CheckSpec, found: Pairing) -> CheckResult | None:
    """Return the answer where the reference's second run differs at a compared look; None: it does not."""
    for pair in found.pairs:
        first = pair.reference
        if len(view.reps(first.arm)) < 2:
            continue
        again = view.same_in(first, 1)
        if again is None:
            return absent(view, spec, PointRef(arm=first.arm, label=first.label), {"phase": str(pair.phase), "rep": 1})
        if (again.root, again.logits, tuple(again.tokens)) != (first.root, first.logits, tuple(first.tokens)):
            return answer(spec, Outcome.INCONCLUSIVE, "not_repeatable", detail={"phase": str(pair.phase)})
    return None


def difference_detail(
    view: CellView, spec: CheckSpec, compared: Comparison, first: Differing
) -> Mapping[str, str | int]:
    """Return where the first difference lies, with what the run located of it."""
    detail: dict[str, str | int] = {
        "phase": str(compared.pair.phase),
        "position": compared.pair.candidate.position,
        "part": first.name,
        "family": first.family,
        "layer": first.layer,
        "how": first.how,
        "parts_differing": compared.parts_differing,
        "parts_compared": compared.parts,
    }
    located = view.differences.get((spec.id, compared.pair.phase))
    if located is not None and located.part == first.name:
        detail.update(
            byte=located.byte,
            row=located.row,
            element=located.element,
            reference_value=located.reference_value,
            candidate_value=located.candidate_value,
            differing_elements=located.differing_elements,
            differing_rows=located.differing_rows,
            shape=located.shape,
        )
    return detail


def reason_of(first: Differing) -> str:
    """Return the reason code of a difference."""
    return f"{first.name}_differ" if first.name in ("logits", "tokens", "position") else "parts_differ"


def _judged(view: CellView, spec: CheckSpec, compared: Sequence[Comparison]) -> CheckResult:
    parts = sum(one.parts for one in compared)
    for one in compared:
        if one.differing:
            first = one.differing[0]
            detail = difference_detail(view, spec, one, first)
            return answer(spec, Outcome.FAIL, reason_of(first), observed=len(one.differing), limit=0, detail=detail)
    phases = " ".join(str(one.pair.phase) for one in compared)
    shown = {"phases": phases, "parts_compared": parts, **witnessed(view, spec)}
    return answer(spec, Outcome.PASS, observed=0, limit=0, detail=shown)


def witnessed(view: CellView, spec: CheckSpec) -> Mapping[str, str | int]:
    """Return guarantee, witness and counters, for the detail of a passing comparison."""
    found = witness.account(view, _candidate(spec))
    counters = {"cached": found.cached, "restored_bytes": found.restored_bytes} if found is not None else {}
    return {"guarantee": str(spec.guarantee), "witness": str(spec.witness), **counters}


def miscounted(view: CellView, spec: CheckSpec) -> CheckResult | None:
    """Return the answer where the state is right and the count of copied bytes cannot be."""
    word = witness.miscounted(view, spec, _candidate(spec))
    detail: dict[str, str | int] = {"witness": str(spec.witness), "how": word}
    return answer(spec, Outcome.FAIL, "restore_not_witnessed", detail=detail) if word else None


def witness_doubt(view: CellView, spec: CheckSpec) -> CheckResult | None:
    """Return the answer where no restore happened as the check says; None: it did."""
    candidate = _candidate(spec)
    word = witness.broken(view, spec, candidate)
    if word == "no_record":
        return absent(view, spec, candidate, {"witness": str(spec.witness)})
    found = witness.account(view, candidate)
    if word and found is not None:
        detail: dict[str, str | int] = {
            "witness": str(spec.witness),
            "how": word,
            "at": str(found.at),
            "cached": found.cached,
            "restored_bytes": found.restored_bytes,
            "forwarded": found.forwarded,
            "prompt_tokens": found.demanded,
        }
        return answer(spec, Outcome.FAIL, "restore_not_witnessed", detail=detail)
    if not witness.restored_look_needed(spec) or view.grade not in _SHOWS_PARTS:
        return None
    if view.step(origin(view, candidate)).unseen:
        return None
    look = candidate_look(view, origin(view, candidate), Phase.RESTORED)
    return None if look is not None else absent(view, spec, candidate, {"phase": str(Phase.RESTORED)})


def _candidate(spec: CheckSpec) -> PointRef:
    if spec.candidate is None:
        raise ValueError(f"check {spec.id} has no candidate")
    return spec.candidate
