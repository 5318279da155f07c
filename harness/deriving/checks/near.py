"""``NEAR.STATE``: the candidate lies within the scenario's limits of its reference, and decodes the same tokens.

For two numeric paths that may legitimately differ in their last bits. Everything that holds for an exact comparison
holds here: the witness, every look, finite logits, a reference that repeats itself. Then each part may be as far away
as the scenario says; a part that it does not name, its shape, the tokens and the position must be equal. How far a part
is was measured from the bytes of both sides while the run went on. Passing says nothing about exactness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from harness.deriving.checks.answers import answer
from harness.deriving.checks.exact import (
    difference_detail,
    miscounted,
    missing_look,
    not_finite,
    not_repeatable,
    nothing_compared,
    reason_of,
    witness_doubt,
    witnessed,
)
from harness.deriving.compare import Comparison, Differing
from harness.deriving.pairing import comparisons, pairing
from harness.deriving.questions import MEASURES
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import Distance, PartRow
from harness.model.noun import replace
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


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


def limit_of(limits: Mapping[str, Mapping[str, int]], part: str, family: str) -> Mapping[str, int]:
    """Return how far a part may lie away; empty: its bytes must be equal. Its own name goes before its family's.

    A limit of nothing is no distance: zeros of two signs lie no place apart, and are two states.
    """
    found = limits.get(part) or limits.get(family) or {}
    return found if any(found.values()) else {}


def _judged(view: CellView, spec: CheckSpec, compared: Sequence[Comparison]) -> CheckResult:
    measured: list[Distance] = []
    for one in compared:
        for differing in one.differing:
            found = _measured(view, spec, one, differing)
            if isinstance(found, CheckResult):
                return found
            measured.append(found)
    phases = " ".join(str(one.pair.phase) for one in compared)
    parts, apart = sum(one.parts for one in compared), sum(one.parts_differing for one in compared)
    shown = {"phases": phases, "parts_compared": parts, "parts_differing": apart, **witnessed(view, spec)}
    farthest = max(_shares(spec, measured), default=None)
    if farthest is None:
        return answer(spec, Outcome.PASS, observed=0, limit=0, detail=shown)
    _, part, measure, observed, limit = farthest
    told = replace(spec, unit_name=measure)
    return answer(told, Outcome.PASS, observed=observed, limit=limit, detail={**shown, "part": part, **_most(measured)})


def _measured(view: CellView, spec: CheckSpec, compared: Comparison, differing: Differing) -> Distance | CheckResult:
    """Return how far one thing lies away, or the answer where that is too far or not known."""
    limits = limit_of(spec.limits, differing.name, differing.family) if differing.how == "bytes" else {}
    if not limits:
        detail = difference_detail(view, spec, compared, differing)
        return answer(spec, Outcome.FAIL, reason_of(differing), observed=1, limit=0, detail=detail)
    detail = {"phase": str(compared.pair.phase), "part": differing.name, "family": differing.family}
    found = view.distances.get((spec.id, compared.pair.phase, differing.name))
    if found is None or not _fits(found, view.table(compared.pair.candidate).rows):
        return answer(spec, Outcome.ERROR, "distance_missing", detail=detail)
    detail = {**detail, **_most([found]), "differing_elements": found.differing_elements, "elements": found.elements}
    if not found.finite:
        return answer(spec, Outcome.FAIL, "not_finite", detail=detail)
    for measure, limit in limits.items():
        observed = getattr(found, measure)
        if observed > limit:
            told = replace(spec, unit_name=measure)
            return answer(told, Outcome.FAIL, "beyond_tolerance", observed=observed, limit=limit, detail=detail)
    return found


def _fits(found: Distance, rows: Sequence[PartRow]) -> bool:
    """Tell whether a distance is one of this part: of its element type and size, and of something that differs.

    Each measure is rounded up, so that either all of them are nothing (zeros of two signs) or none is.
    """
    row = next((row for row in rows if row.name == found.part), None)
    if not found.differing_elements or found.differing_elements > found.elements:
        return False
    if found.finite and len({getattr(found, measure) > 0 for measure in MEASURES}) > 1:
        return False
    return row is None or (found.element_type, found.elements) == (row.element_type, prod(row.shape))


def _shares(spec: CheckSpec, measured: Sequence[Distance]) -> Iterator[tuple[int, str, str, int, int]]:
    """Yield how much of its limit each distance uses, in billionths, with what it is about."""
    for one in measured:
        for measure, limit in limit_of(spec.limits, one.part, one.family).items():
            observed = getattr(one, measure)
            yield observed * 10**9 // max(1, limit), one.part, measure, observed, limit


def _most(measured: Sequence[Distance]) -> dict[str, str | int]:
    return {measure: max(getattr(one, measure) for one in measured) for measure in MEASURES}
