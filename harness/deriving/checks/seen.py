"""``CTRL.SEEN``: a control. Passes only if the corruption shows, where it was put.

A control that is not seen says that the harness is blind, not that the engine is wrong: the answer is ``error``, and
nothing else in the cell counts as a pass. So it is where a control is to show what a near check catches (``beyond``),
and does not: for each of its limits that speaks of something looked at, the wrong state must lie farther away in one
place at least. A limit that even a wrong state keeps can fail nothing.

A run locates, at each phase at which a control is compared with a reference arm, where the first part that both sides
have differs, and writes that down. Evidence that does not tell it lacks a line: ``observation_missing``.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.deriving.checks.answers import absent, answer
from harness.deriving.checks.exact import not_repeatable
from harness.deriving.checks.near import limit_of
from harness.deriving.checks.same_image import images
from harness.deriving.compare import Comparison
from harness.deriving.pairing import comparisons, pairing
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec, PointRef, StepKind
from harness.model.values import ArmRole, Family, Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if spec.candidate is not None and view.step(spec.candidate).kind is StepKind.EXPORT:
        return _images(view, spec)
    found = pairing(view, spec)
    if found.missing:
        ref, phase = found.missing[0]
        return absent(view, spec, ref, {"phase": str(phase)})
    doubt = not_repeatable(view, spec, found)
    compared = comparisons(view, spec, found)
    judged = doubt or _judged(spec, compared)
    if judged.outcome is not Outcome.PASS:
        return judged
    return _unlocated(view, spec, compared) or _kept(view, spec, compared) or judged


def _unlocated(view: CellView, spec: CheckSpec, compared: Sequence[Comparison]) -> CheckResult | None:
    """Return the answer where parts differ and nothing tells where; None: it is told of every look.

    Asked where the reference is a reference arm, which ran before and can be run again; of two looks of one arm the
    bytes of the first may be gone when the second is made.
    """
    if spec.candidate is None or spec.reference is None or "parts" not in spec.fields:
        return None
    arm = view.arm(spec.reference.arm)
    for one in compared if arm is not None and arm.role is ArmRole.REFERENCE else ():
        if _part_in_both_differs(view, one) and (spec.id, one.pair.phase) not in view.differences:
            return absent(view, spec, spec.candidate, {"phase": str(one.pair.phase), "what": "difference"})
    return None


def _part_in_both_differs(view: CellView, one: Comparison) -> bool:
    ours, theirs = (
        {row.name: (row.sha256, row.bytes) for row in view.table(look).rows}
        for look in (one.pair.candidate, one.pair.reference)
    )
    return any(told != theirs.get(name, told) for name, told in ours.items())


def _kept(view: CellView, spec: CheckSpec, compared: Sequence[Comparison]) -> CheckResult | None:
    """Return the answer where the control keeps a limit that it was to exceed; None: it exceeds each of them."""
    asked: dict[str, bool] = {}
    for one in compared:
        rows = view.table(one.pair.candidate).rows if "parts" in spec.fields else []
        looked = [(row.name, row.family) for row in rows]
        looked += [(Family.LOGITS, Family.LOGITS)] if "logits" in spec.fields and one.pair.candidate.logits else []
        for name, family in looked:
            limits = limit_of(spec.limits, name, family)
            if limits:
                found = view.distances.get((spec.id, one.pair.phase, name))
                exceeded = found is not None and any(getattr(found, word) > most for word, most in limits.items())
                key = name if name in spec.limits else family
                asked[key] = asked.get(key, False) or exceeded
    kept = sorted(key for key, exceeded in asked.items() if not exceeded)
    if spec.limits and (kept or not asked):
        detail = {"limits_kept": " ".join(kept)}
        return answer(spec, Outcome.ERROR, "control_within_limits", observed=(kept or ["nothing"])[0], detail=detail)
    return None


def _images(view: CellView, spec: CheckSpec) -> CheckResult:
    """Judge a control whose two steps export images."""
    sides = []
    for ref in (spec.candidate, spec.reference):
        found = images(view, ref) if ref is not None else ()
        if ref is None or not found:
            return absent(view, spec, ref or PointRef(arm="", label=""), {})
        sides.append(set(found))
    if sides[0] & sides[1]:
        return answer(spec, Outcome.ERROR, "control_not_seen", observed="nothing", limit="image")
    return answer(spec, Outcome.PASS, observed="image", limit="image")


def _judged(spec: CheckSpec, compared: Sequence[Comparison]) -> CheckResult:
    limit = spec.part or "any"
    for one in compared:
        if one.differing and one.digests:
            return _at_first(spec, one, limit)
    return answer(spec, Outcome.ERROR, "control_not_seen", observed="nothing", limit=limit)


def _at_first(spec: CheckSpec, one: Comparison, limit: str) -> CheckResult:
    hits = [part for part in one.differing if not spec.part or part.is_called(spec.part)]
    # a position alone is the engine's own count, not something that was looked at
    telling = [part for part in hits if part.name != "position"]
    detail: dict[str, str | int] = {
        "phase": str(one.pair.phase),
        "part": (telling or one.differing)[0].name,
        "parts_differing": one.parts_differing,
        "parts_compared": one.parts,
    }
    if telling:
        return answer(spec, Outcome.PASS, observed=telling[0].name, limit=limit, detail=detail)
    return answer(spec, Outcome.ERROR, "control_not_seen", observed=one.differing[0].name, limit=limit, detail=detail)
