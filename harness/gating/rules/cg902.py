"""CG902: a record's times can be true together."""

from __future__ import annotations

from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.model.moments import untrue


def check(subject: Subject) -> Problems:
    """The run ended after it began, and lasted about as long as its own counter says."""
    run = subject.body["run"]
    for name, said in untrue(run["created"], run["finished"], run["elapsed_ns"]):
        yield Problem(f"/body/run/{name}", said)


RULE = Rule(
    id="CG902",
    text="A run ended after it began, and its length fits both: by the clock of the day and by its own counter.",
    pain="A record with invented times is newer than it is, and supersedes what it should not.",
    hint="set the clock of the machine and run again with `statecert run`",
    failing=("ended_before_it_began", "lasted_too_long", "no_such_day"),
    certificate=check,
)
