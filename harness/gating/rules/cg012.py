"""CG012: a certificate shows as much as the policy asks of all."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.gating.rules.cg011 import GRADES


def check(subject: Subject) -> Problems:
    """The grade of a current certificate is at least the policy's."""
    policy = subject.asked.policy
    grade = subject.body.get("observability")  # the harness tested by itself shows no state of an engine
    if policy is None or not policy.observability or subject.state != "current" or grade is None:
        return
    if GRADES.index(grade) < GRADES.index(policy.observability):
        yield Problem("/body/observability", f"is {grade}; the policy asks for {policy.observability} of every one")


RULE = Rule(
    id="CG012",
    text="Every current certificate is of the least observability that the policy asks for.",
    pain="Equal tokens of a black box stand beside compared state, and read like the same proof.",
    hint="run on an engine that shows its parts; or waive it for this certificate with `statecert waive`",
    failing=("grade_not_met",),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    certificate=check,
)
