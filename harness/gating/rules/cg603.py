"""CG603: a scenario's id stands for the procedure that the scenario's file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from harness.deriving.fields import text_at
from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.wire import resources, strict

MANIFEST: Final = "procedures.json"
_CURRENT: Final = "current"


@cache
def known() -> Mapping[str, tuple[Sequence[str], int]]:
    """Return scenario id to the procedure digests that it may stand for, and the largest scale of its suites.

    A gate that does not have the file cannot judge: what this raises is no empty answer.
    """
    value: Any = strict.loads(resources.resource_text("scenarios", MANIFEST), where=MANIFEST)
    return {name: (tuple(digests), value["scales"][name]) for name, digests in value["procedures"].items()}


def check(subject: Subject) -> Problems:
    """A record under the id of a known scenario was made by a procedure of that scenario, at no scale beyond its own.

    A scenario that does not travel with this gate is somebody's own: there is nothing to compare it with, and nothing
    may be said under the name of a known one.
    """
    if subject.state != _CURRENT or subject.body.get("kind") != "qualification":
        return
    scenario = text_at(subject.body, "scenario", "id")
    if scenario not in known():
        return
    allowed, largest = known()[scenario]
    if text_at(subject.body, "scenario", "procedure_digest") not in allowed:
        message = f"was made by another procedure than scenario {scenario} has; its checks may be fewer or weaker"
        yield Problem("/body/scenario/procedure_digest", message)
    if max(subject.body["run"]["scales"]) > largest:
        message = f"are beyond {largest}, the largest of scenario {scenario}; its prompts are shorter than it declares"
        yield Problem("/body/run/scales", message)


RULE = Rule(
    id="CG603",
    text="A current certificate was made by the procedure that its scenario has now, or had and still stands for, "
    "at no larger scale than its suites name.",
    pain="Evidence of a weakened scenario, or of one shrunk to a few tokens, passes under the name of the real one.",
    hint="run the scenario again; a record made before an edit counts if `make procedures KEEP=1` kept its digest",
    exit_code=ExitCode.FINDINGS,
    failing=("another_procedure",),
    certificate=check,
)
"""Judged against ``scenarios/procedures.json`` of the gate that runs, never against the record itself."""
