"""The view model: all that a report says, as text, before anybody renders it.

Rules kept here:

- Every sentence and number is text already, with its unit. A renderer lays out and escapes; it adds
  no value of its own, so three renderings cannot differ.
- Strings that came from a record are *not* yet escaped: each renderer has its own way out
  (:mod:`harness.reporting.escape`).
- States are values of the closed enums (``pass``, ``superseded`` …); word, glyph and colour come from
  :mod:`harness.reporting.words`.
- Nothing here is decided: states and outcomes are copied from a certificate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CLAIM_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:/[a-z0-9][a-z0-9._+-]*){2}")
"""What a claim key looks like: three steps of a path that leads nowhere else."""

State = str
"""Value of an outcome, a decision or a certificate state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """One decision in the banner."""

    name: str
    """Axis of the decision, or ``overall``."""
    state: State


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One named value."""

    name: str
    value: str
    code: bool = False
    """Whether the value is an id or a digest, to be set in a fixed-width font."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Heading of a column."""

    text: str
    right: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """A table of text."""

    heads: Sequence[Head]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """One sentence below it: what the numbers are not."""


NOTHING: Final = Sheet(heads=(), rows=())
"""A table that a kind of certificate does not have; nothing is shown of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of a page that only one kind of certificate has."""

    title: str
    facts: Sequence[Fact] = ()
    sheet: Sheet = NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixCell:
    """One combination of the axes; one that the record does not speak of has the state ``absent``."""

    id: str
    state: State
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixRow:
    """All cells that share their coordinates except the one across."""

    label: str
    cells: Sequence[MatrixCell]
    total: str
    """Like ``3/4``: passed of all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """How many cells have one state."""

    state: State
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """Every declared cell, never blank."""

    down: str
    """Names of the axes that run down."""
    across: str
    """Name of the axis that runs across; empty: one cell per row."""
    columns: Sequence[str]
    rows: Sequence[MatrixRow]
    totals: Sequence[str]
    """Passed of all, for each column."""
    total: str
    tallies: Sequence[Tally]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A check, or a whole cell, that did not pass."""

    cell: str
    state: State
    check: str
    """Id of the check; empty: the cell as a whole."""
    code: str
    observed: str
    limit: str
    reason: str
    """One sentence."""
    place: str
    """Where the first difference lies; empty: no place is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One bar of the first-token plot."""

    label: str
    value: str
    ppm: int
    """Length, in millionths of the longest bar."""
    restored: bool
    """Whether state was reused in this turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One certificate of the chain of a claim key."""

    id12: str
    created: str
    state: State
    overall: State
    reason: str
    """What the ledger says of it, in words."""
    changed: str
    """What differs from its successor."""
    dropped: str
    """Cells that its successor does not have."""
    here: bool
    """Whether this is the certificate that the page is about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateView:
    """One certificate, in the order in which a reviewer reads."""

    id: str
    claim_key: str
    title: str
    created: str
    state: State
    state_note: str
    """Since when, why, and by what it was replaced, and what the ledger notes beside it; empty: nothing of these."""
    successor: str
    """64 hex of the direct successor; empty: none."""
    badges: Sequence[Badge]
    """``overall`` first, then the axes that were judged, then the others."""
    sentence: str
    claims: Sequence[str]
    """What may be said, ready to paste."""
    no_claims: Sequence[str]
    """What may not be said."""
    matrix: Matrix | None
    """None: a kind of certificate without cells."""
    problems: Sequence[Problem]
    problems_note: str
    exactness: Sequence[Fact]
    comparisons: Sheet
    timings: Sheet
    bars: Sequence[Bar]
    sections: Sequence[Section] = ()
    """Parts that only this kind of certificate has."""
    environment: Sequence[Fact]
    settings: Sequence[Fact]
    """Everything that the engine and the machine say of themselves: long, for comparing and for looking things up."""
    history: Sequence[Link]
    limits: Sequence[str]
    command: str
    digests: Sequence[Fact]

    @property
    def id12(self) -> str:
        """First twelve digits of the id, as in the file's name."""
        return self.id[:12]


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewRow:
    """One claim key."""

    claim_key: str
    title: str
    state: State
    """State of the certificate shown: ``current`` if there is one."""
    overall: State
    cells: str
    """Like ``5/6 pass, 1 not run``; of a campaign like ``720/720 flips located``."""
    comparisons: str
    """Exact comparisons equal, of all; empty: a kind of certificate that makes none."""
    created: str
    id: str
    others: str
    """How many other certificates the key has, in words; empty: none."""
    headline: str
    """First problem, or the headline limit."""
    ran_passed: bool = False
    """No conclusion only because cells are not supported: every cell that could run passed, and one did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Square:
    """What one scenario came to on one subject."""

    state: State
    claim_key: str
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GridRow:
    """One scenario or campaign."""

    name: str
    """Its id, like ``A01``."""
    title: str
    """Id and title; of a campaign its name in words."""
    squares: Sequence[Square | None]
    """One per subject; None: no certificate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Decisions of the certificates shown: scenarios down, subjects across."""

    subjects: Sequence[str]
    """Engine and model, and a class of hardware that is not the usual one; those with most certificates first."""
    rows: Sequence[GridRow]
    note: str
    """Which hardware, and what an empty square means."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """One row per claim key, worst first."""

    sentence: str
    grid: Grid
    rows: Sequence[OverviewRow]
    tallies: Sequence[Tally]
    """Decisions over all rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimPage:
    """All certificates of one claim key: the current ones in full, the others as history."""

    claim_key: str
    shown: Sequence[CertificateView]
    """Current ones, one per machine; without a current one the latest that there was."""
    history: Sequence[Link]
