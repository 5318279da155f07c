"""CG010: every cell passed, where the caller requires it."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.folder import Entry, Kind
from harness.gating.rule import Problem, Problems, Rule, Subject


def check_certificate(subject: Subject) -> Problems:
    """Every cell of a current certificate is ``pass``, and all of it; what the scenario excludes is not asked for."""
    if subject.state != "current":
        return
    for index, cell in enumerate(subject.body.get("cells", ())):
        if cell["outcome"] not in ("pass", "excluded"):
            reason = f" ({cell['reason']})" if cell.get("reason") else ""
            yield Problem(f"/body/cells/{index}", f"{cell['id']} is {cell['outcome']}{reason}")
    overall = subject.body["decision"]["overall"]
    if overall != "pass":
        yield Problem("/body/decision/overall", f"is {overall}")


def check_entry(entry: Entry) -> Problems:
    """A draft claims nothing, so it passes nothing."""
    if entry.kind is Kind.DRAFT:
        yield Problem("", "is a draft, which counts as not passed")


RULE = Rule(
    id="CG010",
    text="Every current certificate passed, each of its cells too (asked with --require-pass).",
    pain="A stop is listed, nobody reads the list, and the job is green.",
    hint="look at the cell with `statecert explain`; mend the engine or the scenario, and run again",
    failing=(
        "cell_fails",
        "draft",
        "campaign_misses",
    ),
    exit_code=ExitCode.FINDINGS,
    option="--require-pass",
    certificate=check_certificate,
    entry=check_entry,
)
