"""``REFUSE.CODE``: the engine said no, by name, with one of these names."""

from __future__ import annotations

from harness.deriving.checks.answers import absent, answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question, for every run of the arm."""
    if spec.at is None:
        raise ValueError(f"check {spec.id} names no step")
    limit = " ".join(spec.codes)
    code = ""
    for rep in view.reps(spec.at.arm):
        record = view.record(spec.at, rep)
        if record is None and view.turn(spec.at, rep) is None:
            return absent(view, spec, spec.at, {"rep": rep})
        if record is None or record.ended != "refused":
            return answer(spec, Outcome.FAIL, "not_refused", observed="done", limit=limit)
        code = record.code
        if code not in spec.codes:
            return answer(spec, Outcome.FAIL, "other_code", observed=code or "none", limit=limit)
    return answer(spec, Outcome.PASS, observed=code, limit=limit)
