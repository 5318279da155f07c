"""Which engines are installed: entry points, by name.

Two groups: ``harness.engines`` holds adapters, ``harness.mutants`` engines with one planted fault. Two packages that
offer one name are an error that names both; nothing is taken by the order in which they were installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from harness.engines.interface import Adapter
from harness.errors import UsageError

ENGINES: Final = "harness.engines"
"""Entry-point group of engine adapters."""
MUTANTS: Final = "harness.mutants"
"""Entry-point group of engines with one planted fault; never certifiable."""


@lru_cache(maxsize=16)
def _on(path: tuple[str, ...], group: str) -> tuple[EntryPoint, ...]:
    """Entry points of a group on an import path; read once for some hundred mutants."""
    del path
    return tuple(entry_points(group=group))


def _points(group: str) -> tuple[EntryPoint, ...]:
    return _on(tuple(sys.path), group)


def names(group: str = ENGINES) -> Sequence[str]:
    """Return the names that a group knows, sorted. Loads nothing."""
    return sorted({point.name for point in _points(group)})


def extras(name: str, group: str = ENGINES) -> Sequence[str]:
    """Return the extras that an entry point asks for. Loads nothing.

    Raises:
        UsageError: As :func:`find`.
    """
    return tuple(find(name, group).extras)


def find(name: str, group: str = ENGINES) -> EntryPoint:
    """Return the one entry point of a name. Loads nothing.

    Raises:
        UsageError: No package offers the name, or more than one does.
    """
    points = [point for point in _points(group) if point.name == name]
    if not points:
        known = ", ".join(names(group)) or "none (is the package installed, not only on the path?)"
        raise UsageError(f"no engine {name!r} in {group}; known are: {known}")
    if len(points) > 1:
        offers = " and ".join(sorted(f"{_offered_by(point)} ({point.value})" for point in points))
        raise UsageError(f"engine {name!r} in {group} is offered by {offers}; uninstall one of them")
    return points[0]


def load(name: str, group: str = ENGINES) -> Adapter:
    """Import an adapter and return a new instance of it.

    Raises:
        UsageError: As :func:`find`; or a package that the adapter needs is missing.
    """
    point = find(name, group)
    try:
        made = point.load()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"engine {name!r} needs the package {error.name!r}, which is not installed; {_remedy(point)}"
        ) from error
    except AttributeError as error:
        raise UsageError(f"engine {name!r} is registered as {point.value}, which does not exist ({error})") from error
    return cast("Adapter", made())


def _offered_by(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unnamed package"


def _remedy(point: EntryPoint) -> str:
    extras = ",".join(point.extras) or point.name
    return f"install the extra: pip install '{_offered_by(point)}[{extras}]'"
