"""CG605: a result does not hold for ever, and not for every driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import ExitCode
from harness.gating.rule import Body, Problem, Problems, Rule, Subject

if TYPE_CHECKING:
    from harness.model.policy import Policy


def check(subject: Subject) -> Problems:
    """The run of a current certificate is not older than the policy allows, and not from a day to come."""
    policy = subject.asked.policy
    if policy is None or subject.state != "current":
        return
    if policy.runtimes:
        yield from _drift(subject.body, policy)
    if not policy.max_age_days:
        return
    from datetime import date

    created = subject.body["run"]["created"]
    try:
        age = (date.fromisoformat(subject.asked.day) - date.fromisoformat(created[:10])).days
    except ValueError:
        return  # CG902 says that there is no such day
    if age > policy.max_age_days:
        yield Problem("/body/run/created", f"is {age} days ago; expired after {policy.max_age_days} by the policy")
    elif age < -1:
        yield Problem("/body/run/created", f"is {-age} days ahead; a run of a day to come never gets old")


def _drift(body: Body, policy: Policy) -> Problems:
    """The driver and the runtime are such as the policy knows for this class of devices."""
    from fnmatch import fnmatchcase

    environment = body["environment"]
    for one in policy.runtimes:
        if not fnmatchcase(environment["hw_class"], one.device):
            continue
        for name, known in one.facts.items():
            held = str(environment["device"].get(name, "unknown"))
            if not any(fnmatchcase(held, pattern) for pattern in known):
                shown = ", ".join(known[:4])
                yield Problem(f"/body/environment/device/{name}", f"is {held[:80]}; the policy knows {shown}")


RULE = Rule(
    id="CG605",
    text="Every current certificate is as recent as the policy asks, and of a driver and runtime that it knows.",
    pain="Drivers, firmware and libraries move on, and a result of three years ago is quoted as one of today.",
    hint="run again, which supersedes the certificate; or waive it for a while with `statecert waive --until`",
    failing=("expired", "of_a_day_to_come", "of_another_driver"),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    certificate=check,
)
