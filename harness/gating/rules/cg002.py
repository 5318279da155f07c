"""CG002: who is judged does not choose the judge."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """A change that edits policy or keys adds no record: those of the base were used, its own come by themselves."""
    since = facts.asked.since
    if since is None or not since.settings:
        return
    from harness.gating.since import KEPT

    before = {one.path for one in since.records(facts.folder.root)}
    added = [entry.path for entry in facts.folder.entries if entry.kind in KEPT and entry.path not in before]
    if added:
        names = ", ".join(sorted(since.settings)[:4])
        yield Problem(
            added[0], f"comes with an edit of {names}; those of the base were used, and take their own change"
        )


RULE = Rule(
    id="CG002",
    text="Policy and keys are those of the base; a change that edits them adds no record.",
    pain="A change brings its records, and with them the policy that asks for nothing and the key that signs them.",
    hint="make two changes of it: policy or keys first, records after that has been merged",
    failing=("policy_in_the_same_change", "key_in_the_same_change"),
    passing="valid_since",
    exit_code=ExitCode.FINDINGS,
    option="--since",
    folder=check,
)
