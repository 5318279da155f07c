"""CG801: what a text shows as generated is what certificates give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule

if TYPE_CHECKING:
    from harness.deriving.prose import Prose


def check(facts: FolderFacts, prose: Prose) -> Problems:
    """Each generated block is closed, is of a known view, and holds what its view makes of the certificates now."""
    from harness.gating.blocks import VIEWS, generated

    for line, message in prose.faults:
        yield Problem(f"#L{line}", message)
    for block in prose.blocks:
        wanted = generated(facts, block)
        if wanted is None:
            yield Problem(f"#L{block.line}", f"is no view; there are {', '.join(VIEWS)}, each with a claim")
        elif wanted != block.held:
            yield Problem(f"#L{block.line + _first(block.held, wanted)}", "is not what the certificates give")


def _first(held: str, wanted: str) -> int:
    ours, theirs = held.split("\n"), wanted.split("\n")
    return 1 + next(
        (at for at, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two), len(theirs) - 1
    )


RULE = Rule(
    id="CG801",
    text="Generated blocks of a text are what the certificates give, line by line.",
    pain="A table in a description was true when somebody pasted it, and nobody compares it with anything since.",
    hint="`statecert claims --fix` writes the blocks anew",
    failing=("block_edited", "block_without_end", "block_of_no_view", "cites_in_another_form"),
    passing="valid_claims",
    exit_code=ExitCode.FINDINGS,
    option="--claims",
    prose=check,
)
