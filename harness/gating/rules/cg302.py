"""CG302: the decision follows from axes, cells and controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.gating.rule import Body, Problem, Problems, Rule, Subject

_WORST: Final = ("error", "stop", "inconclusive", "pass", "not_evaluated")
_NO_QUESTION: Final = ("CTRL.", "REPEAT.", "STATE.", "RUN.")
_AS_VERDICT: Final = {
    "error": "error",
    "fail": "stop",
    "inconclusive": "inconclusive",
    "not_run": "inconclusive",
    "not_supported": "inconclusive",
    "pass": "pass",
}


def check(subject: Subject) -> Problems:
    """Fold the cells again, by the words of the body alone."""
    body = subject.body
    decision, cells = body["decision"], body["cells"]
    wanted = "error" if decision["reasons"] else _worst([_AS_VERDICT[o] for o in _outcomes(cells) if o in _AS_VERDICT])
    if decision["overall"] != wanted:
        yield Problem("/body/decision/overall", f"says {decision['overall']}; its cells give {wanted}")
    worst_axis = _worst(list(decision["by_axis"].values()))
    if decision["overall"] == "pass" and worst_axis != "pass":
        yield Problem("/body/decision/by_axis", f"holds {worst_axis}, and overall says pass")
    yield from _axes(body, subject.axes)
    yield from _totals(body)
    for index, cell in enumerate(cells):
        if not _is_plain_pass(cell):
            yield from _cell(f"/body/cells/{index}", cell)


def _axes(body: Body, spoken_of: frozenset[str]) -> Problems:
    """An axis is no better than the worst check on it; one without checks is not evaluated or has no run cell.

    Controls and repeatability make comparisons believable; where nothing was compared they say nothing of exactness.
    """
    for axis in sorted(spoken_of - body["decision"]["by_axis"].keys()):
        yield Problem("/body/decision/by_axis", f"says nothing of {axis}, and checks speak of it")
    for axis, verdict in body["decision"]["by_axis"].items():
        checks = [
            check for cell in body["cells"] if axis in spoken_of for check in cell["checks"] if check["axis"] == axis
        ]
        asking = [check for check in checks if axis != "exactness" or check["code"].startswith("EXACT.")]
        if verdict == "pass" and (not asking or any(check["outcome"] != "pass" for check in checks)):
            yield Problem(f"/body/decision/by_axis/{axis}", "says pass; not every check on it passed, or there is none")
        if verdict == "not_evaluated" and asking:
            yield Problem(f"/body/decision/by_axis/{axis}", f"says not_evaluated; {len(asking)} checks speak of it")


def _totals(body: Body) -> Problems:
    outcomes = _outcomes(body["cells"])
    for name, count in body["totals"].items():
        found = len(outcomes) if name == "planned" else outcomes.count(name)
        if count != found:
            yield Problem(f"/body/totals/{name}", f"says {count}; {found} cells are listed")


def _cell(at: str, cell: Body) -> Problems:
    """A passing cell has checks beyond its controls, and all of them passed; one with a blocked probe was not run."""
    outcome, results = cell["outcome"], [check["outcome"] for check in cell["checks"]]
    if outcome in ("pass", "fail", "inconclusive") and not results:
        yield Problem(f"{at}/outcome", f"says {outcome}; no check was asked")
    blocked = outcome == "not_run" and "not_run" in results
    if outcome in ("not_run", "not_supported", "excluded") and results and not blocked:
        yield Problem(f"{at}/outcome", f"says {outcome}; {len(results)} checks were asked")
    if outcome in ("pass", "fail", "inconclusive") and results:
        worst = _worst([_AS_VERDICT[result] for result in results])
        if _AS_VERDICT[outcome] != worst:
            yield Problem(f"{at}/outcome", f"says {outcome}; its checks come to {worst}")
    if outcome == "pass" and not any(_asks(check["code"]) for check in cell["checks"]):
        yield Problem(f"{at}/outcome", "says pass; nothing was asked beyond controls")


def _is_plain_pass(cell: Body) -> bool:
    """Tell whether a cell passes as nearly all do: every check of it did, and one of them asks."""
    checks = cell["checks"]
    return (
        cell["outcome"] == "pass"
        and all(check["outcome"] == "pass" for check in checks)
        and any(_asks(check["code"]) for check in checks)
    )


def _asks(code: str) -> bool:
    return not code.startswith(_NO_QUESTION)


def _outcomes(cells: Sequence[Body]) -> list[str]:
    return [cell["outcome"] for cell in cells]


def _worst(verdicts: Sequence[str]) -> str:
    return min(verdicts, key=_WORST.index, default="error")


RULE = Rule(
    id="CG302",
    text="Overall follows from cells, axes and checks, worst first; nothing judged is an error.",
    pain="Zero checks make a green line; one pass outvotes a control that was not seen.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "overall_raised",
        "axis_raised",
        "axis_hidden",
        "cell_raised",
        "cell_without_checks",
        "totals_wrong",
    ),
    passing="valid_stop",
    certificate=check,
)
