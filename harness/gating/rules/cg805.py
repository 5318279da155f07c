"""CG805: what is over is called historical."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problems, Rule

if TYPE_CHECKING:
    from harness.deriving.prose import Prose


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """A citation of a certificate that does not hold any more stands in a sentence that says *historical*."""
    from harness.gating.citing import standing

    yield from standing(facts, prose)


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
