"""CG603: a scenario's id stands for the procedure that the scenario's file holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from harness.deriving.fields import text_at
from harness.errors import ExitCode
from harness.gating.rule import FolderFacts, Problem, Problems, Rule, Subject
from harness.wire import resources, strict

MANIFEST: Final = "procedures.json"
_CURRENT: Final = "current"
_DIGEST: Final = "/body/scenario/procedure_digest"


class Procedures(NamedTuple):
    """What a scenario id may stand for."""

    now: str
    """Digest of the procedure that the scenario's file holds."""
    former: Mapping[str, str]
    """Digest of each one before it to the time (RFC 3339 UTC) from which on it made no new record."""
    largest: int
    """The largest scale of its suites."""


@cache
def known() -> Mapping[str, Procedures]:
    """Return what each scenario id may stand for.

    A gate that does not have the file cannot judge: what this raises is no empty answer.
    """
    value: Any = strict.loads(resources.resource_text("scenarios", MANIFEST), where=MANIFEST)
    return {
        name: Procedures(
            now=digests[0],
            former=dict(zip(digests[1:], value["replaced"].get(name, ()), strict=True)),
            largest=value["scales"][name],
        )
        for name, digests in value["procedures"].items()
    }


def check(subject: Subject) -> Problems:
    """A record under the id of a known scenario was made by a procedure of that scenario, at no scale beyond its own.

    A former procedure counts for records that were made while it was the present one. A scenario that does not travel
    with this gate is somebody's own: there is nothing to compare it with, and nothing may be said under the name of a
    known one.
    """
    if subject.state != _CURRENT or subject.body.get("kind") != "qualification":
        return
    scenario = text_at(subject.body, "scenario", "id")
    if scenario not in known():
        return
    allowed = known()[scenario]
    digest = text_at(subject.body, "scenario", "procedure_digest")
    if digest != allowed.now:
        replaced, created = allowed.former.get(digest, ""), text_at(subject.body, "run", "created")
        if not replaced:
            message = f"was made by another procedure than scenario {scenario} has; its checks may be fewer or weaker"
            yield Problem(_DIGEST, message)
        elif created >= replaced:
            message = f"was made on {created} by a procedure that scenario {scenario} had until {replaced}"
            yield Problem(_DIGEST, f"{message}; what is asked since then was not asked")
    if max(subject.body["run"]["scales"]) > allowed.largest:
        message = f"are beyond {allowed.largest}, the largest that scenario {scenario} has; its prompts are shorter"
        yield Problem("/body/run/scales", message)


def check_new(facts: FolderFacts) -> Problems:
    """What a change adds was made by present procedures, whatever day it bears: its day is its author's word."""
    since = facts.asked.since
    if since is None:
        return
    held: set[str] | None = None
    for one in facts.certificates:
        scenario = one.claim_key.partition("/")[0]
        if one.state != _CURRENT or scenario not in known() or not known()[scenario].former:
            continue
        held = since.paths(facts.folder.root) if held is None else held
        if one.path in held:
            continue
        body = facts.body(one.id)
        former = known()[scenario].former
        if body.get("kind") == "qualification" and text_at(body, "scenario", "procedure_digest") in former:
            message = f"comes with this change, by a procedure that scenario {scenario} has no more"
            yield Problem(f"{one.path}#{_DIGEST}", f"{message}; its day is its author's word")


RULE = Rule(
    id="CG603",
    text="A current certificate was made by the procedure that its scenario has now, or had when it was made and still "
    "stands for, at no larger scale than its suites name; what a change adds, by the one of now.",
    pain="Evidence of a weakened scenario, of one shrunk to a few tokens, or of one with the controls of last year, "
    "passes under the name of the real one.",
    hint="run the scenario again; a record made before an edit counts if `make procedures KEEP=1` kept its digest",
    exit_code=ExitCode.FINDINGS,
    failing=("another_procedure", "former_procedure_after_its_end", "former_procedure_in_a_change"),
    certificate=check,
    folder=check_new,
)
"""Judged against ``scenarios/procedures.json`` of the gate that runs, never against the record itself."""
