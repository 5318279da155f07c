"""The course of a cell: every look and record that its plan announces, exactly once, in the order of the run.

A run that went through its arms leaves one sequence behind, and hardly any of it is a choice: which session is new,
whether a turn reused tokens and whether a step was refused are told by the records themselves. So evidence of such a
run is held to the whole sequence: what is missing, and what has no place there or stands in another one, makes the cell
an error (``RUN.FINISHED``).

What a plan does not announce, and why, is listed in :data:`FREE`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from harness.deriving.looks import TURNS, expected_phases, options_of, source
from harness.model.evidence import CellEvent, Observation, Point, StepRecord, StoreView, Turn
from harness.model.noun import dataclass
from harness.model.scenario import Arm, CellPlan, Step, StepKind
from harness.model.values import ArmRole, Phase

_Seen = Point | Turn | StepRecord | StoreView
"""What one step of one arm leaves behind."""

_NO_SESSION: Final = frozenset(
    {
        StepKind.STORE,
        StepKind.EVICT,
        StepKind.BUDGET,
        StepKind.PRESSURE,
        StepKind.CLOSE,
        StepKind.ALTER,
        StepKind.RESTART,
        StepKind.RIVAL,
        StepKind.SPOIL,
    }
)
"""Steps that open no session; nor does a ``corrupt`` that damages a store."""
_BEGINNING: Final = frozenset({str(Phase.OPENED), str(Phase.RESTORED)})
FREE: Final = {
    "opened, of a refused step with session options": "the refusal may have been one of the options",
    "restored, of a run that was refused": "no record tells whether something was brought back before the refusal",
    "boundary, at no multiple of the chunk": "such cuts are the engine's own (pins, message ends), as both runs say",
    "boundary, of a target without the capability": "it never pauses, so its references are looked at at their ends",
    "boundary, of a turn that was refused in its prefill": "no record tells how far it came",
}
"""Looks that may be there or not, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Astray:
    """The first thing that is not as planned."""

    missing: bool
    """Whether something announced is not there; else something is there that has no place."""
    arm: str
    rep: int
    label: str
    what: str
    """Phase of a look, or kind of a record and how it ended."""


def astray(cell: CellPlan, observations: Sequence[Observation], *, pauses: bool = False) -> Astray | None:
    """Return the first thing that is not as planned in a cell that went through its arms; None: all is.

    Args:
        cell: The plan, as the target can run it.
        observations: Of the cell, in the order of the file; without crashes, and without refusals that end an arm.
        pauses: Whether the target can pause a prefill (capability ``boundaries``), so that references must have been
            looked at at every multiple of the chunk.
    """
    events = [number for number, one in enumerate(observations) if isinstance(one, CellEvent)]
    if events != [0, len(observations) - 1]:
        return Astray(missing=False, arm="", rep=0, label="", what="cell")
    left = _Left([one for one in observations if isinstance(one, _Seen)])
    for arm in sorted(cell.arms, key=lambda arm: arm.role is not ArmRole.REFERENCE):
        for rep in range(2 if arm.role is ArmRole.REFERENCE else 1):
            fault = _arm(left, arm, rep, _cuts(cell, arm) if pauses else {})
            if fault is not None:
                return fault
    return left.over()


class _Left:
    """What was observed and has not found its place yet, in order."""

    def __init__(self, seen: Sequence[_Seen]) -> None:
        self._seen = seen
        self._at = 0

    def take(self, arm: Arm, rep: int, step: Step) -> Sequence[_Seen]:
        """Take what comes next, as long as it is of one step."""
        begin, place = self._at, (arm.id, rep, step.label)
        while self._at < len(self._seen) and _place(self._seen[self._at]) == place:
            self._at += 1
        return self._seen[begin : self._at]

    def over(self) -> Astray | None:
        """Return what has no place at all."""
        if self._at == len(self._seen):
            return None
        one = self._seen[self._at]
        return Astray(missing=False, arm=one.arm, rep=one.rep, label=one.label, what=_word(one))


def _cuts(cell: CellPlan, arm: Arm) -> Mapping[str, int]:
    """Return the chunk that each step of a reference arm has, by label, in tokens; other arms never pause."""
    if arm.role is not ArmRole.REFERENCE:
        return {}
    chunks = {label: options.get("chunk") for label, options in options_of(cell, arm).items()}
    return {label: chunk for label, chunk in chunks.items() if isinstance(chunk, int) and chunk > 0}


