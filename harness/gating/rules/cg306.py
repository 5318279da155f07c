"""CG306: a reason exactly where an outcome needs one."""

from __future__ import annotations

from typing import Final

from harness.gating.rule import Body, Problem, Problems, Rule, Subject

_NEED_REASON: Final = frozenset({"inconclusive", "error", "not_run", "not_supported", "excluded"})
"""Outcomes of cells; a pass needs none, a fail has its failure reasons."""


def check(subject: Subject) -> Problems:
    """Cells and checks."""
    for index, cell in enumerate(subject.body["cells"]):
        at = f"/body/cells/{index}"
        yield from _one(at, cell, needed=cell["outcome"] in _NEED_REASON)
        for number, result in enumerate(cell["checks"]):
            yield from _one(f"{at}/checks/{number}", result, needed=result["outcome"] != "pass")


def _one(at: str, record: Body, *, needed: bool) -> Problems:
    if needed != bool(record.get("reason", "")):
        verb = "no reason" if needed else f"the reason {record.get('reason')}"
        yield Problem(f"{at}/reason", f"has {verb} with the outcome {record['outcome']}")


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
