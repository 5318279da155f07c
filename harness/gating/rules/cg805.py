"""CG805: what is over is called historical."""

from __future__ import annotations

from harness.deriving.prose import Prose
from harness.errors import ExitCode
from harness.gating.known import CertificateFacts
from harness.gating.prose import cited
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """A citation of a certificate that does not hold any more stands in a sentence that says *historical*."""
    for citation in prose.citations:
        for one in cited(facts, citation):
            state = one.state if one.state != "current" else _stale(facts, one)
            if state and not citation.historical:
                yield Problem(
                    f"#L{citation.line}", f"cites {one.id[:12]}, which is {state}, and does not say historical"
                )


def _stale(facts: FolderFacts, one: CertificateFacts) -> str:
    """Whether its files have changed since; asked only where freshness is."""
    fresh = facts.asked.fresh
    if fresh is None:
        return ""
    body = facts.body(one.id)
    sets = (*body["harness"]["path_sets"], *body["subject"]["path_sets"])
    return "stale" if any(fresh.fault(one, body["subject"]["commit"]) for one in sets) else ""


RULE = Rule(
    id="CG805",
    text="A text that cites a certificate which was superseded, withdrawn or has become stale calls it historical.",
    pain="The stop of last month and the pass of today are quoted side by side; nobody can tell which one holds.",
    hint="cite the certificate that holds (`statecert history ID` names it), or write that the cited one is historical",
    failing=("cites_a_superseded", "cites_a_withdrawn", "cites_a_stale"),
    passing="valid_claims",
    exit_code=ExitCode.FINDINGS,
    option="--claims",
    prose=check,
)
