"""Which looks of a candidate belong to which looks of its reference, and which of them are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.deriving.compare import Comparison, Pair, compare
from harness.deriving.looks import ORDER, expected_phases, source
from harness.deriving.view import CellView
from harness.model.evidence import Point
from harness.model.noun import dataclass, replace
from harness.model.scenario import CheckKind, CheckSpec, PointRef, StepKind
from harness.model.values import Guarantee, Observability, Phase

SAME_PLACE: Final = (Phase.BOUNDARY, Phase.PREFILLED, Phase.END, Phase.SEEN, Phase.RESTORED)
"""Where a reference may have been looked at at the position of a restore, most telling first."""
_SHOWS_PARTS: Final = frozenset({Observability.PARTS, Observability.IMAGE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairing:
    """Pairs in the order of their phases, and looks that should be there."""

    pairs: Sequence[Pair]
    missing: Sequence[tuple[PointRef, Phase]]
    """Step and phase without a look; of the candidate or of the reference."""


def pairing(view: CellView, spec: CheckSpec) -> Pairing:
    """Return what a comparing check has to look at.

    Which phases those are follows from the plan and from the turn's own counters, not from the looks that happen to
    be there.
    """
    candidate, reference = _refs(spec)
    if spec.kind is CheckKind.UNCHANGED and not spec.phases:
        return _last_looks(view, candidate, reference)
    pairs: list[Pair] = []
    missing: list[tuple[PointRef, Phase]] = []
    for phase in wanted_phases(view, spec):
        ours = candidate_look(view, candidate, phase)
        theirs = _counterpart(view, reference, ours) if ours is not None else None
        if ours is None:
            missing.append((candidate, phase))
        elif theirs is None:
            missing.append((reference, phase))
        else:
            pairs.append(Pair(phase=phase, candidate=ours, reference=theirs))
    return Pairing(pairs=tuple(pairs), missing=tuple(missing))


def comparisons(view: CellView, spec: CheckSpec, found: Pairing) -> tuple[Comparison, ...]:
    """Return the comparison of every pair."""
    return tuple(
        compare(
            pair,
            view.table(pair.candidate),
            view.table(pair.reference),
            compared_fields(spec),
            see_parts=view.grade in _SHOWS_PARTS,
        )
        for pair in found.pairs
    )


def compared_fields(spec: CheckSpec) -> Sequence[str]:
    """Return what the guarantee of a check lets it compare."""
    return ("tokens",) if spec.guarantee is Guarantee.TOKENS_ONLY else spec.fields


def wanted_phases(view: CellView, spec: CheckSpec) -> tuple[Phase, ...]:
    """Return the phases that a check compares, in order."""
    candidate, _ = _refs(spec)
    if spec.guarantee is Guarantee.TOKENS_ONLY:
        return (Phase.END,)
    if spec.phases:
        return tuple(phase for phase in ORDER if phase in spec.phases)
    phases = set(expected_phases(view.step(candidate)))
    phases |= {look.phase for look in view.looks(candidate)} & set(ORDER)
    if reused(view, candidate) and view.grade in _SHOWS_PARTS and not view.step(origin(view, candidate)).unseen:
        phases.add(Phase.RESTORED)
    return tuple(phase for phase in ORDER if phase in phases)


def origin(view: CellView, ref: PointRef) -> PointRef:
    """Return the run or restore that began the state of a step; the step itself where there is none.

    One that the engine refused began nothing.
    """
    arm = view.arm(ref.arm)
    step = source(arm, ref.label, view.refused_in(ref.arm)) if arm is not None else None
    return replace(ref, label=step.label) if step is not None else ref


def candidate_look(view: CellView, ref: PointRef, phase: Phase) -> Point | None:
    """Return the candidate's look; the restore of a resumed turn is filed under its run."""
    found = view.look(ref, phase)
    if found is None and phase is Phase.RESTORED and view.step(ref).kind is StepKind.RESUME:
        return view.look(origin(view, ref), phase)
    return found


def reused(view: CellView, ref: PointRef) -> bool:
    """Tell whether the turn of a run, or the run that a resume goes on with, reused tokens."""
    kind = view.step(ref).kind
    if kind is StepKind.RESUME:
        ref = origin(view, ref)
    turn = view.turn(ref) if kind in (StepKind.RUN, StepKind.RESUME) else None
    return turn is not None and turn.cached > 0


def _counterpart(view: CellView, reference: PointRef, ours: Point) -> Point | None:
    if ours.phase is Phase.RESTORED:
        return _at_position(view, reference, ours.position)
    same = view.look(reference, ours.phase)
    return same if same is not None or ours.phase is not Phase.SEEN else _last_look(view, reference)


def _at_position(view: CellView, reference: PointRef, position: int) -> Point | None:
    looks = [*view.looks(reference)]
    if view.step(reference).kind is StepKind.RESUME:
        looks += view.looks(origin(view, reference))
    here = [look for look in looks if look.position == position and look.phase in SAME_PLACE]
    return min(here, key=lambda look: SAME_PLACE.index(look.phase), default=None)


def _last_looks(view: CellView, candidate: PointRef, reference: PointRef) -> Pairing:
    ours, theirs = _last_look(view, candidate), _last_look(view, reference)
    missing = [(ref, Phase.SEEN) for ref, look in ((candidate, ours), (reference, theirs)) if look is None]
    if ours is None or theirs is None:
        return Pairing(pairs=(), missing=tuple(missing))
    return Pairing(pairs=(Pair(phase=ours.phase, candidate=ours, reference=theirs),), missing=())


def _last_look(view: CellView, ref: PointRef) -> Point | None:
    """Return the state as a step left it."""
    found = [look for look in view.looks(ref) if look.phase in ORDER]
    return max(found, key=lambda look: ORDER.index(look.phase), default=None)


def _refs(spec: CheckSpec) -> tuple[PointRef, PointRef]:
    if spec.candidate is None or spec.reference is None:
        raise ValueError(f"check {spec.id} compares nothing")
    return spec.candidate, spec.reference
