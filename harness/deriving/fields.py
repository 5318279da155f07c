"""Values inside a body, without trusting its shape: what is absent or of another type is empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def value_at(body: Mapping[str, object], *path: str) -> object:
    """Return the value at a path of keys; None where there is none."""
    value: object = body
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def text_at(body: Mapping[str, object], *path: str) -> str:
    """Return the text at a path of keys; empty where there is none."""
    value = value_at(body, *path)
    return value if isinstance(value, str) else ""


def mappings_at(body: Mapping[str, object], *path: str) -> Iterator[Mapping[str, object]]:
    """Return the mappings of the list at a path of keys."""
    value = value_at(body, *path)
    for item in value if isinstance(value, (list, tuple)) else ():
        if isinstance(item, Mapping):
            yield item
