"""Scenarios by subjects: which engine shows what, at one look.

The grid holds what the rows of the overview hold and nothing else: the decision of the certificate shown of each claim
key, or that it is not current.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.model.values import CertificateState
from harness.reporting.view import Grid, GridRow, OverviewRow, Square, State
from harness.reporting.words import mark


def grid_of(rows: Sequence[OverviewRow]) -> Grid:
    """Lay rows out: scenarios by their ids, then campaigns; subjects with most certificates first."""
    steps = {row.claim_key: _steps(row.claim_key) for row in rows}
    counts = Counter(steps[row.claim_key][1:] for row in rows)
    subjects = sorted(counts, key=lambda subject: (-counts[subject], subject))
    places = Counter(hardware for _, _, hardware in steps.values())
    usual = min(places, key=lambda one: (-places[one], one), default="")
    met = {steps[row.claim_key]: row for row in rows}
    titles = {steps[row.claim_key][0]: row.title for row in rows}
    return Grid(
        subjects=[target if one == usual else f"{target} {one}" for target, one in subjects],
        rows=[
            GridRow(
                name=scenario,
                title=titles[scenario],
                squares=[_square(met.get((scenario, *subject))) for subject in subjects],
            )
            for scenario in sorted(titles, key=lambda name: (not name[:1].isupper(), name))
        ],
        note=_note(rows, usual, apart=any(one != usual for _, one in subjects)),
    )


def _steps(claim_key: str) -> tuple[str, str, str]:
    """Split a claim key; one that is none stands under its whole text, by itself."""
    steps = claim_key.split("/")
    return (steps[0], steps[1], steps[2]) if len(steps) == 3 else (claim_key, "", "")


def _square(row: OverviewRow | None) -> Square | None:
    return Square(state=_in_grid(row), claim_key=row.claim_key, id=row.id) if row else None


def _in_grid(row: OverviewRow) -> State:
    """Return what is shown, with one more distinction: a reader of the grid sees no cells to tell it by."""
    state = shown(row)
    return "ran_passed" if state == "inconclusive" and row.ran_passed else state


def shown(row: OverviewRow) -> State:
    """Return the decision of a current certificate; one that is not current shows that instead, never as good."""
    return row.overall if row.state == CertificateState.CURRENT else row.state


def _note(rows: Sequence[OverviewRow], hardware: str, *, apart: bool) -> str:
    marks = {_in_grid(row): mark(_in_grid(row)) for row in rows}
    legend = ", ".join(f"{one.glyph} {one.word}" for _, one in sorted(marks.items()))
    place = f"On {hardware}, where no other class of hardware is named." if apart else f"On {hardware}."
    return f"{place} {legend}; empty: no certificate." if rows else ""
