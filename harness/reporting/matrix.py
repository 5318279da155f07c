"""The matrix of a certificate: every declared combination in its place, never a blank.

The axis with the most values runs across, the others run down. Rows and columns are those that the
cells name, so a record with absurd axes makes no absurd table; a place that no cell fills is ``absent``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.reporting.view import Matrix, MatrixCell, MatrixRow, Tally
from harness.reporting.words import MARKS

ABSENT: Final = "absent"
_MOST_COLUMNS: Final = 12
_WORST_FIRST: Final = ("fail", "error", "inconclusive", "not_run", "not_supported", ABSENT, "pass", "excluded")


@dataclass(frozen=True, kw_only=True, slots=True)
class CellState:
    """What the matrix needs of one cell."""

    id: str
    coords: Mapping[str, str]
    state: str
    reason: str


def tallies(states: Sequence[str]) -> list[Tally]:
    """Return how many cells have each state, worst first."""
    counts = Counter(states)
    known = [state for state in (*_WORST_FIRST, *MARKS) if state in counts]
    order = list(dict.fromkeys([*known, *sorted(counts)]))
    return [Tally(state=state, count=counts[state]) for state in order]


def matrix(cells: Sequence[CellState]) -> Matrix:
    """Lay the cells of a certificate out, in the order in which they stand there."""
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell.coords))
    across = _across(cells, axes)
    down = [axis for axis in axes if axis != across]
    columns = list(dict.fromkeys(cell.coords.get(across, "-") for cell in cells)) if across else ["outcome"]
    rows = _rows(cells, down, across, columns)
    return Matrix(
        down=", ".join(down) or "scenario",
        across=across,
        columns=columns,
        rows=rows,
        totals=[_passed([row.cells[index].state for row in rows]) for index in range(len(columns))],
        total=_passed([cell.state for cell in cells]),
        tallies=tallies([cell.state for row in rows for cell in row.cells]),
    )


def _across(cells: Sequence[CellState], axes: Sequence[str]) -> str:
    """Choose the axis with the most values that still fits a page; none if no axis has two."""
    counts = {axis: len({cell.coords.get(axis, "-") for cell in cells}) for axis in axes}
    fitting = [axis for axis in axes if 2 <= counts[axis] <= _MOST_COLUMNS]
    return max(reversed(fitting), key=lambda axis: counts[axis], default="")


def _rows(cells: Sequence[CellState], down: Sequence[str], across: str, columns: Sequence[str]) -> list[MatrixRow]:
    places: dict[tuple[str, ...], dict[str, MatrixCell]] = {}
    for cell in cells:
        key = tuple(cell.coords.get(axis, "-") for axis in down)
        shown = MatrixCell(id=cell.id, state=cell.state, reason=cell.reason)
        place = cell.coords.get(across, "-") if across else columns[0]
        earlier = places.setdefault(key, {}).get(place)
        if earlier is None or _badness(cell.state) < _badness(earlier.state):
            places[key][place] = shown
    absent = MatrixCell(id="(no cell)", state=ABSENT, reason="")
    rows: list[MatrixRow] = []
    for key, found in places.items():
        line = [found.get(column, absent) for column in columns]
        rows.append(MatrixRow(label=", ".join(key) or "all", cells=line, total=_passed([cell.state for cell in line])))
    return rows


def _badness(state: str) -> int:
    """Rank of a state, 0 for the worst; one that nobody knows comes before ``pass``."""
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else _WORST_FIRST.index(ABSENT)


def _passed(states: Sequence[str]) -> str:
    return f"{sum(state == 'pass' for state in states)}/{len(states)}"
