"""What is read out of a published record, and what is found about it. Working nouns of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Times of one arm in nanoseconds; None where the record has none."""

    ttft: int | None = None
    read: int | None = None
    load: int | None = None
    """Import into the session."""
    write: int | None = None
    persist: int | None = None
    p99: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One repeat of a pair."""

    native_ttft: int
    other_ttft: int
    passed: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gates:
    """Thresholds that a record declares; None or False: not asked."""

    agreement: Decimal | None = None
    regression: Decimal | None = None
    smaller: bool = False
    faster: bool = False
    working_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One pair of element types, and what the record says of it."""

    k: str
    v: str
    passed: bool | None
    """As recorded; None: not said."""
    mixed: bool = False
    """Whether the record itself calls the result unstable."""
    native: Times = field(default_factory=Times)
    other: Times = field(default_factory=Times)
    native_bytes: int | None = None
    other_bytes: int | None = None
    ratio: Decimal | None = None
    encode: int | None = None
    decode: int | None = None
    """Decoding apart from the import, if it is part of a restore."""
    tiles: int | None = None
    working_bytes: int | None = None
    regression: Decimal | None = None
    steps: int = 0
    matching: int | None = None
    agreement: Decimal | None = None
    mismatch: int | None = None
    drifts: Mapping[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    """Mean and most of each drift that has both."""
    samples: Sequence[Sample] = ()
    reasons: tuple[str, ...] | None = None
    """Verbatim; None: the record has no such member."""

    @property
    def name(self) -> str:
        """Like ``f32/f16``: K, then V."""
        return f"{self.k}/{self.v}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Sizes that bytes and counts of tiles follow from; 0: not said."""

    tokens: int = 0
    layers: int = 0
    tile_rows: int = 0
    steps: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Exclusion:
    """A pair that cannot run, as a note says."""

    name: str
    note: int
    """Which note."""
    reason: str
    """Verbatim."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A whole published record."""

    shape: str
    date: str
    decision: str
    commits: Mapping[str, str]
    hardware: Mapping[str, str]
    models: Sequence[tuple[str, str]]
    """Name and digest of each model that is named; the first is the one that ran."""
    reference: Mapping[str, str]
    workload: Workload
    gates: Gates
    cases: Sequence[Case] = ()
    exclusions: Sequence[Exclusion] = ()
    matrix: bool = False
    """Whether it claims to be about several pairs, so that missing ones are told."""
    others: Sequence[Row] = ()
    """Rows that are no pair of element types: a handoff, turns of a growing prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recomputed:
    """One number of the record, made again from others of it."""

    name: str
    recorded: str
    computed: str
    holds: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One verdict by our rules."""

    id: str
    axis: str
    outcome: str
    reason: str = ""
    observed: str = ""
    limit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something about a record that its reader should know."""

    code: str
    where: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What is said of one thing that a record judges."""

    name: str
    count: int
    """Samples."""
    recorded: str
    """``pass``, ``stop``, ``one_pass_one_fail`` or ``not_said``."""
    checks: Sequence[Check] = ()
    recomputed: Sequence[Recomputed] = ()
    findings: Sequence[Finding] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    reasons: Sequence[str] = ()
