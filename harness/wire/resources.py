"""The schemas and scenarios that belong to the product, read the same way from wheel and checkout.

A wheel carries them under ``harness/_data/<kind>/``; in a source checkout, and so in an editable
install, they are the folders beside ``harness/``. Nobody else in the package knows this.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, Literal

from harness.errors import UsageError

Kind = Literal["schemas", "scenarios"]
"""The folders that travel with the package."""

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*\Z")
_ENDINGS: Final = frozenset({".json", ".yaml"})


@cache
def folder(kind: Kind) -> Path:
    """Return the folder that holds the resources of ``kind``; it need not exist."""
    packaged = _PACKAGE / "_data" / kind
    return packaged if packaged.is_dir() else _PACKAGE.parent / kind


def resource_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of all resources of ``kind``, sorted: paths below their folder, with ``/``.

    Only ``.json`` and ``.yaml`` files count; a folder that is absent has none.
    """
    root = folder(kind)
    found = (path for path in root.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    names = (path.relative_to(root).as_posix() for path in found)
    return tuple(sorted(name for name in names if _NAME.match(name)))


def resource_text(kind: Kind, name: str) -> bytes:
    """Return the bytes of one resource.

    Args:
        kind: Which folder.
        name: As :func:`resource_names` gives it, like ``common.v1.json``.

    Raises:
        UsageError: There is no such resource, or the name points outside the folder.
    """
    path = folder(kind) / name
    if _NAME.match(name) is None or path.suffix not in _ENDINGS or not path.is_file():
        known = ", ".join(resource_names(kind)) or "none"
        raise UsageError(f"no resource {name[:80]!r} among the {kind}; there are: {known}")
    return path.read_bytes()
