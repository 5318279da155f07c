"""CG605: a result does not hold for ever."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """The run of a current certificate is not older than the policy allows, and not from a day to come."""
    policy = subject.asked.policy
    if policy is None or not policy.max_age_days or subject.state != "current":
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


RULE = Rule(
    id="CG605",
    text="The run of every current certificate is as recent as the policy asks.",
    pain="Drivers, firmware and libraries move on, and a result of three years ago is quoted as one of today.",
    hint="run again, which supersedes the certificate; or waive it for a while with `statecert waive --until`",
    failing=("expired", "of_a_day_to_come"),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    certificate=check,
)
