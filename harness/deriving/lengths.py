"""Lengths: integers as they are, or chunks and tokens that a scale divides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.deriving.node import Node
from harness.model.noun import dataclass

_KEYS: Final = frozenset({"chunks", "tokens", "plus"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """What a length is measured with in one cell."""

    scale: int
    chunk: int
    """Tokens of one prefill chunk in this cell."""


def is_length(node: Node) -> bool:
    """Tell whether a value is written as a length in chunks and tokens."""
    return isinstance(node.value, Mapping) and bool(node.value) and set(node.value) <= _KEYS


def length(node: Node, scaling: Scaling) -> int:
    """Return a length in tokens: ``chunks * chunk + tokens // scale + plus``.

    Raises:
        InvalidScenarioError: It is neither an integer nor a length, or is below zero.
    """
    if not is_length(node):
        tokens = node.integer()
    else:
        tokens = (
            node.optional_integer("chunks", 0) * scaling.chunk
            + node.optional_integer("tokens", 0) // scaling.scale
            + node.optional_integer("plus", 0)
        )
    if tokens < 0:
        node.fail(f"found a length of {tokens} tokens at scale {scaling.scale}; allowed is 0 or more")
    return tokens


def optional_length(node: Node, key: str, scaling: Scaling) -> int | None:
    """Return the length of a key, or None without it."""
    return length(node.child(key), scaling) if key in node else None
