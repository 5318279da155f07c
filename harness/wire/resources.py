"""The schemas, scenarios and examples that belong to the product, read the same way from wheel and checkout.

A wheel carries them under ``harness/_data/<kind>/``; in a source checkout, and so in an editable
install, they are the folders beside ``harness/``. Nobody else in the package knows this.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from harness.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["schemas", "scenarios", "examples"]
"""The folders that travel with the package."""

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - see folder()
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_SIGNS: Final = dict.fromkeys(map(ord, "._+-"))
_ENDINGS: Final = (".json", ".yaml", ".c", ".h", ".rs")


def folder(kind: Kind) -> Path:
    """Return the folder that holds the resources of ``kind``; it need not exist."""
    from pathlib import Path

    return Path(_folder(kind))


@cache
def _folder(kind: Kind) -> str:
    """The same without :mod:`pathlib`, which a quick gate need not import."""
    packaged = f"{_PACKAGE}/_data/{kind}"
    return packaged if os.path.isdir(packaged) else f"{os.path.dirname(_PACKAGE)}/{kind}"  # noqa: PTH112, PTH120


def specimens() -> str:
    """Return the folder around the package ``tests`` of which a wheel carries recorded runs and broken folders."""
    packaged = f"{_PACKAGE}/_data/specimens"
    return packaged if os.path.isdir(packaged) else os.path.dirname(_PACKAGE)  # noqa: PTH112, PTH120 - see folder()


def resource_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of all resources of ``kind``, sorted: paths below their folder, with ``/``.

    Only files count that end in ``.json``, ``.yaml``, ``.c``, ``.h`` or ``.rs``; a folder that is absent has none.
    """
    root = folder(kind)
    found = (path for path in root.rglob("*") if path.is_file())
    names = (path.relative_to(root).as_posix() for path in found)
    return tuple(sorted(name for name in names if _is_name(name)))


def _is_name(name: str) -> bool:
    """Tell whether every step begins with a letter or digit and goes on with those, dots, and signs."""
    steps = name.split("/")
    plain = all(step[:1] in _LETTERS and _LETTERS.issuperset(step.translate(_SIGNS)) for step in steps if step)
    return all(steps) and plain and name.endswith(_ENDINGS)


def resource_text(kind: Kind, name: str) -> bytes:
    """Return the bytes of one resource.

    Args:
        kind: Which folder.
        name: As :func:`resource_names` gives it, like ``common.v1.json``.

    Raises:
        UsageError: There is no such resource, or the name points outside the folder.
    """
    path = f"{_folder(kind)}/{name}"
    if not _is_name(name) or not os.path.isfile(path):  # noqa: PTH113 - see folder()
        known = ", ".join(resource_names(kind)) or "none"
        raise UsageError(f"no resource {name[:80]!r} among the {kind}; there are: {known}")
    with open(path, "rb") as file:  # noqa: PTH123 - see folder()
        return file.read()
