"""Certificate, ledger event, and what a gate finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.errors import ExitCode
from harness.model.noun import dataclass, field
from harness.model.values import CertificateState, ReasonCode, Sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """What the ledger alone says of one certificate. Freshness and expiry are never stored."""

    state: CertificateState
    since: str = ""
    superseded_by: str = ""
    """64 hex of the direct successor; empty unless superseded."""
    reason_code: str = ""
    events: Sequence[Sha256] = ()
    """Ids of the ledger events that speak of this certificate, oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """One certificate file: an immutable body, and the status beside it."""

    id: Sha256
    """SHA-256 of the canonical bytes of ``body``; not stored inside it."""
    body: Mapping[str, object]
    status: Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One append-only ledger event, a file of its own."""

    id: Sha256
    """SHA-256 of the canonical bytes of the event."""
    kind: str
    """``supersede``, ``withdraw``, ``reinstate``, ``waive`` or ``annotate``."""
    target: Sha256
    by: str = ""
    """Successor's id for ``supersede``."""
    reason_code: ReasonCode
    created: str
    differs: Sequence[str] = ()
    """Computed: which digests or environment facts differ between target and successor."""
    dropped_cells: Sequence[str] = ()
    """Computed: cells of the target that the successor does not have."""
    rule: str = ""
    """Of ``waive``: the gate rule that is waived, like ``CG601``."""
    until: str = ""
    """Of ``waive``: last day on which it holds, like ``2026-12-31``; empty: no end."""
    note: str = ""
    """Of ``annotate``: one short line of printable ASCII that names nobody and no machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that a gate rule found."""

    rule: str
    """Like ``CG303``."""
    severity: str
    """``error`` or ``note``; a note never changes the exit code."""
    where: str
    """File and path inside it."""
    message: str
    hint: str
    """What to do."""
    exit_code: ExitCode


@dataclass(frozen=True, kw_only=True, slots=True)
class Waived:
    """A finding that an event of the ledger accepts: shown and counted, without weight for the exit code."""

    finding: Finding
    event: Sha256
    """Id of the waiver."""
    until: str
    """Its last day; empty: no end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateReport:
    """What one gate run looked at and found."""

    exit_code: ExitCode
    findings: Sequence[Finding]
    certificates: int
    events: int
    evidence_files: int
    rules: Sequence[str]
    """Ids of the rules that ran."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Cells by outcome, over current certificates."""
    stops: Sequence[str] = ()
    """Current certificates whose decision is not pass: listed, not refused, unless a policy requires them."""
    waived: Sequence[Waived] = ()
    """Findings that waivers of the ledger accept."""
    contested: Sequence[str] = ()
    """Claim keys that one machine passed and another stopped, with both sides."""
    carried: Sequence[str] = ()
    """Where certificates were measured that the files at hand still carry; what they timed stays what it was there."""
    judged: Iterable[str] = ()
    """One line for each certificate (with its state) and event: what this report is about."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the run was told: day, options, digests of policy and keys, base and head of a change."""
    changed: Sequence[tuple[str, Sequence[str]]] = ()
    """Files of a change, each with the ids of the current certificates that speak of it."""
