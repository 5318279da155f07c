"""CG001: something was evaluated."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """A folder in which no certificate holds, readable or not, was not checked: there is nothing in it to check."""
    if facts.unread or any(one.state == "current" for one in facts.certificates):
        return
    yield Problem("", "holds no current certificate" if facts.certificates else "holds no certificate")


RULE = Rule(
    id="CG001",
    text="At least one certificate in the folder is current.",
    pain="A gate that is green on nothing is green after a wrong path, a lost checkout or a record taken away.",
    hint="name the folder that holds certificates, or issue one with `statecert run`",
    failing=("empty", "all_withdrawn"),
    exit_code=ExitCode.NOTHING,
    folder=check,
)
