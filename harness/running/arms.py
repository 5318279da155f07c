"""One arm, once: an engine of its own, its sessions, and what steps share while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.deriving.prompts import prompt_ids
from harness.engines.client import Encoded, Look, RemoteEngine, RemoteSession
from harness.engines.host import EngineHost
from harness.errors import RefusedError
from harness.model.evidence import CellEvent, Facts, PartRow, Point, StepRecord, StoreView
from harness.model.scenario import Arm, CellPlan, Scalar, Step
from harness.model.values import ArmRole, Capability, Phase, RefusalCode
from harness.running.comparing import Comparisons, Seen
from harness.running.disks import Disks
from harness.running.locating import Locator
from harness.running.recording import Recorder
from harness.wire.evidence_doc import part_table


@dataclass(slots=True)
class ArmSession:
    """A session of an arm, with what the harness remembers of it."""

    remote: RemoteSession
    prompt: Sequence[int] = ()
    """Ids of the prompt that was begun last."""
    schedule: Sequence[int] = ()
    """Ends of its chunks."""
    position: int = 0
    """How far it has been forwarded, by the engine's own counts."""
    rows: Sequence[PartRow] = ()
    """Part table of the last look."""
    caching: bool = False
    """Whether the turn that is open takes captures, which its end publishes or drops."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmImage:
    """An exported session, in the harness's hands."""

    data: bytes
    prompt: Sequence[int] = ()
    """Ids of the prompt that was begun last in the session."""


@dataclass(slots=True, kw_only=True)
class CellState:
    """What the arms of one cell share."""

    plan: CellPlan
    host: EngineHost
    folder: Path
    """Run folder: takes the disk folders while an arm runs."""
    recorder: Recorder
    comparisons: Comparisons
    locator: Locator
    stores: dict[tuple[str, str], StoreView] = field(default_factory=dict)
    """Store observations by arm and label; budgets refer to them."""
    decoded: dict[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    """Tokens by arm and label; stop tokens refer to them."""
    last: tuple[Arm, int] | None = None
    """The arm that was run last, and which of its runs it was."""
    opened: list[Mapping[str, Scalar]] = field(default_factory=list)
    """Engine options, disks by their labels, that an engine was opened with."""
    words: str = ""
    """The engine's own words for what it does not support, where the cell ends for that; one printable line."""
    begun: bool = False
    """Whether an arm has begun, so that the cell can end only by going through all of them."""

    def begin(self) -> None:
        """Write down that the cell begins, once."""
        if not self.begun:
            self.begun = True
            self.recorder.write(CellEvent(cell=self.plan.id, event="begin", t_ns=self.recorder.now()))


@dataclass(slots=True, kw_only=True)
class ArmRun:
    """One arm, run once, on an engine of its own."""

    cell: CellState
    arm: Arm
    rep: int
    """0, or 1 for the second run of a reference."""
    opened: RemoteEngine | None
    """The engine; None where a restart could not open it again."""
    options: dict[str, Scalar]
    """What it is opened with; a disk by its label."""
    disks: Disks
    sessions: dict[str, ArmSession] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    """Name in the scenario to the engine's handle."""
    images: dict[str, ArmImage] = field(default_factory=dict)
    """Exported sessions by name; they outlive the process."""

    @property
    def engine(self) -> RemoteEngine:
        """The engine of the arm.

        Raises:
            RefusedError: None is open.
        """
        if self.opened is None:
            raise RefusedError(RefusalCode.STATE, "no engine is open")
        return self.opened

    @property
    def pauses(self) -> bool:
        """Whether prefills stop at every chunk boundary to be looked at."""
        return self.arm.role is ArmRole.REFERENCE and Capability.BOUNDARIES in self.cell.host.capabilities

    def require(self, capability: Capability) -> None:
        """Refuse, in the harness's own name, what the target does not declare.

        Raises:
            RefusedError: With the code ``unsupported``.
        """
        if capability not in self.cell.host.capabilities:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"the target does not declare {capability}")

    def prompt(self, step: Step) -> Sequence[int]:
        """Return the token ids of a step's prompt."""
        return prompt_ids(self.cell.plan.prompts, step.prompt or "")

    def session(self, step: Step) -> ArmSession:
        """Return the session of a step; open it, and look at its empty state under the step's label, if it is new.

        Raises:
            EngineError: It could not be opened.
        """
        if step.session not in self.sessions:
            if step.options:
                self.require(Capability.SESSION_OPTIONS)
            self.sessions[step.session] = ArmSession(remote=self.engine.open_session(step.options))
            self.look(step.session, step.label, Phase.OPENED)
        return self.sessions[step.session]

    def look(self, name: str, label: str, phase: Phase, tokens: Sequence[int] = ()) -> Look:
        """Look at a session, write down what is seen, and locate differences while the bytes are at hand.

        Args:
            name: Of the session.
            label: Of the step.
            phase: When in the step this is.
            tokens: Ids decoded in the step so far.

        Raises:
            EngineError: The look failed.
        """
        session, cell = self.sessions[name], self.cell
        keep = cell.comparisons.spools(self.arm.id, self.rep, label, phase)
        found = cell.host.look(session.remote, spool=keep)
        session.rows = found.rows
        cell.locator.looked(session.remote, self._file(found, label, phase, tokens))
        return found

    def encode(self, name: str, label: str, phase: Phase, codec: str, version: int) -> Encoded:
        """Make an archive of a session's K/V rows; file what the session must be once it was decoded, as a look.

        Raises:
            EngineError: The rows cannot be coded, or the look failed.
        """
        session, cell = self.sessions[name], self.cell
        keep = cell.comparisons.spools(self.arm.id, self.rep, label, phase)
        found = session.remote.encode(codec, version, spool=keep)
        # nothing live has these bytes: where another look differs, it is located when that one is made
        cell.comparisons.add(self._file(found.look, label, phase, ()))
        return found

    def _file(self, found: Look, label: str, phase: Phase, tokens: Sequence[int]) -> Seen:
        """Write down a look."""
        cell = self.cell
        table = part_table(found.rows)
        cell.recorder.write(table)
        cell.recorder.write(
            Point(
                cell=cell.plan.id,
                arm=self.arm.id,
                rep=self.rep,
                label=label,
                phase=phase,
                position=found.position,
                root=table.root,
                logits=found.logits,
                logits_finite=found.logits_finite,
                tokens=tuple(tokens),
                t_ns=cell.recorder.now(),
            )
        )
        return Seen(
            arm=self.arm.id,
            rep=self.rep,
            label=label,
            phase=phase,
            position=found.position,
            rows={row.name: row for row in found.rows},
            logits=found.logits,
        )

    def done(self, step: Step, detail: Facts | None = None) -> None:
        """Write down that a step which is not a turn ended."""
        _record(self.cell, self.arm, self.rep, step, ended="done", detail=detail or {})


def write_refusal(state: CellState, arm: Arm, rep: int, step: Step, error: RefusedError) -> None:
    """Write down that a step was refused."""
    _record(state, arm, rep, step, ended="refused", code=error.code, detail={})


def _record(state: CellState, arm: Arm, rep: int, step: Step, *, ended: str, detail: Facts, code: str = "") -> None:
    state.recorder.write(
        StepRecord(
            cell=state.plan.id,
            arm=arm.id,
            rep=rep,
            label=step.label,
            kind=str(step.kind),
            ended=ended,
            code=code,
            detail=detail,
            t_ns=state.recorder.now(),
        )
    )
