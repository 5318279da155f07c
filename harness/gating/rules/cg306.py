"""CG306: a reason exactly where an outcome needs one."""

from __future__ import annotations

from typing import Final

from harness.gating.rule import Body, Problem, Problems, Rule, Subject

_NEED_REASON: Final = frozenset({"inconclusive", "error", "not_run", "not_supported", "excluded"})
"""Outcomes of cells; a pass needs none, a fail has its failure reasons."""


def check(subject: Subject) -> Problems:
    """Cells and checks."""
    for index, cell in enumerate(subject.body["cells"]):
        needed = cell["outcome"] in _NEED_REASON
        if needed != bool(cell.get("reason")):
            yield _problem(f"/body/cells/{index}", cell, needed=needed)
        for number, result in enumerate(cell["checks"]):
            needed = result["outcome"] != "pass"
            if needed != bool(result.get("reason")):
                yield _problem(f"/body/cells/{index}/checks/{number}", result, needed=needed)


def _problem(at: str, record: Body, *, needed: bool) -> Problem:
    verb = "no reason" if needed else f"the reason {record.get('reason')}"
    return Problem(f"{at}/reason", f"has {verb} with the outcome {record['outcome']}")


RULE = Rule(
    id="CG306",
    text="A cell or check has a reason exactly where its outcome needs one.",
    pain="`not_run` without a reason reads like a pass that was forgotten; a pass with one is no pass.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "reason_dropped",
        "reason_added",
    ),
    certificate=check,
)
