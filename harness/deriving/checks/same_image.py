"""``EXACT.IMAGE``: two exported images have the same bytes, in every run of their arms."""

from __future__ import annotations

from collections.abc import Sequence

from harness.deriving.checks.answers import absent, answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec, PointRef
from harness.model.values import Outcome

Image = tuple[str, int]
"""Digest and bytes."""


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if spec.candidate is None or spec.reference is None:
        raise ValueError(f"check {spec.id} compares nothing")
    ours, theirs = images(view, spec.candidate), images(view, spec.reference)
    for ref, found in ((spec.candidate, ours), (spec.reference, theirs)):
        if not found:
            return absent(view, spec, ref, {})
    if len(set(theirs)) > 1:
        return answer(spec, Outcome.INCONCLUSIVE, "not_repeatable", detail={"at": str(spec.reference)})
    for digest, size in ours:
        if (digest, size) != theirs[0]:
            detail = {"sha256": digest, "reference_sha256": theirs[0][0]}
            return answer(spec, Outcome.FAIL, "other_image", observed=size, limit=theirs[0][1], detail=detail)
    return answer(spec, Outcome.PASS, observed=ours[0][1], limit=theirs[0][1], detail={"sha256": ours[0][0]})


def images(view: CellView, ref: PointRef) -> Sequence[Image]:
    """Return what a step exported, once per run of its arm; empty if a run exported nothing."""
    found: list[Image] = []
    for rep in view.reps(ref.arm):
        record = view.record(ref, rep)
        if record is None or record.ended != "done":
            return ()
        digest, size = record.detail.get("sha256", ""), record.detail.get("bytes", 0)
        if not isinstance(digest, str) or not isinstance(size, int) or not digest or not size:
            return ()
        found.append((digest, size))
    return tuple(found)
