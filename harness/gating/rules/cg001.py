"""CG001: something was evaluated."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """A folder without one certificate, readable or not, was not checked: it is empty."""
    if not facts.certificates and not facts.unread:
        yield Problem("", "holds no certificate")


RULE = Rule(
    id="CG001",
    text="At least one certificate is in the folder.",
    pain="A gate that is green on nothing is green after a wrong path, a lost checkout or a deleted record.",
    hint="name the folder that holds certificates, or issue one with `statecert run`",
    failing=("empty",),
    exit_code=ExitCode.NOTHING,
    folder=check,
)
