"""Arms and steps of one cell: from resolved values to nouns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.deriving.lengths import Scaling, is_length, length, optional_length
from harness.deriving.manipulations import budget_of, stop_of, target_of
from harness.deriving.node import Node
from harness.model.scenario import Arm, Scalar, Step, StepKind, TurnEnd
from harness.model.values import ArmRole, Capability

_COUNTED: Final = frozenset({StepKind.EVICT, StepKind.MEANWHILE, StepKind.ROLLBACK})
_BUDGETED: Final = frozenset({StepKind.BUDGET, StepKind.PRESSURE})
_DISK_BUDGET: Final = "disk_budget"
"""Field of a ``restart``: the disk folder's budget, told by what the store held."""


def parse_arm(node: Node, scaling: Scaling) -> Arm:
    """Return an arm with all its steps.

    Raises:
        InvalidScenarioError: A value is not what its field allows, or two steps share a label.
    """
    steps = tuple(_step(step, number, scaling) for number, step in enumerate(node.child("steps").elements(), start=1))
    labels = [step.label for step in steps]
    for label in labels:
        if labels.count(label) > 1:
            node.fail(f"found label {label!r} twice; labels are unique in an arm")
    return Arm(
        id=node.child("id").text(),
        role=node.child("role").choice(ArmRole),
        steps=steps,
        engine=options(node.child("engine"), scaling) if "engine" in node else {},
        requires=capabilities(node),
    )


def capabilities(node: Node) -> tuple[Capability, ...]:
    """Return the ``requires`` of an arm or a procedure."""
    if "requires" not in node:
        return ()
    return tuple(element.choice(Capability) for element in node.child("requires").elements())


def options(node: Node, scaling: Scaling) -> Mapping[str, Scalar]:
    """Return engine or session options; lengths become tokens."""
    return {
        name: length(value, scaling) if is_length(value) else value.scalar() for name, value in sorted(node.items())
    }


def _step(node: Node, number: int, scaling: Scaling) -> Step:
    found = list(node.items())
    if len(found) != 1:
        node.fail(f"found {len(found)} kinds in one step; allowed is one")
    name, fields = found[0]
    if name not in {str(kind) for kind in StepKind}:
        node.fail(f"found the step {name!r}; allowed are {', '.join(StepKind)}")
    kind = StepKind(name)
    tokens = fields.optional_integer("count", 0)
    return Step(
        kind=kind,
        label=fields.optional_text("as", f"{kind}-{number}"),
        session=fields.optional_text("session", "main"),
        prompt=fields.child("prompt").text() if "prompt" in fields else None,
        cache=fields.optional_flag("cache"),
        decode=tokens if kind is StepKind.DECODE else fields.optional_integer("decode", 0),
        sampler=_integers(fields, "sampler"),
        end=fields.child("end").choice(TurnEnd) if "end" in fields else TurnEnd.COMMIT,
        until=optional_length(fields, "until", scaling),
        handle=fields.child("handle").text() if "handle" in fields else None,
        image=fields.child("image").text() if "image" in fields else None,
        options=_step_options(fields, kind, scaling),
        target=target_of(fields, kind, scaling),
        count=tokens if kind in _COUNTED else 0,
        budget=_budget(fields, kind),
        stop=stop_of(fields),
        cancel_after=fields.optional_integer("cancel_after", 0),
        unseen=fields.optional_flag("unseen"),
        may_refuse=fields.optional_flag("may_refuse"),
    )


def _step_options(fields: Node, kind: StepKind, scaling: Scaling) -> Mapping[str, Scalar]:
    key = "engine" if kind is StepKind.RESTART else "options"
    return options(fields.child(key), scaling) if key in fields else {}


def _budget(fields: Node, kind: StepKind) -> Mapping[str, int | str]:
    if kind is StepKind.RESTART:
        return budget_of(fields.child(_DISK_BUDGET)) if _DISK_BUDGET in fields else {}
    return budget_of(fields) if kind in _BUDGETED else {}


def _integers(fields: Node, key: str) -> Mapping[str, int]:
    return {name: value.integer() for name, value in sorted(fields.child(key).items())} if key in fields else {}
