"""CG804: a claim has a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problems, Rule

if TYPE_CHECKING:
    from harness.deriving.prose import Prose


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """A sentence about a pair of types or a device that gives a verdict or a number cites a certificate.

    Where a current certificate of that device has the pair and says the opposite, that is an error wherever it stands;
    otherwise it is one only under a heading about qualification, and elsewhere a note.
    """
    from harness.gating.claimed import uncited

    yield from uncited(facts, prose)


RULE = Rule(
    id="CG804",
    text="A sentence that says how a pair of types or a device fared cites a certificate, and none says the opposite.",
    pain="A matrix in a description names devices on which nothing was ever run, and pairs that the record stopped.",
    hint="cite a certificate, [words](cert:ID#POINTER), or say less; under a heading about qualification it must",
    failing=(
        "uncited_under_qualification",
        "uncited_row_of_a_table",
        "contradicts_a_certificate",
        "cites_another_device",
        "cites_another_pair",
    ),
    passing="valid_claims",
    exit_code=ExitCode.FINDINGS,
    option="--claims",
    prose=check,
)
