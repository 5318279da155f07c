"""How many bytes a state must take, from part tables alone.

A snapshot of a prefix holds every fixed part whole, and of every row stream the rows above its parent's end. Pending
logits and sampler belong to a session, not to a prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.deriving.view import CellView
from harness.model.evidence import PartTable
from harness.model.scenario import PointRef
from harness.model.values import Family, Phase

_OF_A_SESSION: Final = frozenset({Family.LOGITS, Family.SAMPLER})


def boundaries(view: CellView, ref: PointRef) -> Mapping[int, PartTable]:
    """Return position to part table of every boundary that a reference step was looked at."""
    return {look.position: view.table(look) for look in view.looks(ref) if look.phase is Phase.BOUNDARY}


def whole_bytes(table: PartTable) -> int:
    """Return the bytes of a whole copy of a prefix."""
    return fixed_bytes(table) + row_bytes(table)


def fixed_bytes(table: PartTable) -> int:
    """Return the bytes of the fixed parts."""
    return sum(row.bytes for row in table.rows if row.stream == "fixed" and row.family not in _OF_A_SESSION)


def row_bytes(table: PartTable) -> int:
    """Return the bytes of the valid rows."""
    return sum(row.bytes for row in table.rows if row.stream == "rows" and row.family not in _OF_A_SESSION)
