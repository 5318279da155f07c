"""CG803: who says how many has counted."""

from __future__ import annotations

from harness.deriving.prose import Citation, Prose, counted
from harness.errors import ExitCode
from harness.gating.prose import cited, run_rows
from harness.gating.rule import Body, FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """A count that cites cells is that of the certificate: so many passed, of so many that the scenario runs."""
    for citation in prose.citations:
        if citation.pointer != "cells":
            continue
        for one in cited(facts, citation):
            if fault := _fault(citation, facts.body(one.id)):
                yield Problem(f"#L{citation.line}", f"{fault} (certificate {one.id[:12]})")


def _fault(citation: Citation, body: Body) -> str:
    said = counted(citation.text)
    if said is None:
        return f"cites cells and counts nothing: {citation.text!r}"
    told = run_rows(body)
    passed = sum(one.outcome == "pass" for one in told)
    return "" if said == (passed, len(told)) else f"says {said[0]} of {said[1]}; {passed} of {len(told)} passed"


RULE = Rule(
    id="CG803",
    text="A count of cells in a text is the certificate's: how many passed, of how many.",
    pain="All seven rows pass, says the description; the record has six, two of which stopped.",
    hint="write what passed of what was run, or `statecert claims --fix` a block with view=matrix",
    failing=("counts_too_many", "all_of_too_few", "counts_nothing"),
    passing="valid_claims",
    exit_code=ExitCode.FINDINGS,
    option="--claims",
    prose=check,
)
