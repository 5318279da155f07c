"""CG504: a stop is in sight, or the ledger says why not."""

from __future__ import annotations

from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """What did not pass and what no event speaks of stands as current in its own file."""
    if subject.body["decision"]["overall"] == "pass" or subject.ledger.by_target.get(subject.id):
        return
    if subject.status["state"] != "current":
        yield Problem("/status/state", f"says {subject.status['state']}, and no event of the ledger says why")


RULE = Rule(
    id="CG504",
    text="What did not pass is current and shown as such, or an event of the ledger took it out of force.",
    pain="A stop is marked as old by hand, and drops out of the list without anything in its place.",
    hint="run `statecert gate --fix`; a record is taken out of force by `statecert supersede` or `withdraw`",
    failing=("stop_hidden_by_hand",),
    passing="valid_stop",
    certificate=check,
)
