"""Scenario: what shall be shown, without naming an engine; and its resolved form, one :class:`CellPlan` per cell.

A scenario file is data: a closed vocabulary of prompts, arms, steps and checks (``schemas/scenario.v1.json``,
explained in ``docs/formats/scenario.md``). Its ``procedure`` is what is hashed; title, why and fault ids are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from harness.model.noun import dataclass, field
from harness.model.values import (
    ArmRole,
    Capability,
    CellId,
    Family,
    Guarantee,
    Observability,
    Phase,
    Sha256,
    Witness,
)

Scalar = str | int | bool
Coords = Mapping[str, Scalar]
"""Axis name to the label of its value in this cell, in the order of the names; ``scale`` is first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One scenario file."""

    id: str
    """Like ``A02``: family letter and number of the catalogue."""
    title: str
    why: str
    """Which bug this shows, and what it does to a user. Never judged, never hashed."""
    faults: Sequence[str]
    """Ids of the mutants that this scenario must stop, like ``K01.recurrent-kept``."""
    suites: Mapping[str, Sequence[int]]
    """Suite name to the scales it runs at; a scale divides lengths, floor."""
    procedure: Mapping[str, object]
    """The hashed part, as in the file (``$axis`` references not yet replaced)."""
    procedure_digest: Sha256
    """SHA-256 of the canonical bytes of ``procedure``."""
    where: str = ""
    """What to call its file in an error; empty: it was not read from one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSpec:
    """A prompt as a recipe that every engine turns into the same token ids."""

    segments: Sequence[PromptSegment]

    @property
    def length(self) -> int:
        """Tokens in all."""
        return sum(segment.tokens for segment in self.segments)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSegment:
    """Tokens drawn from a seed, taken from the head of another prompt, or given as they are."""

    tokens: int
    seed: int | None = None
    """Draw ``tokens`` ids from the generator of :mod:`harness.deriving.prompts` with this seed."""
    prefix_of: str | None = None
    """Take the first ``tokens`` ids of this prompt."""
    ids: Sequence[int] = ()
    """These ids as they are, like the markers of a chat template; ``tokens`` is their number."""
    change_at: int | None = None
    """Replace the id at this index of the segment by another one (for controls and divergence)."""


class StepKind(StrEnum):
    """The closed vocabulary of steps."""

    RUN = "run"
    """Begin a prompt (reusing the prefix cache if ``cache``), prefill, end the turn, decode."""
    RESUME = "resume"
    """Go on with a ``run`` that stopped at ``until``."""
    EXTEND = "extend"
    """Another turn on top of the present state."""
    DECODE = "decode"
    OBSERVE = "observe"
    """Hash every part of a session; changes nothing."""
    SNAPSHOT = "snapshot"
    """Explicit whole-session snapshot under a handle."""
    RESTORE = "restore"
    """Restore a handle into a session (another session: a fork)."""
    STORE = "store"
    """List the snapshots held, and the counters."""
    CORRUPT = "corrupt"
    """Flip bits in a live part, a handle or a stored snapshot."""
    EVICT = "evict"
    """Evict the given number of least recently used snapshots; ``all`` clears the store."""
    BUDGET = "budget"
    """Change the store's budget in bytes and entries."""
    PRESSURE = "pressure"
    """Ask the store to give bytes back, as growth of a context does."""
    RESET = "reset"
    CLOSE = "close"
    CANCEL = "cancel"
    """Cancel what a session is doing."""
    EXPORT = "export"
    """Export a session as an image, which the harness keeps."""
    IMPORT = "import"
    """Import an image into a session."""
    ALTER = "alter"
    """Change an image in the harness's hands."""
    RESTART = "restart"
    """End the engine's process and go on in a new one; sessions and handles are gone, images and the disk stay."""
    RIVAL = "rival"
    """A second process opens the same engine on the same disk folder."""
    MEANWHILE = "meanwhile"
    """Go on with a session, and in the middle of the call ask it for something else."""
    RECORD = "record"
    """From here on keep what a rollback needs."""
    ROLLBACK = "rollback"
    """Take the last tokens of a session back, in place."""
    SPOIL = "spoil"
    """Change a file of the disk tier."""
    ENCODE = "encode"
    """The harness makes an archive of a session's K/V rows, and files what they are once it was decoded."""
    BRING = "bring"
    """The engine decodes an archive into a session's K/V rows."""


