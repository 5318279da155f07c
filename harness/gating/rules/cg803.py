"""CG803: who says how many has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problems, Rule

if TYPE_CHECKING:
    from harness.deriving.prose import Prose


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """A count that cites cells is that of the certificate: so many passed, of so many that the scenario runs."""
    from harness.gating.citing import counts

    yield from counts(facts, prose)


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
