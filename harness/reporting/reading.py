"""Reading a document's mapping without trusting its shape: what is not there is shown as ``unknown``.

A report may be asked of a record that a gate would refuse. It then shows what it finds, and never
turns something missing into something good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

UNKNOWN: Final = "unknown"


def at(value: object, *path: str) -> object:
    """Return what lies at a path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def text(value: object, *path: str, default: str = UNKNOWN) -> str:
    """Return a scalar as text."""
    found = at(value, *path)
    if isinstance(found, bool):
        return "yes" if found else "no"
    return str(found) if isinstance(found, str | int) and found != "" else default


def integer(value: object, *path: str) -> int:
    """Return an integer; 0 where there is none."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def mapping(value: object, *path: str) -> Mapping[str, object]:
    """Return a mapping; an empty one where there is none."""
    found = at(value, *path)
    return found if isinstance(found, Mapping) else {}


def items(value: object, *path: str) -> Sequence[object]:
    """Return a list; an empty one where there is none."""
    found = at(value, *path)
    return found if isinstance(found, Sequence) and not isinstance(found, str | bytes) else ()


def texts(value: object, *path: str) -> list[str]:
    """Return a list of scalars as text."""
    return [str(item) for item in items(value, *path) if isinstance(item, str | int)]


def flat(value: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return every scalar of a nested mapping with its dotted name, in the order of the names."""
    found: list[tuple[str, str]] = []
    for key in sorted(value):
        name, inner = f"{prefix}{key}", value[key]
        if isinstance(inner, Mapping):
            found += flat(inner, f"{name}.")
        elif isinstance(inner, Sequence) and not isinstance(inner, str | bytes):
            found.append((name, ", ".join(texts(value, key)) or f"{len(inner)} entries"))
        else:
            found.append((name, "(empty)" if inner == "" else text(value, key)))
    return found
