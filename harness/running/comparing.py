"""Finds, while the bytes are still at hand, where the two sides of a planned comparison differ.

A reference is looked at first and its bytes stay in the spool of the cell; when its candidate is looked at and the
part tables differ, the child compares the first differing part at once, before anything else runs. Which of the two
was looked at first does not matter. Nothing here decides whether a difference is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.deriving.looks import ORDER, expected_phases, source, step_of
from harness.deriving.pairing import SAME_PLACE
from harness.deriving.questions import WITHIN_LIMITS
from harness.engines.client import RemoteSession
from harness.engines.locating import Located
from harness.engines.measuring import Measured
from harness.model.evidence import Difference, Distance, PartRow
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef, StepKind
from harness.model.values import NO_LAYER, CellId, Family, Guarantee, Phase

_COMPARING: Final = frozenset({CheckKind.EXACT, *WITHIN_LIMITS, CheckKind.UNCHANGED, CheckKind.SEEN})


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One look, as far as a comparison needs it."""

    arm: str
    rep: int
    label: str
    phase: Phase
    position: int
    rows: Mapping[str, PartRow]
    """Part rows by name, in table order."""
    logits: str = ""
    """Digest of the pending logits; empty: none."""

    def digest(self, part: str) -> str:
        """Return the digest of a part, or of the logits where no part has their name."""
        row = self.rows.get(part)
        return row.sha256 if row is not None else self.logits

    @property
    def ref(self) -> PointRef:
        """What checks call it."""
        return PointRef(arm=self.arm, label=self.label)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two looks that some check compares, and that differ."""

    check: str
    candidate: Seen
    reference: Seen
    part: str
    """First differing part in the candidate's table order that both have; one of several where it is to be measured."""
    parts_differing: int
    measured: bool = False
    """How far the part lies away is asked, not where it first differs."""


