"""Evidence: all observations of one run, closed. Each class is one kind of line in the file (``type`` names it).

An observation is something seen; it holds no opinion. A file is one header, any number of observations in the
order in which they were made, and one end record that counts and digests the lines before it. A file without an
end record was cut off: it can be read, never certified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.model.noun import dataclass, field
from harness.model.values import CellId, CrashKind, Phase, Sha256

Facts = Mapping[str, str | int | bool]
PART_DIGEST: Final = "sha256-part-v1"
"""Id of the part digest, which every record of one names; :mod:`harness.digest.parts` makes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """``header``: what was going to be run, on what, by whom. First line."""

    run_id: str
    """32 hex digits, unique for each run."""
    created: str
    """RFC 3339 UTC with ``Z``."""
    suite: str
    scales: Sequence[int]
    selected: Sequence[CellId]
    """Cells asked for; all of the product unless the run is partial."""
    scenario_id: str
    procedure: Mapping[str, object]
    procedure_digest: Sha256
    target: Mapping[str, object]
    """:class:`harness.model.target.TargetFacts` as a mapping; with ``group`` and ``adapter``."""
    environment: Mapping[str, object]
    source: Mapping[str, object]
    """:class:`harness.model.target.Source` as a mapping."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartRow:
    """One state part in a part table."""

    name: str
    """Like ``layer3.k``. Part 0 is ``meta``."""
    family: str
    layer: int
    element_type: str
    shape: Sequence[int]
    """Valid extent; for a row stream the first number is the valid rows."""
    stream: str
    """``fixed`` or ``rows``."""
    bytes: int
    sha256: Sha256
    """Part digest v1: over the valid bytes only."""
    uniform: bool = False
    """All its bytes have one value, as in a buffer that nobody wrote; told of parts of 64 bytes and more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartTable:
    """``parts``: a part table, written once for each distinct one, before the first point that names it."""

    root: Sha256
    """SHA-256 of the canonical bytes of the rows."""
    rows: Sequence[PartRow]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEvent:
    """``cell``: a cell began, or came to its end without going through its arms.

    ``event`` is ``begin``, ``end``, ``not_run`` or ``not_supported``; the latter two carry a reason.
    """

    cell: CellId
    event: str
    reason: str = ""
    words: str = ""
    """What the engine said of what it does not support, one line, for people, never judged; empty: it said nothing, or
    something that must not enter a record."""
    t_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """``point``: the state of one session, looked at once."""

    cell: CellId
    arm: str
    rep: int
    """0 or 1: a reference arm runs twice."""
    label: str
    phase: Phase
    position: int
    """Tokens that the state stands for, by the engine's own count."""
    root: Sha256
    """Of the part table; an empty table where parts cannot be seen."""
    logits: str = ""
    """SHA-256 of the pending logits; empty: none valid or none to be had."""
    logits_finite: bool = True
    tokens: Sequence[int] = ()
    """Ids decoded in this step so far."""
    t_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """``turn``: what one run, resume or extend step did and took. Durations are monotonic ns, without hashing.

    A ``resume`` counts only what it forwarded itself: ``cached`` is 0, ``prefilled`` runs from ``until`` on. An
    ``extend`` starts from the present position: that is its ``cached``, and ``prompt_tokens`` is that position plus
    the new tokens.
    """

    cell: CellId
    arm: str
    rep: int
    label: str
    prompt_tokens: int
    """Length of the whole prompt, also where the turn stopped before its end."""
    prompt_digest: Sha256
    """SHA-256 of the little-endian u32 token ids of the step's prompt; of a ``resume``, that of its run."""
    cached: int
    """Tokens that the engine says it reused."""
    prefilled: int
    """Tokens that the engine says it forwarded in this step's prefill."""
    decoded: int
    restored_bytes: int
    """Bytes that the engine says it copied back for this step."""
    begin_ns: int
    prefill_ns: int
    commit_ns: int
    decode_ns: int
    first_token_ns: int = 0
    """From the start of the step to the first decoded token, hashing left out; 0: nothing decoded."""
    finish: str = ""
    """``length``, ``stop``, ``cancel`` or ``error``; empty: the turn is still open, or the file is older."""
    process: int = 0
    """Number of the child process that it ran in; 0: the file is older."""
    disk_bytes: int = 0
    """Bytes that the engine says it loaded from its disk tier for this step."""
    t_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRecord:
    """``step``: a step that is not a turn ended, or any step was refused."""

    cell: CellId
    arm: str
    rep: int
    label: str
    kind: str
    ended: str
    """``done`` or ``refused``."""
    code: str = ""
    """Refusal code."""
    detail: Facts = field(default_factory=dict)
    """What was done: handle, corrupted part, byte and mask, evicted count, …"""
    t_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreView:
    """``store``: the snapshots held, and the counters, at a ``store`` step."""

    cell: CellId
    arm: str
    rep: int
    label: str
    entries: Sequence[Facts]
    """Per snapshot: key, parent (hex, empty for a root), boundary, bytes, fixed_bytes, children, pending;
    gap_bytes too where parts are aligned."""
    counters: Mapping[str, int]
    t_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """``difference``: where two parts first differ; found while both byte strings were at hand."""

    cell: CellId
    check: str
    phase: Phase
    part: str
    family: str
    layer: int
    element_type: str
    byte: int
    """Offset of the first differing byte in the part."""
    row: int
    element: int
    """Index of the element within its row."""
    reference: str
    """The element's bytes, hex, little-endian as stored."""
    candidate: str
    reference_value: str
    candidate_value: str
    differing_elements: int
    differing_rows: int
    last_row: int
    shape: str
    """Classification, like ``single_bit`` or ``all_zero``."""
    parts_differing: int
    """How many parts of the table differ at this phase."""
    rerun: bool = False
    """The reference's bytes were not kept (spool budget, crash): its arm was run once more to locate this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distance:
    """``distance``: how far a part lies from its reference's, where a comparison allows a stated distance."""

    cell: CellId
    check: str
    phase: Phase
    """Of the candidate."""
    part: str
    """Part name; or ``logits``, where these are no part of the state."""
    family: str
    layer: int
    element_type: str
    elements: int
    """Elements in the part."""
    differing_elements: int
    ulp: int
    """Most places of the element type between two elements."""
    relative_ppb: int
    """Largest difference in billionths of the reference's largest magnitude, rounded up."""
    absolute_nano: int
    """Largest difference in billionths, rounded up."""
    finite: bool
    """Whether all elements that differ are numbers on both sides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """``crash``: a step did not end by itself. The child is replaced, the run goes on."""

    cell: CellId
    arm: str
    rep: int
    label: str
    kind: CrashKind
    detail: str
    """Exception type or signal name; no free text, no paths."""
    t_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """``trust``: what was done so that the digests of a child can be believed. Once per child."""

    child: int
    """Number of the child in this run."""
    hashed_by: str
    """``host`` (the harness's code in the child process) or ``parent``."""
    algorithm: str
    known_answers: int
    """Buffers with known digests that the child hashed rightly at its start."""
    spot_checks: int
    """Parts that were shipped as bytes and hashed again by the parent."""
    mismatches: int


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """``end``: the run is over. Last line."""

    records: int
    """Lines before this one."""
    sha256: Sha256
    """Of all bytes before this line."""
    finished: str
    elapsed_ns: int
    interrupted: bool = False
    """Ctrl-C: cells that were not done are ``not_run``, unless a failure was seen in one; never certified."""


Observation = PartTable | CellEvent | Point | Turn | StepRecord | StoreView | Difference | Distance | Crash | Trust


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One evidence file."""

    header: Header
    observations: Sequence[Observation]
    end: End | None
    """None: the file was cut off."""
    sha256: Sha256
    """Of the whole file."""
    bytes: int
