"""Whether a record shows that state was reused, or has only the engine's word for it.

An engine that computes every hit again, and counts as if it had not, ends in equal state, and its counts add up. What
it cannot give back is a bit that the harness flipped in a snapshot: where such a flip was seen at the restored look,
and nowhere else, the restore really brought back what lay in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Body = Mapping[str, Any]
_REUSING: Final = frozenset({"copied", "resident", "live", "reused", "disk"})
_SEEN: Final = "CTRL.SEEN@"
_FLIPS: Final = "faults"
"""The campaign that flips bits in a stored snapshot, restores it and locates each."""


def told(body: Body) -> int:
    """Return in how many passing comparisons only the engine's counters say that state was reused."""
    return sum(_reusing(cell) for cell in body.get("cells", ()) if not _came_back(cell))


def shown(body: Body) -> bool:
    """Return whether something planted came back through a restore in what a record passes."""
    if body.get("campaign") == _FLIPS:
        return bool(body["decision"]["overall"] == "pass")
    return any(cell["outcome"] == "pass" and _came_back(cell) for cell in body.get("cells", ()))


def _reusing(cell: Body) -> int:
    passed = [check for check in cell["checks"] if check["outcome"] == "pass"]
    return sum(check["detail"].get("witness", "none") in _REUSING for check in passed)


def _came_back(cell: Body) -> bool:
    """Tell whether a control was seen right after a restore in one part of several: another text differs in more."""
    return any(
        check["outcome"] == "pass"
        and check["code"].startswith(_SEEN)
        and check["detail"].get("phase") == "restored"
        and check["detail"].get("parts_differing") == 1 < check["detail"].get("parts_compared", 0)
        for check in cell["checks"]
    )