def _arm(left: _Left, arm: Arm, rep: int, chunks: Mapping[str, int]) -> Astray | None:
    sessions: set[str] = set()
    for step in arm.steps:
        found = left.take(arm, rep, step)
        words = [_word(one) for one in found]
        if arm.role is ArmRole.REFERENCE and _paused(step, found, words):
            words = [word for word in words if word != Phase.BOUNDARY]
        due = list(_due(step, found, sessions))
        if words != due:
            lacking = next((word for word in due if word not in words), "")
            other = next((word for word in words if word not in due), words[-1] if words else "")
            return Astray(missing=bool(lacking), arm=arm.id, rep=rep, label=step.label, what=lacking or other)
        if step.label in chunks and not _all_paused(arm, step, found, chunks[step.label]):
            return Astray(missing=True, arm=arm.id, rep=rep, label=step.label, what=str(Phase.BOUNDARY))
    return None


def _all_paused(arm: Arm, step: Step, found: Sequence[_Seen], chunk: int) -> bool:
    """Tell whether a turn was looked at at every multiple of the chunk that it came to, short of the prompt's end."""
    turn = next((one for one in found if isinstance(one, Turn)), None)
    if turn is None:
        return True
    begun = source(arm, step.label) if step.kind is StepKind.RESUME else None
    start = turn.cached
    if step.kind is StepKind.RESUME:
        start = begun.until if begun is not None and begun.until is not None else turn.prompt_tokens - turn.prefilled
    elif step.kind is StepKind.RUN and not step.cache:
        start = 0  # a reference that says otherwise is not cold
    upto = turn.prompt_tokens - 1 if step.until is None else min(step.until, turn.prompt_tokens - 1)
    due = range((start // chunk + 1) * chunk, upto + 1, chunk)
    return {one.position for one in found if isinstance(one, Point) and one.phase is Phase.BOUNDARY}.issuperset(due)


def _place(one: _Seen) -> tuple[str, int, str]:
    return one.arm, one.rep, one.label


def _word(one: _Seen) -> str:
    match one:
        case Point():
            return str(one.phase)
        case Turn():
            return "turn"
        case StepRecord():
            return f"{one.kind} {one.ended}"
        case StoreView():
            return "store"


def _due(step: Step, found: Sequence[_Seen], sessions: set[str]) -> Iterator[str]:
    """Yield what a step leaves behind, in order; keeps account of the sessions that are open."""
    phases = {one.phase for one in found if isinstance(one, Point)}
    turn = next((one for one in found if isinstance(one, Turn)), None)
    refused = any(isinstance(one, StepRecord) and one.ended == "refused" for one in found)
    if step.kind is StepKind.RESTART:
        sessions.clear()
    elif step.kind is StepKind.CLOSE:
        sessions.discard(step.session)
    elif _opens(step) and step.session not in sessions and (not (refused and step.options) or Phase.OPENED in phases):
        sessions.add(step.session)
        yield str(Phase.OPENED)
    if refused:
        yield from _before_refusal(step, phases, turn)
        yield f"{step.kind} refused"
        return
    if step.kind is StepKind.RUN and turn is not None and turn.cached and not step.unseen:
        yield str(Phase.RESTORED)
    yield from map(str, expected_phases(step))
    yield from _record(step)


def _opens(step: Step) -> bool:
    return step.kind not in _NO_SESSION and "damage" not in step.target


def _record(step: Step) -> Iterator[str]:
    if step.kind in TURNS:
        yield "turn"
    elif step.kind is StepKind.STORE:
        yield "store"
    else:
        yield f"{step.kind} done"


def _before_refusal(step: Step, phases: Collection[Phase], turn: Turn | None) -> Iterator[str]:
    """Yield what a step that was refused left behind: a decode is refused when the whole prompt is there."""
    if step.kind is StepKind.RUN and not step.unseen and Phase.RESTORED in phases:
        yield str(Phase.RESTORED)
    if turn is not None:
        yield from (str(Phase.PREFILLED), "turn")


def _paused(step: Step, found: Sequence[_Seen], words: Sequence[str]) -> bool:
    """Tell whether the pauses of a step lie in the middle of its prefill, each further than the one before."""
    places = [one.position for one in found if isinstance(one, Point) and one.phase is Phase.BOUNDARY]
    if step.kind not in TURNS or not places or places != sorted(set(places)):
        return False
    first = words.index(Phase.BOUNDARY)
    before, pauses, behind = words[:first], words[first : first + len(places)], words[first + len(places) :]
    return set(pauses) == {str(Phase.BOUNDARY)} and _BEGINNING.issuperset(before) and _BEGINNING.isdisjoint(behind)
