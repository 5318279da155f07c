"""CG305: failure reasons and failed checks, one to one."""

from __future__ import annotations

from harness.gating.rule import Body, Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Each check that did not pass has its reason listed, in order; nothing else is listed."""
    for index, cell in enumerate(subject.body["cells"]):
        yield from _cell(f"/body/cells/{index}", cell)


def _cell(at: str, cell: Body) -> Problems:
    failed = [(one["id"], one["code"], one.get("reason", "")) for one in cell["checks"] if one["outcome"] != "pass"]
    listed = [(one["check"], one["code"], one["reason"]) for one in cell["failure_reasons"]]
    if failed != listed:
        first = next((one for one in failed if one not in listed), None) or next(
            (one for one in listed if one not in failed), ("", "", "")
        )
        yield Problem(
            f"{at}/failure_reasons", f"lists {len(listed)} for {len(failed)} checks that did not pass ({first[0]})"
        )
    if cell["outcome"] == "pass" and listed:
        yield Problem(f"{at}/failure_reasons", "lists a reason; the cell says pass")
    if cell["outcome"] == "fail" and not listed:
        yield Problem(f"{at}/failure_reasons", "lists nothing; the cell says fail")


RULE = Rule(
    id="CG305",
    text="Failure reasons and checks that did not pass correspond one to one; a passing cell has none.",
    pain="A stop without a reason cannot be acted upon; a pass with one hides what failed.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "failure_reason_dropped",
        "failure_reason_added",
    ),
    passing="valid_stop",
    certificate=check,
)
