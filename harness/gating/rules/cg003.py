"""CG003: a waiver ends."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """A waiver of a current certificate that has ended, and that none which holds takes the place of."""
    if not any(event.kind == "waive" for event in facts.ledger.events):
        return
    from harness.gating.waiving import holds, waivable

    paths = {one.id: one.path for one in facts.certificates if one.state == "current"}
    waivers = [event for event in facts.ledger.events if event.kind == "waive" and event.target in paths]
    asked, day = waivable(facts.asked.options), facts.asked.day
    held = {(event.target, event.rule) for event in waivers if holds(event, day)}
    for event in waivers:
        if event.rule in asked and event.until and event.until < day and (event.target, event.rule) not in held:
            yield Problem(paths[event.target], f"its waiver {event.id[:12]} of {event.rule} ended on {event.until}")


RULE = Rule(
    id="CG003",
    text="No waiver of a current certificate has ended.",
    pain="What was accepted for a month is accepted for good, since nobody looks again.",
    hint="mend what was waived and run again, which supersedes the certificate; or waive again with `statecert waive`",
    failing=("waiver_ended",),
    passing="valid_waived",
    exit_code=ExitCode.FINDINGS,
    folder=check,
)
