"""CG603: a scenario's id stands for the procedure that the scenario's file holds."""

from __future__ import annotations

from functools import cache
from typing import Final

from harness.deriving.fields import text_at
from harness.errors import ExitCode, StatecertError
from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.wire import resources, strict

MANIFEST: Final = "procedures.json"
_CURRENT: Final = "current"


@cache
def procedures() -> dict[str, tuple[str, ...]]:
    """Return scenario id to the procedure digests that it may stand for, the present one first."""
    try:
        value = strict.loads(resources.resource_text("scenarios", MANIFEST), where=MANIFEST)
    except StatecertError:
        return {}
    found = value.get("procedures") if isinstance(value, dict) else None
    return {str(name): tuple(map(str, digests)) for name, digests in (found or {}).items()}


def check(subject: Subject) -> Problems:
    """A record under the id of a known scenario was made by a procedure of that scenario.

    A scenario that does not travel with this gate is somebody's own: there is nothing to compare it with, and nothing
    may be said under the name of a known one.
    """
    if subject.state != _CURRENT or subject.body.get("kind") != "qualification":
        return
    scenario = text_at(subject.body, "scenario", "id")
    allowed = procedures().get(scenario)
    if allowed is not None and text_at(subject.body, "scenario", "procedure_digest") not in allowed:
        message = f"was made by another procedure than scenario {scenario} has; its checks may be fewer or weaker"
        yield Problem("/body/scenario/procedure_digest", message)


RULE = Rule(
    id="CG603",
    text="A current certificate was made by the procedure that its scenario has now, or had and still stands for.",
    pain="Evidence of a weakened scenario passes under the name of the real one.",
    hint="run the scenario again; a record made before an edit counts if `make procedures KEEP=1` kept its digest",
    exit_code=ExitCode.FINDINGS,
    failing=("another_procedure",),
    certificate=check,
)
"""Judged against ``scenarios/procedures.json`` of the gate that runs, never against the record itself."""
