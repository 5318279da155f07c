"""CG505: machines do not contradict one another about what is required or promoted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.errors import ExitCode
from harness.gating.claimkeys import fits
from harness.gating.known import CertificateFacts
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def contested(certificates: Sequence[CertificateFacts]) -> Mapping[str, Sequence[CertificateFacts]]:
    """Return claim keys about which current certificates of several machines say pass and stop, with these."""
    said: dict[str, set[str]] = defaultdict(set)
    for one in certificates:
        if _speaks(one):
            said[one.claim_key].add(one.overall)
    disputed = {key for key, overall in said.items() if len(overall) > 1}
    by_key: dict[str, list[CertificateFacts]] = defaultdict(list)
    for one in certificates if disputed else ():
        if _speaks(one) and one.claim_key in disputed:
            by_key[one.claim_key].append(one)
    return dict(sorted(by_key.items()))


def _speaks(one: CertificateFacts) -> bool:
    return one.state == "current" and not one.record and one.overall in ("pass", "stop")


def check(facts: FolderFacts) -> Problems:
    """A required claim that one machine confirms and another refutes is not averaged: somebody has to find out why."""
    policy = facts.asked.policy
    if policy is None:
        return
    for key, held in contested(facts.certificates).items():
        if any(fits(claim.claim, key) for claim in policy.claims):
            sides = ", ".join(f"{one.id[:12]} {one.overall}" for one in held)
            yield Problem(held[0].path, f"is contested: {sides}, on different machines")


RULE = Rule(
    id="CG505",
    text="No claim that the policy requires is contested: passed on one machine and stopped on another.",
    pain="Two laboratories disagree, the newer or the nicer result is quoted, and the fault is in what they differ in.",
    hint="run again on both machines, compare environments; a wrong record is taken back by `statecert withdraw`",
    failing=("required_claim_contested",),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    folder=check,
)
