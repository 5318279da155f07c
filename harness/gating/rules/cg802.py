"""CG802: what is cited says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problems, Rule

if TYPE_CHECKING:
    from harness.deriving.prose import Prose


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """Each citation finds its certificate, and there the value that its words give, to the last printed digit."""
    from harness.gating.citing import values

    yield from values(facts, prose)


RULE = Rule(
    id="CG802",
    text="Every citation finds a certificate, and there the value that its words give.",
    pain="A number in a description is of another run or device, and the link beside it looks like proof.",
    hint="correct the text, or cite what it rests on: [words](cert:ID#POINTER), see docs/formats/claims.md",
    failing=(
        "cites_nothing",
        "cites_another_number",
        "cites_another_word",
        "cites_no_value",
        "cites_another_unit",
        "cites_a_stop_as_a_pass",
        "cites_the_opposite",
        "cites_a_number_beside_a_word",
        "counts_beside_a_word",
        "cites_one_number_of_two",
        "cites_in_a_heading",
        "cites_after_a_fence",
        "cites_others_as_its_own",
    ),
    passing="valid_claims",
    exit_code=ExitCode.FINDINGS,
    option="--claims",
    prose=check,
)
