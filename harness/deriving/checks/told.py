"""``QUALITY.ANSWER``: what was decoded holds the answer, where the reference found it too.

A probe that the reference fails as well says nothing about the cache (``baseline_failed``); one whose turn did not come
about was not run (``blocked``). Neither is a pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.deriving.checks.answers import answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec, PointRef
from harness.model.values import Outcome, Phase


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question; the reference is asked in both of its runs."""
    if spec.candidate is None or spec.reference is None:
        raise ValueError(f"check {spec.id} compares nothing")
    given = _decoded(view, spec.candidate, 0)
    baseline = [_decoded(view, spec.reference, rep) for rep in view.reps(spec.reference.arm)]
    if given is None or any(tokens is None for tokens in baseline):
        return answer(spec, Outcome.NOT_RUN, "blocked", observed=0)
    stop = view.step(spec.candidate).stop.get("token")
    found = [holds(spec, tokens, stop) for tokens in baseline if tokens is not None]
    told = {"decoded": " ".join(map(str, given)), "wanted": " ".join(map(str, spec.ids))}
    if not all(found):
        return answer(spec, Outcome.INCONCLUSIVE, "baseline_failed", observed=len(given), detail=told)
    if not holds(spec, given, stop):
        return answer(spec, Outcome.FAIL, "answer_lost", observed=len(given), detail=told)
    return answer(spec, Outcome.PASS, observed=len(given), detail=told)


def holds(spec: CheckSpec, tokens: Sequence[int], stop: object) -> bool:
    """Tell whether tokens hold the answer, in either spelling."""
    told = list(tokens[:-1]) if tokens and tokens[-1] == stop else list(tokens)
    wanted = [list(ids) for ids in (spec.ids, spec.or_ids) if ids]
    if spec.entire:
        return told in wanted
    return any(told[at : at + len(ids)] == ids for ids in wanted for at in range(len(told) - len(ids) + 1))


def _decoded(view: CellView, ref: PointRef, rep: int) -> Sequence[int] | None:
    look = view.look(ref, Phase.END, rep)
    return None if look is None else look.tokens
