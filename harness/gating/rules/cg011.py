"""CG011: what the policy requires is there, holds, and passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.errors import ExitCode
from harness.gating.claimkeys import fits
from harness.gating.known import CertificateFacts
from harness.gating.rule import FolderFacts, Problem, Problems, Rule
from harness.model.policy import RequiredClaim

GRADES: Final = ("tokens", "logits", "image", "parts")
"""Least first."""


def check(facts: FolderFacts) -> Problems:
    """Each required claim has a current certificate, and each that it has is a pass, with the cells that are named."""
    policy = facts.asked.policy
    if policy is None:
        return
    current = [one for one in facts.certificates if one.state == "current"]
    for claim in policy.claims:
        named = [one for one in current if fits(claim.claim, one.claim_key)]
        found = [one for one in named if policy.foreign or not one.record]
        for one in named:
            if one not in found:
                yield Problem(
                    one.path, f"was published by others and measured by nobody here; not what {claim.claim} asks"
                )
        if not found:
            yield Problem("", f"has no current certificate of {claim.claim}, which the policy requires")
        yield from _claim(facts, claim, found)


def _claim(facts: FolderFacts, claim: RequiredClaim, found: Sequence[CertificateFacts]) -> Problems:
    for one in found:
        if one.overall != "pass":
            yield Problem(f"{one.path}#/body/decision/overall", f"is {one.overall}; the policy requires {claim.claim}")
            continue
        if not (claim.cells or claim.observability or claim.least):
            continue
        body = facts.body(one.id)
        asked = body.get("procedure", {})
        for name, least in claim.least.items():
            had = asked.get(name)
            if not isinstance(had, int) or had < least:
                shown = "not there" if had is None else had
                yield Problem(f"{one.path}#/body/procedure/{name}", f"is {shown}; the policy requires {least} at least")
        grade = body.get("observability", "tokens")
        if claim.observability and GRADES.index(grade) < GRADES.index(claim.observability):
            yield Problem(f"{one.path}#/body/observability", f"is {grade}; the policy requires {claim.observability}")
        outcomes = {cell["id"]: cell["outcome"] for cell in body.get("cells", ())}
        for cell in claim.cells:
            if outcomes.get(cell) != "pass":
                yield Problem(one.path, f"{cell} is {outcomes.get(cell, 'not there')}; the policy requires it")


RULE = Rule(
    id="CG011",
    text="Every claim that the policy requires has a current certificate, and it passed with the cells that are named.",
    pain="What is promised was never run on this device, or stopped, and the gate is green since nobody had asked.",
    hint="run the scenario there; or take the claim out of the policy, in a change of its own",
    failing=(
        "required_claim_foreign",
        "required_claim_missing",
        "required_claim_stops",
        "required_cell_missing",
        "required_grade_not_met",
        "required_campaign_too_small",
    ),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    folder=check,
)
