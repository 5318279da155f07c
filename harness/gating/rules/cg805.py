"""CG805: what is over is called historical, and what is disputed contested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problems, Rule

if TYPE_CHECKING:
    from harness.deriving.prose import Prose


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """A citation of what does not hold any more stands in a sentence that says *historical*; of a disputed one too."""
    from harness.gating.citing import standing

    yield from standing(facts, prose)


RULE = Rule(
    id="CG805",
    text="A text calls what is superseded, withdrawn or stale historical, and what a machine contradicts contested.",
    pain="The stop of last month, or of the other machine, is left out; nobody can tell which of them holds.",
    hint="cite the one that holds (`statecert history ID` names it), or write that it is historical or contested",
    failing=(
        "cites_a_superseded",
        "cites_a_withdrawn",
        "cites_a_stale",
        "cites_a_contested",
        "cites_a_number_of_a_contested",
    ),
    passing="valid_claims",
    exit_code=ExitCode.FINDINGS,
    option="--claims",
    prose=check,
)