class Comparisons:
    """All planned comparisons of one cell, and the looks that they may still need.

    Pairs looks as :mod:`harness.deriving.pairing` does afterwards from the evidence; here one look at a time.
    """

    def __init__(self, cell: CellPlan) -> None:
        self._arms = cell.arms
        self._checks = [check for check in cell.checks if _compares_parts(check)]
        self._sides = {check.id: (self._named(check.candidate), self._named(check.reference)) for check in self._checks}
        self._seen: list[Seen] = []
        self._done: set[tuple[str, Phase, str]] = set()

    def spools(self, arm: str, rep: int, label: str, phase: Phase) -> bool:
        """Tell whether the bytes of a look that is about to be made may be compared with later ones."""
        if rep or phase is Phase.OPENED:
            return False
        ref = PointRef(arm=arm, label=label)
        sides = self._sides.values()
        return any(
            ref in reference or (ref in candidate and not self._have(reference)) for candidate, reference in sides
        )

    def add(self, look: Seen) -> Sequence[Pair]:
        """Take a new look; return the pairs that differ, each check and phase (and part to be measured) once."""
        if look.phase is Phase.OPENED:
            return []
        self._seen.append(look)
        found: list[Pair] = []
        for pair in self._pairs(look):
            key = (pair.check, pair.candidate.phase, pair.part if pair.measured else "")
            if key not in self._done:
                self._done.add(key)
                found.append(pair)
        return found

    def _pairs(self, look: Seen) -> Iterator[Pair]:
        if look.rep:
            yield from self._against_first_run(look)
            return
        for check in self._checks:
            candidates, references = self._sides[check.id]
            if look.ref in candidates:
                yield from self._paired(check, look)
            elif look.ref in references:
                for earlier in [seen for seen in self._seen if seen.ref in candidates and not seen.rep]:
                    yield from (pair for pair in self._paired(check, earlier) if pair.reference is look)

    def _against_first_run(self, look: Seen) -> Iterator[Pair]:
        place = (look.ref, look.phase, look.position)
        first = next(
            (seen for seen in self._seen if not seen.rep and (seen.ref, seen.phase, seen.position) == place), None
        )
        if first is not None:
            yield from _differing(f"repeatable:{look.arm}", look, first)

    def _paired(self, check: CheckSpec, candidate: Seen) -> Iterator[Pair]:
        if self._is_compared(check, candidate):
            reference = self._counterpart(check, candidate)
            if reference is not None and check.limits:
                yield from _to_measure(check, candidate, reference)
            if reference is not None and check.kind not in WITHIN_LIMITS:
                yield from _differing(check.id, candidate, reference)

    def _is_compared(self, check: CheckSpec, look: Seen) -> bool:
        """Tell whether a check compares this look of its candidate."""
        own = look.ref == check.candidate
        if not own and look.phase is not Phase.RESTORED:
            return False  # of the run that a resume goes on with, only the restore belongs to the resume
        if check.phases:
            return look.phase in check.phases
        if check.kind is CheckKind.UNCHANGED:
            return own and look.phase is self._last_phase(check.candidate)
        return look.phase in ORDER

    def _counterpart(self, check: CheckSpec, candidate: Seen) -> Seen | None:
        """Return the look of the reference that a candidate's look is compared with, if it was made already."""
        looks = [look for look in self._seen if look.ref in self._sides[check.id][1] and not look.rep]
        own = [look for look in looks if look.ref == check.reference and look.phase in ORDER]
        last = max(own, key=lambda look: ORDER.index(look.phase), default=None)
        if check.kind is CheckKind.UNCHANGED and not check.phases:
            return last if last is not None and last.phase is self._last_phase(check.reference) else None
        if candidate.phase is Phase.RESTORED:
            here = [look for look in looks if look.position == candidate.position and look.phase in SAME_PLACE]
            return min(here, key=lambda look: SAME_PLACE.index(look.phase), default=None)
        same = next((look for look in own if look.phase is candidate.phase), None)
        return same if same is not None or candidate.phase is not Phase.SEEN else last

    def _named(self, ref: PointRef | None) -> Sequence[PointRef]:
        """Return a reference, and for a ``resume`` also the run that it goes on with."""
        arm = next((arm for arm in self._arms if ref is not None and arm.id == ref.arm), None)
        step = step_of(self._arms, ref) if ref is not None else None
        if ref is None or arm is None or step is None or step.kind is not StepKind.RESUME:
            return [ref] if ref is not None else []
        begun = source(arm, ref.label)
        return [ref] if begun is None else [ref, PointRef(arm=ref.arm, label=begun.label)]

    def _last_phase(self, ref: PointRef | None) -> Phase | None:
        step = step_of(self._arms, ref) if ref is not None else None
        phases = expected_phases(step) if step is not None else ()
        return phases[-1] if phases else None

    def _have(self, refs: Sequence[PointRef]) -> bool:
        return any(look.ref in refs for look in self._seen)


def difference(cell: CellId, pair: Pair, located: Located, *, rerun: bool = False) -> Difference:
    """Return the observation of a located difference; ``rerun``: found by running the reference once more."""
    row = pair.candidate.rows[pair.part]
    return Difference(
        cell=cell,
        check=pair.check,
        phase=pair.candidate.phase,
        part=row.name,
        family=row.family,
        layer=row.layer,
        element_type=row.element_type,
        byte=located.byte,
        row=located.row,
        element=located.element,
        reference=located.reference,
        candidate=located.candidate,
        reference_value=located.reference_value,
        candidate_value=located.candidate_value,
        differing_elements=located.differing_elements,
        differing_rows=located.differing_rows,
        last_row=located.last_row,
        shape=located.shape,
        parts_differing=pair.parts_differing,
        rerun=rerun,
    )