class TurnEnd(StrEnum):
    """What happens to a turn's captures after its prefill."""

    COMMIT = "commit"
    ABANDON = "abandon"
    KEEP = "keep"
    """Neither: captures stay pending."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One resolved step. Fields that a kind does not use keep their defaults."""

    kind: StepKind
    label: str
    """Unique in its arm; observations are filed under it."""
    session: str = "main"
    prompt: str | None = None
    cache: bool = False
    decode: int = 0
    """Tokens to decode after the prefill (or in all, for ``decode``)."""
    sampler: Mapping[str, int] = field(default_factory=dict)
    """Empty: greedy. Else ``temperature_ppm``, ``top_k``, ``top_p_ppm``, ``seed``, ``repetition_ppm``, …"""
    end: TurnEnd = TurnEnd.COMMIT
    until: int | None = None
    """Stop the prefill at this position (a chunk boundary) and leave the turn open."""
    handle: str | None = None
    image: str | None = None
    """``export``, ``import``, ``alter``, ``encode``, ``bring``: name of an image or an archive."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """Session options that differ from the engine's (chunk, namespace, route, turns, …); of a ``restart`` those of the
    engine."""
    target: Mapping[str, Scalar] = field(default_factory=dict)
    """``corrupt``: ``where`` (live, handle, store), ``boundary``, ``part`` (name or family), ``byte``, ``mask``; or, in
    place of the last three, ``damage``: a named damage to the geometry of a stored snapshot. ``export``: ``capacity``
    or ``short_by``. ``alter``: ``how``, ``at``, ``mask``, ``count``, ``of``, ``what``, ``to``. ``restart``: ``how``.
    ``spoil``: ``what``, ``boundary``, ``index``, ``byte``, ``mask``, ``count``. ``meanwhile``: ``ask``.
    ``encode``, ``bring``: ``codec``, ``version``."""
    count: int = 0
    """``evict``: how many; -1 clears. ``rollback``: tokens. ``meanwhile``: tokens to decode; 0: it prefills."""
    budget: Mapping[str, int | str] = field(default_factory=dict)
    """``budget`` and ``pressure``: ``bytes`` and ``entries``; or ``times``, ``plus`` and ``of`` (``arm.label`` of an
    earlier store observation): ``times`` x its stored bytes + ``plus``. ``restart``: the same of its disk folder."""
    stop: Mapping[str, int | str] = field(default_factory=dict)
    """What ends a decode early: ``token``; or ``of`` and ``index``, the token that an earlier step decoded there."""
    cancel_after: int = 0
    """Tokens after which a decode is cancelled; 0: it is not."""
    unseen: bool = False
    """``run``, ``extend``, ``restore``, ``import``, ``rollback``, ``bring``: nobody looks at the session, nor waits for
    the device, before its next call; of a ``run`` and an ``extend`` that is their prefill."""
    may_refuse: bool = False
    """A named refusal of this step is an observation, not the end of the arm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One side of a comparison: steps on an engine of its own, with an empty store."""

    id: str
    role: ArmRole
    steps: Sequence[Step]
    engine: Mapping[str, Scalar] = field(default_factory=dict)
    """Engine options of this arm on top of the cell's."""
    requires: Sequence[Capability] = ()
    """Capabilities that this arm alone needs. A control arm whose needs are not met is left out, with its checks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRef:
    """``arm.label``: everything observed under one step of one arm."""

    arm: str
    label: str

    def __str__(self) -> str:
        return f"{self.arm}.{self.label}"


class CheckKind(StrEnum):
    """The closed vocabulary of questions. Each is one file in ``harness/deriving/checks``."""

    EXACT = "exact"
    """Candidate equals reference in every part, the logits and the tokens."""
    NEAR = "near"
    """Candidate lies within stated distances of its reference in every part and the logits, with the same tokens."""
    ACROSS = "across"
    """Another build, told apart by what it has loaded, refused an image by name or holds it within stated distances."""
    UNCHANGED = "unchanged"
    """Two looks at one session are equal in every part and the logits."""
    SAME_IMAGE = "same_image"
    """Two exported images have the same bytes."""
    ENDED = "ended"
    """A decode ended for this reason."""
    ANSWERS = "answers"
    """The decoded tokens hold the answer that was asked for, where those of the reference do."""
    CACHED = "cached"
    """The turn reused exactly this many tokens."""
    REUSED = "reused"
    """The turn reused tokens, and forwarded at most a part of what a cold turn forwarded."""
    STORED = "stored"
    """Bytes held equal a whole number of unit snapshots."""
    SIZED = "sized"
    """Each snapshot has the bytes that the state at its boundary, less its parent's rows, must have."""
    FOOTPRINT = "footprint"
    """Bytes held stay within a part of what whole copies at every boundary would take."""
    ENTRIES = "entries"
    """Number of snapshots held."""
    REFUSED = "refused"
    """The step was refused with one of these codes."""
    COUNTER = "counter"
    """A counter of the store equals, or stays within, a limit."""
    BALANCE = "balance"
    """Two sums of counters are equal, or one stays within the other."""
    QUICKER = "quicker"
    """Turns that reuse state take less time than turns that do not, by interleaved pairs."""
    SEEN = "seen"
    """A control: candidate differs from reference, at the named part first."""
    REPEATABLE = "repeatable"
    """Added to every reference arm: its two runs are equal."""
    INVENTORY = "inventory"
    """Added to every cell that sees parts: nothing is unhashed, nothing is missing."""
    FINISHED = "finished"
    """Added to every cell: no crash, hang, or lost observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckSpec:
    """One resolved check. Fields that a kind does not use keep their defaults."""

    id: str
    """Unique in the scenario; the certificate names checks by it."""
    kind: CheckKind
    candidate: PointRef | None = None
    reference: PointRef | None = None
    at: PointRef | None = None
    guarantee: Guarantee = Guarantee.SAME_SCHEDULE
    witness: Witness = Witness.NONE
    phases: Sequence[Phase] = ()
    """Phases to compare; empty: every phase that the candidate has."""
    equals: int | None = None
    at_least: int | None = None
    at_most: int | None = None
    restarted: PointRef | None = None
    """``across``: the restart into the other build."""
    unit: PointRef | None = None
    """``stored``: the store observation whose bytes are one unit."""
    whole: Sequence[PointRef] = ()
    """``footprint``: reference steps whose boundaries would each be copied whole; one may be named several times."""
    beyond_fixed: bool = False
    """``footprint``: only rows are compared; fixed parts, which each snapshot must hold, are left out on both sides."""
    gaps_at_most: int = 0
    """``sized``: bytes that may lie between the parts of one snapshot, each at an aligned address."""
    counter: str = ""
    terms: Sequence[str] = ()
    """``balance``: the counters whose sum is asked about."""
    sum_is: Sequence[str] = ()
    """``balance``: those whose sum it must equal."""
    within: Sequence[str] = ()
    """``balance``: those whose sum it must not exceed."""
    codes: Sequence[str] = ()
    reason: str = ""
    """``ended``: ``length``, ``stop``, ``cancel`` or ``error``."""
    part: str = ""
    """``seen``: name or family of the first part that must differ; empty: any."""
    ids: Sequence[int] = ()
    """``answers``: token ids that must stand side by side in what was decoded."""
    or_ids: Sequence[int] = ()
    """``answers``: another spelling of them; empty: there is none."""
    entire: bool = False
    """``answers``: nothing else may be decoded, but for a token that ends it."""
    fields: Sequence[str] = ("parts", "logits", "tokens")
    """What ``exact``, ``near`` and ``unchanged`` compare."""
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``near``: name or family of parts (``logits`` too) to the largest distance: ``ulp``, ``relative_ppb``,
    ``absolute_nano``. What is not named must be equal. ``seen``: those of the check in ``beyond``."""
    beyond: str = ""
    """``seen``: id of the near check whose limits the control must exceed; empty: it is enough that it differs."""
    reordered: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``exact``: the limits of the near check that it is for a target which says that it sums in another order."""
    pairs: Sequence[tuple[PointRef, PointRef]] = ()
    """``quicker``: candidate and reference of each pair, turns of one arm, in the order in which they run."""
    margin_ppm: int = 0
    """``quicker``: of the reference's median, by which the interval must lie below 0."""
    steady_ppm: int = 0
    """``quicker``: by how much the reference may move from its first half to its second."""
    gain_at_most: int = 0
    """``quicker``: how many times quicker is still believed."""
    unit_name: str = ""
    """Unit of the limit: tokens, bytes, entries, …"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellPlan:
    """One cell with everything resolved: no ``$axis`` left, lengths in tokens."""

    id: CellId
    coords: Coords
    excluded: str = ""
    """Reason; empty if the cell runs."""
    engine: Mapping[str, Scalar] = field(default_factory=dict)
    prompts: Mapping[str, PromptSpec] = field(default_factory=dict)
    arms: Sequence[Arm] = ()
    checks: Sequence[CheckSpec] = ()
    requires: Sequence[Capability] = ()
    families: Sequence[Family] = ()
    """Families that must be in the inventory."""
    observability: Observability = Observability.PARTS
    devices: int = 1
    """Devices of the target's kind that it needs."""
    tokenizer: str = ""
    """SHA-256 of the vocabulary that literal ids belong to; empty: they belong to none."""

    @property
    def timed(self) -> bool:
        """Whether it is judged by times, which other work beside it would spoil."""
        return any(check.kind is CheckKind.QUICKER for check in self.checks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The declared product of one scenario at the chosen scales: every combination is a cell."""

    scenario: Scenario
    suite: str
    scales: Sequence[int]
    axes: Mapping[str, Sequence[Scalar]]
    """Axis name to its labels, ``scale`` first."""
    cells: Sequence[CellPlan]
    selected: Sequence[CellId]
    """Cells that this run was asked for; fewer than all makes the run partial."""

    @property
    def partial(self) -> bool:
        """Whether something of the declared product was left out by the caller."""
        return len(self.selected) != len(self.cells)

    @property
    def timed(self) -> bool:
        """Whether a selected cell is judged by times, which other work beside it would spoil."""
        return any(cell.timed for cell in self._chosen())

    @property
    def restarts(self) -> bool:
        """Whether a selected cell goes on in another process."""
        steps = (step for cell in self._chosen() for arm in cell.arms for step in arm.steps)
        return any(step.kind is StepKind.RESTART for step in steps)

    def _chosen(self) -> Sequence[CellPlan]:
        """Cells that are to be run."""
        chosen = set(self.selected)
        return [cell for cell in self.cells if cell.id in chosen and not cell.excluded]
