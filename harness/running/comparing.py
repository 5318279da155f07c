"""Finds, while the bytes are still at hand, where the two sides of a planned comparison differ.

A reference is looked at first and its bytes stay in the spool of the cell; when its candidate is looked at and the
part tables differ, the child compares the first differing part at once, before anything else runs. Which of the two
was looked at first does not matter. Nothing here decides whether a difference is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.engines.client import RemoteSession
from harness.engines.locating import Located
from harness.model.evidence import Difference, PartRow
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef
from harness.model.values import ArmRole, CellId, Phase

_COMPARING: Final = frozenset({CheckKind.EXACT, CheckKind.UNCHANGED, CheckKind.SEEN})
_SAME_PLACE: Final = (Phase.BOUNDARY, Phase.PREFILLED, Phase.END, Phase.SEEN, Phase.RESTORED)
"""Where a reference may have been looked at at the position of a restore, most telling first."""


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
    """First differing part in the candidate's table order that both have."""
    parts_differing: int


class Comparisons:
    """All planned comparisons of one cell, and the looks that they may still need."""

    def __init__(self, cell: CellPlan) -> None:
        self._cell = cell.id
        self._checks = [check for check in cell.checks if check.kind in _COMPARING and "parts" in check.fields]
        self._references = {arm.id for arm in cell.arms if arm.role is ArmRole.REFERENCE}
        self._wanted = {ref for check in self._checks for ref in _refs(check)}
        self._seen: list[Seen] = []
        self._done: set[tuple[str, Phase]] = set()

    def spools(self, arm: str, rep: int, label: str, phase: Phase) -> bool:
        """Tell whether the bytes of a look that is about to be made may be compared with later ones."""
        if rep or phase is Phase.OPENED:
            return False
        ref = PointRef(arm=arm, label=label)
        if any(check.reference == ref for check in self._checks):
            return True
        return any(check.candidate == ref and not self._looked_at(check.reference) for check in self._checks)

    def add(self, look: Seen) -> Sequence[Pair]:
        """Take a new look; return the pairs that differ, each check and phase once."""
        pairs = [pair for pair in self._pairs(look) if (pair.check, pair.candidate.phase) not in self._done]
        self._done.update((pair.check, pair.candidate.phase) for pair in pairs)
        if look.ref in self._wanted or look.arm in self._references:
            self._seen.append(look)
        return pairs

    def _pairs(self, look: Seen) -> Iterator[Pair]:
        if look.rep:
            yield from self._against_first_run(look)
            return
        for check in self._checks:
            if check.candidate == look.ref and _compares(check, look.phase):
                yield from _paired(check.id, look, self._counterpart(check, look))
            elif check.reference == look.ref:
                for earlier in self._waiting(check):
                    if self._counterpart(check, earlier, look) is look:
                        yield from _paired(check.id, earlier, look)

    def _against_first_run(self, look: Seen) -> Iterator[Pair]:
        for first in self._seen:
            if not first.rep and (first.ref, first.phase, first.position) == (look.ref, look.phase, look.position):
                yield from _paired(f"repeatable:{look.arm}", look, first)
                return

    def _counterpart(self, check: CheckSpec, candidate: Seen, newest: Seen | None = None) -> Seen | None:
        """Return the look of the reference that a candidate's look is compared with."""
        looks = [look for look in (*self._seen, *([newest] if newest else [])) if look.ref == check.reference]
        looks = [look for look in looks if not look.rep and look.phase is not Phase.OPENED]
        if candidate.phase is Phase.RESTORED:
            here = [look for look in looks if look.position == candidate.position]
            return min(here, key=lambda look: _SAME_PLACE.index(look.phase), default=None)
        same = [look for look in looks if look.phase is candidate.phase]
        if same or check.kind is not CheckKind.UNCHANGED:
            return same[-1] if same else None
        return looks[-1] if looks else None

    def _waiting(self, check: CheckSpec) -> Sequence[Seen]:
        return [
            look for look in self._seen if look.ref == check.candidate and not look.rep and _compares(check, look.phase)
        ]

    def _looked_at(self, ref: PointRef | None) -> bool:
        return any(look.ref == ref for look in self._seen)


def difference(cell: CellId, pair: Pair, located: Located) -> Difference:
    """Return the observation of a located difference."""
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
    )


def located_live(session: RemoteSession, pair: Pair, live: Seen) -> Located:
    """Let the child compare the live side of a pair with the other one's bytes in the spool."""
    other = pair.reference if live is pair.candidate else pair.candidate
    return session.locate(pair.part, other.rows[pair.part].sha256, live_is_reference=live is pair.reference)


def _paired(check: str, candidate: Seen, reference: Seen | None) -> Iterator[Pair]:
    if reference is None:
        return
    names = [*candidate.rows, *(name for name in reference.rows if name not in candidate.rows)]
    differing = [name for name in names if not _same(candidate.rows.get(name), reference.rows.get(name))]
    both = [name for name in differing if name in candidate.rows and name in reference.rows]
    if both:
        yield Pair(check=check, candidate=candidate, reference=reference, part=both[0], parts_differing=len(differing))


def _same(one: PartRow | None, other: PartRow | None) -> bool:
    return one is not None and other is not None and one.sha256 == other.sha256 and one.bytes == other.bytes


def _compares(check: CheckSpec, phase: Phase) -> bool:
    return phase is not Phase.OPENED and (not check.phases or phase in check.phases)


def _refs(check: CheckSpec) -> Iterator[PointRef]:
    if check.candidate is not None:
        yield check.candidate
    if check.reference is not None:
        yield check.reference
