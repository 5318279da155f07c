"""Axes of a scenario: labels, values, every combination, and the ``$axis`` references to them.

Axes and the labels of a mapping are taken in the order of their names, after ``scale``: a procedure is hashed
and stored in canonical form, which keeps no other order. A list of scalars keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from harness.deriving.node import Node
from harness.model.scenario import Coords, Scalar

SCALE: Final = "scale"


def axes_of(procedure: Node, scales: Sequence[int]) -> Mapping[str, Mapping[Scalar, object]]:
    """Return axis name to its labels and their values, ``scale`` first.

    Raises:
        InvalidScenarioError: An axis is called ``scale``, or a label stands for two values.
    """
    axes: dict[str, Mapping[Scalar, object]] = {SCALE: {scale: scale for scale in sorted(scales)}}
    if "axes" not in procedure:
        return axes
    for name, node in sorted(procedure.child("axes").items()):
        if name == SCALE:
            node.fail("found an axis 'scale'; it is there already")
        axes[name] = _labels(node)
    return axes


def _labels(node: Node) -> Mapping[Scalar, object]:
    if isinstance(node.value, Mapping):
        return {label: value.value for label, value in sorted(node.items())}
    scalars = [element.scalar() for element in node.elements()]
    if len({label_text(scalar) for scalar in scalars}) != len(scalars):
        node.fail("found a label twice; allowed are labels that differ")
    return {scalar: scalar for scalar in scalars}


def combinations(axes: Mapping[str, Mapping[Scalar, object]]) -> Iterator[Coords]:
    """Return the coordinates of every cell, the last axis running fastest."""
    for labels in product(*axes.values()):
        yield dict(zip(axes, labels, strict=True))


def label_text(label: Scalar) -> str:
    """Return how a label stands in a cell id."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def substitute(node: Node, values: Mapping[str, object]) -> object:
    """Return a value with every ``$axis`` and ``$axis.key`` replaced; nothing else is changed.

    A list in the place of an element of a list gives its elements.

    Raises:
        InvalidScenarioError: A reference names no axis, or no key of the axis' value.
    """
    if isinstance(node.value, str):
        return _referred(node, values) if node.value.startswith("$") else node.value
    if isinstance(node.value, Mapping):
        return {key: substitute(child, values) for key, child in node.items()}
    if isinstance(node.value, (list, tuple)):
        return [one for child in node.elements() for one in _spliced(child, substitute(child, values))]
    return node.value


def _spliced(node: Node, value: object) -> Sequence[object]:
    """Return what stands for an element of a list: a list that a reference gave as its elements, else the value."""
    return value if isinstance(node.value, str) and isinstance(value, (list, tuple)) else [value]


def _referred(node: Node, values: Mapping[str, object]) -> object:
    name, _, key = node.text()[1:].partition(".")
    if name not in values:
        node.fail(f"found ${name}; axes are {', '.join(values)}")
    value = values[name]
    if not key:
        return value
    if not isinstance(value, Mapping) or key not in value:
        keys = ", ".join(value) if isinstance(value, Mapping) else "none"
        node.fail(f"found ${name}.{key}; keys of this value are: {keys}")
    return value[key]


def exclusion(procedure: Node, axes: Mapping[str, Mapping[Scalar, object]], coords: Coords) -> str:
    """Return the reason of the first rule that takes a cell out; empty: none does.

    Raises:
        InvalidScenarioError: A rule names an axis or a label that does not exist.
    """
    if "exclude" not in procedure:
        return ""
    for rule in procedure.child("exclude").elements():
        if fits(rule.child("when"), axes, coords):
            return rule.child("reason").text()
    return ""


def fits(when: Node, axes: Mapping[str, Mapping[Scalar, object]], coords: Coords) -> bool:
    """Return whether a cell has all these labels.

    Raises:
        InvalidScenarioError: A condition names an axis or a label that does not exist.
    """
    # every condition is looked at, so that a misspelt label is an error in every cell
    matched = [_matches(axes, coords, axis, node) for axis, node in when.items()]
    return all(matched)


def _matches(axes: Mapping[str, Mapping[Scalar, object]], coords: Coords, axis: str, node: Node) -> bool:
    if axis not in axes:
        node.fail(f"found axis {axis!r}; axes are {', '.join(axes)}")
    several = isinstance(node.value, (list, tuple))
    wanted = [element.scalar() for element in node.elements()] if several else [node.scalar()]
    known = {label_text(label) for label in axes[axis]}
    for label in wanted:
        if axis != SCALE and label_text(label) not in known:
            node.fail(f"found label {label!r}; labels of {axis} are {', '.join(sorted(known))}")
    return label_text(coords[axis]) in {label_text(label) for label in wanted}