def distance(cell: CellId, pair: Pair, measured: Measured) -> Distance:
    """Return the observation of a measured distance."""
    row = pair.candidate.rows.get(pair.part)
    found = measured.distance
    return Distance(
        cell=cell,
        check=pair.check,
        phase=pair.candidate.phase,
        part=pair.part,
        family=row.family if row is not None else Family.LOGITS,
        layer=row.layer if row is not None else NO_LAYER,
        element_type=measured.element_type,
        elements=found.elements,
        differing_elements=found.differing_elements,
        ulp=found.ulp,
        relative_ppb=found.relative_ppb,
        absolute_nano=found.absolute_nano,
        finite=found.finite,
    )


def observed_live(session: RemoteSession, cell: CellId, pair: Pair, live: Seen) -> Difference | Distance | None:
    """Let the child compare the live side of a pair with the other one's bytes; None: nothing can be told of them."""
    if not pair.measured:
        return difference(cell, pair, located_live(session, pair, live))
    other = pair.reference if live is pair.candidate else pair.candidate
    measured = session.measure(pair.part, other.digest(pair.part), live_is_reference=live is pair.reference)
    return distance(cell, pair, measured) if measured is not None else None


def located_live(session: RemoteSession, pair: Pair, live: Seen) -> Located:
    """Let the child compare the live side of a pair with the other one's bytes in the spool."""
    other = pair.reference if live is pair.candidate else pair.candidate
    return session.locate(pair.part, other.rows[pair.part].sha256, live_is_reference=live is pair.reference)


def _differing(check: str, candidate: Seen, reference: Seen) -> Iterator[Pair]:
    """Yield the pair if its tables differ in a part that both have."""
    ours, theirs = candidate.rows, reference.rows
    if reference.phase is Phase.BOUNDARY and _has_logits(ours) != _has_logits(theirs):
        ours, theirs = _without_logits(ours), _without_logits(theirs)
    names = [*ours, *(name for name in theirs if name not in ours)]
    differing = [name for name in names if not _same(ours.get(name), theirs.get(name))]
    both = [name for name in differing if name in ours and name in theirs]
    if both:
        yield Pair(check=check, candidate=candidate, reference=reference, part=both[0], parts_differing=len(differing))


def _to_measure(check: CheckSpec, candidate: Seen, reference: Seen) -> Iterator[Pair]:
    """Yield a pair for each part, and for the logits, that differ in their bytes alone and have a limit."""
    both = [row for row in candidate.rows.values() if row.name in reference.rows] if "parts" in check.fields else []
    names = [
        row.name
        for row in both
        if (row.name in check.limits or row.family in check.limits)
        and (row.bytes, row.element_type, tuple(row.shape)) == _extent(reference.rows[row.name])
    ]
    apart = "logits" in check.fields and candidate.logits and reference.logits
    if apart and Family.LOGITS in check.limits and Family.LOGITS not in names:
        names.append(Family.LOGITS)
    differing = [name for name in names if candidate.digest(name) != reference.digest(name)]
    for name in differing:
        yield Pair(
            check=check.id,
            candidate=candidate,
            reference=reference,
            part=name,
            parts_differing=len(differing),
            measured=True,
        )


def _extent(row: PartRow) -> tuple[int, str, tuple[int, ...]]:
    return row.bytes, row.element_type, tuple(row.shape)


def _same(one: PartRow | None, other: PartRow | None) -> bool:
    return one is not None and other is not None and one.sha256 == other.sha256 and one.bytes == other.bytes


def _has_logits(rows: Mapping[str, PartRow]) -> bool:
    return any(row.family == Family.LOGITS for row in rows.values())


def _without_logits(rows: Mapping[str, PartRow]) -> Mapping[str, PartRow]:
    return {name: row for name, row in rows.items() if row.family != Family.LOGITS}


def _compares_parts(check: CheckSpec) -> bool:
    if check.candidate is None or check.reference is None or check.guarantee is Guarantee.TOKENS_ONLY:
        return False
    return check.kind in _COMPARING and ("parts" in check.fields or bool(check.limits))
