"""CG010: every cell passed, where the caller requires it."""

from __future__ import annotations

from typing import Final

from harness.errors import ExitCode
from harness.gating.folder import Entry, Kind
from harness.gating.rule import Problem, Problems, Rule, Subject

FOREIGN_HINT: Final = (
    "the record is others', and nothing here can mend it: ask whoever published it for another one, gate it without "
    "--require-pass, or let a policy say what foreign records may show"
)
"""What to do about a foreign record: its engine was measured elsewhere, by somebody else."""


def check_certificate(subject: Subject) -> Problems:
    """Every cell of a current certificate is ``pass``, and all of it; what the scenario excludes is not asked for."""
    if subject.state != "current":
        return
    hint = FOREIGN_HINT if subject.body.get("kind") == "foreign" else ""
    for index, cell in enumerate(subject.body.get("cells", ())):
        if cell["outcome"] not in ("pass", "excluded"):
            reason = f" ({cell['reason']})" if cell.get("reason") else ""
            yield Problem(f"/body/cells/{index}", f"{cell['id']} is {cell['outcome']}{reason}", hint=hint)
    overall = subject.body["decision"]["overall"]
    if overall != "pass":
        yield Problem("/body/decision/overall", f"is {overall}", hint=hint)


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
