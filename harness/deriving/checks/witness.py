"""Did a restore really happen as the check says? Shown by the counters of the engine, beside equal bytes."""

from __future__ import annotations

from typing import Final

from harness.deriving.pairing import candidate_look, origin
from harness.deriving.view import CellView
from harness.model.evidence import StepRecord, Turn
from harness.model.noun import dataclass
from harness.model.scenario import CheckSpec, PointRef, StepKind
from harness.model.values import Family, Observability, Phase, Witness

_NOT_OF_A_PREFIX: Final = frozenset({Family.META, Family.LOGITS, Family.SAMPLER})
_BEGINS: Final = frozenset({StepKind.RUN, StepKind.RESTORE, StepKind.IMPORT})
_COPIES: Final = (Witness.COPIED, Witness.RESIDENT, Witness.DISK)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What one beginning of a state says of itself."""

    at: PointRef
    cached: int
    restored_bytes: int
    forwarded: int
    """Tokens forwarded up to the end of the prefill, resumed ones included."""
    demanded: int
    """Tokens that must have been reused or forwarded by then."""
    restored_at: int
    """Position of the look right after the restore; -1: there is none."""
    disk_bytes: int = 0
    """Bytes that came from the disk tier."""
    process: int = 0
    """Child process that it ran in; 0: that was not written down."""

    @property
    def adds_up(self) -> bool:
        """Whether reused and forwarded tokens make up the prompt."""
        return self.cached + self.forwarded == self.demanded


def account(view: CellView, ref: PointRef, rep: int = 0) -> Account | None:
    """Return the account of the step that a witness speaks of; None: it left no record.

    A ``run``, a ``restore`` and an ``import`` speak of themselves, a ``resume`` of its run and itself together, an
    ``extend`` of itself, and ``decode`` and ``observe`` of the step that began their state.
    """
    kind = view.step(ref).kind
    begun = ref if kind in (*_BEGINS, StepKind.EXTEND) else origin(view, ref)
    if view.step(begun).kind in (StepKind.RESTORE, StepKind.IMPORT):
        return _restore_account(view, begun, rep)
    turn = view.turn(begun, rep)
    if turn is None:
        return None
    own = view.turn(ref, rep) if kind is StepKind.RESUME else None
    if kind is StepKind.RESUME and own is None:
        return None
    return _turn_account(view, begun, turn, own)


def broken(view: CellView, spec: CheckSpec, ref: PointRef) -> str:
    """Return in what way the witness is not borne out; empty: it is."""
    found = account(view, ref)
    if found is None:
        return "no_record"
    if spec.witness is Witness.NONE:
        return _none(view, ref, found)
    if spec.witness is Witness.REUSED:
        return _first((found.cached < 1, "nothing_reused"), _sum(found))
    if spec.witness is Witness.LIVE:
        return _first((found.cached < 1, "nothing_reused"), (found.restored_bytes > 0, "bytes_copied"), _sum(found))
    if spec.witness in _COPIES:
        from_disk = spec.witness is Witness.DISK
        return _first(
            (found.cached < 1, "nothing_reused"),
            (found.restored_bytes < 1, "no_bytes_copied"),
            _sum(found),
            (found.restored_at not in (found.cached, -1), "other_position"),
            (from_disk and found.disk_bytes < 1, "not_from_disk"),
            (from_disk and not _fresh_process(view, found), "same_process"),
        )
    return "no_such_witness"


def miscounted(view: CellView, spec: CheckSpec, ref: PointRef) -> str:
    """Return in what way the bytes that a copy says it copied cannot be right; empty: they can.

    Everything but metadata, pending logits and sampler must have been copied; nothing beyond the state can have been.
    """
    found = account(view, ref)
    if found is None or spec.witness not in (Witness.COPIED, Witness.DISK) or view.grade is not Observability.PARTS:
        return ""
    look = candidate_look(view, found.at, Phase.RESTORED)
    if look is None:
        return ""
    rows = view.table(look).rows
    most = sum(row.bytes for row in rows)
    least = sum(row.bytes for row in rows if row.family not in _NOT_OF_A_PREFIX)
    return _first(
        (found.restored_bytes < least, "fewer_bytes_than_state"),
        (found.restored_bytes > most, "more_bytes_than_state"),
    )


def restored_look_needed(spec: CheckSpec) -> bool:
    """Tell whether the witness wants a look right after the restore."""
    return spec.witness in _COPIES


def _fresh_process(view: CellView, found: Account) -> bool:
    """Tell whether the step ran in a process that a restart before it began, and that no earlier step ran in."""
    arm = view.arm(found.at.arm)
    steps = [] if arm is None else list(arm.steps)
    before = steps[: [step.label for step in steps].index(found.at.label)] if steps else []
    restarts = [number for number, step in enumerate(before) if step.kind is StepKind.RESTART]
    if not restarts or not found.process:
        return False
    record = view.record(PointRef(arm=found.at.arm, label=before[restarts[-1]].label))
    earlier = [view.turn(PointRef(arm=found.at.arm, label=step.label)) for step in before[: restarts[-1]]]
    fresh = record is not None and record.ended == "done" and record.detail.get("process") == found.process
    return fresh and all(turn is None or turn.process != found.process for turn in earlier)


def _none(view: CellView, ref: PointRef, found: Account) -> str:
    """A run from nothing reused nothing; later steps of a session claim nothing beyond a sum that is right."""
    kind = view.step(ref).kind
    if kind in (StepKind.RUN, StepKind.RESUME):
        return _first((found.cached > 0, "tokens_reused"), (found.restored_bytes > 0, "bytes_copied"), _sum(found))
    return _first(_sum(found))


def _sum(found: Account) -> tuple[bool, str]:
    return not found.adds_up, "tokens_unaccounted"


def _first(*conditions: tuple[bool, str]) -> str:
    return next((word for holds, word in conditions if holds), "")


def _turn_account(view: CellView, at: PointRef, turn: Turn, resumed: Turn | None) -> Account:
    step = view.step(at)
    stopped = step.until is not None and resumed is None
    look = candidate_look(view, at, Phase.RESTORED)
    return Account(
        at=at,
        cached=turn.cached,
        restored_bytes=turn.restored_bytes,
        forwarded=turn.prefilled + (resumed.prefilled if resumed is not None else 0),
        demanded=step.until or 0 if stopped else turn.prompt_tokens,
        restored_at=look.position if look is not None else -1,
        disk_bytes=turn.disk_bytes,
        process=turn.process,
    )


def _restore_account(view: CellView, at: PointRef, rep: int) -> Account | None:
    record = view.record(at, rep)
    look = view.look(at, Phase.RESTORED, rep)
    if record is None or record.ended != "done":
        return None
    cached = _count(record, "cached")
    return Account(
        at=at,
        cached=cached,
        restored_bytes=_count(record, "restored_bytes"),
        forwarded=0,
        demanded=cached,
        restored_at=look.position if look is not None else -1,
    )


def _count(record: StepRecord, name: str) -> int:
    """Return a count of a step's record; what was not written down counts as zero."""
    value = record.detail.get(name, 0)
    return value if isinstance(value, int) else 0
