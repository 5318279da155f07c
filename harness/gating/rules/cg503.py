"""CG503: one current certificate per claim key and machine."""

from __future__ import annotations

from harness.gating.known import repeated
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Two current records of one machine about one thing: a reader picks the one that pleases."""
    held = facts.certificates
    doubtful = repeated(held.current())
    current: dict[tuple[str, bytes], str] = {}
    for one in held if doubtful else ():
        place = (one.claim_key, bytes.fromhex(one.machine))
        if one.state != "current" or hash(place) not in doubtful:
            continue
        first = current.setdefault(place, one.path)
        if first != one.path:
            yield Problem(one.path, f"is current beside {first}, for the same claim key and machine")


RULE = Rule(
    id="CG503",
    text="At most one certificate per claim key and machine is current.",
    pain="An old stop and a new pass stand side by side, and nobody can tell which one holds.",
    hint="let the newer one replace the other: `statecert supersede OLD --by NEW --reason rerun_same_inputs`",
    failing=(
        "two_current",
        "campaign_two_current",
    ),
    passing="valid_ledger",
    folder=check,
)
