"""CG013: only what the policy lets be waived is waived, and not for longer."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule
from harness.gating.waiving import holds
from harness.model.certificate import Event
from harness.model.policy import Policy


def check(facts: FolderFacts) -> Problems:
    """Waivers of current certificates that are in force."""
    policy = facts.asked.policy
    if policy is None:
        return
    paths = {one.id: one.path for one in facts.certificates if one.state == "current"}
    for event in facts.ledger.events:
        if event.target in paths and holds(event, facts.asked.day):
            yield from _one(event, policy, paths[event.target])


def _one(event: Event, policy: Policy, path: str) -> Problems:
    name = f"its waiver {event.id[:12]} of {event.rule}"
    if policy.waivers is not None and event.rule not in policy.waivers:
        yield Problem(path, f"{name} is of a rule that the policy lets nobody waive")
    elif policy.waiver_days and _days(event) > policy.waiver_days:
        until = f"lasts {_days(event)} days" if event.until else "has no end"
        yield Problem(path, f"{name} {until}; the policy allows {policy.waiver_days} days")


def _days(event: Event) -> int:
    """Days from the event to its last day; without an end more than any policy allows."""
    if not event.until:
        return 1 << 30
    from datetime import date

    try:
        return (date.fromisoformat(event.until) - date.fromisoformat(event.created[:10])).days
    except ValueError:
        return 1 << 30


RULE = Rule(
    id="CG013",
    text="Every waiver in force is of a rule that the policy lets be waived, and no longer than it allows.",
    pain="A waiver is written by whoever needs it, for whatever is in the way, for ever.",
    hint="mend what was waived; or waive it again with `statecert waive --until`, within the policy",
    failing=("waiver_of_a_rule_not_allowed", "waiver_too_long"),
    passing="valid_policy_waived",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    folder=check,
)
