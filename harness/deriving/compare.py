"""Two looks side by side: which parts, logits and tokens differ, and how much was compared at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.model.evidence import PartRow, PartTable, Point
from harness.model.noun import dataclass
from harness.model.values import NO_LAYER, Family, Phase, Sha256
from harness.wire.sha256 import NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two looks that belong together."""

    phase: Phase
    """Of the candidate."""
    candidate: Point
    reference: Point


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """One thing that differs."""

    name: str
    """Part name; or ``logits``, ``tokens``, ``position``."""
    family: str
    layer: int
    how: str
    """``bytes``, ``size``, ``shape``, ``element_type``, ``order``, ``only_in_candidate``, ``only_in_reference``."""

    def is_called(self, part: str) -> bool:
        """Tell whether a name or family means this."""
        return part in (self.name, self.family)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What two looks came to."""

    pair: Pair
    parts: int
    """Part digests compared."""
    digests: int
    """All things compared: parts, logits, tokens."""
    differing: Sequence[Differing]
    """Parts in table order, then logits, tokens, position."""
    empty: Sequence[str]
    """Fields that should have been compared here and that neither side had."""

    @property
    def parts_differing(self) -> int:
        """How many parts differ."""
        return sum(one.name not in ("logits", "tokens", "position") for one in self.differing)


def compare(
    pair: Pair, candidate: PartTable, reference: PartTable, fields: Collection[str], *, see_parts: bool
) -> Comparison:
    """Compare two looks.

    Args:
        pair: The looks.
        candidate: Part table of the candidate.
        reference: Part table of the reference.
        fields: Of ``parts``, ``logits``, ``tokens``.
        see_parts: Whether the grade of observability shows parts at all.
    """
    differing: list[Differing] = []
    empty: list[str] = []
    parts = digests = 0
    if "parts" in fields and see_parts:
        ours, theirs = _rows(pair, candidate, reference)
        parts = min(len(ours), len(theirs))
        digests += parts
        differing += _parts(ours, theirs)
        if not parts:
            empty.append("parts")
    if "logits" in fields:
        digests += _logits(pair, differing, empty)
    if "tokens" in fields:
        digests += _tokens(pair, differing, empty)
    if pair.candidate.position != pair.reference.position:
        differing.append(Differing(name="position", family="meta", layer=NO_LAYER, how="bytes"))
    return Comparison(pair=pair, parts=parts, digests=digests, differing=tuple(differing), empty=tuple(empty))


def roots(comparison: Comparison) -> tuple[Sha256, Sha256]:
    """Return the part roots of candidate and reference."""
    return comparison.pair.candidate.root, comparison.pair.reference.root


def _rows(pair: Pair, candidate: PartTable, reference: PartTable) -> tuple[Sequence[PartRow], Sequence[PartRow]]:
    """Return the rows to compare. At a boundary pending logits are no state: left out where one side has none."""
    ours, theirs = candidate.rows, reference.rows
    if pair.reference.phase is Phase.BOUNDARY or pair.candidate.phase is Phase.BOUNDARY:
        both = [any(row.family == Family.LOGITS for row in rows) for rows in (ours, theirs)]
        if both[0] != both[1]:
            ours, theirs = ([row for row in rows if row.family != Family.LOGITS] for rows in (ours, theirs))
    return ours, theirs


def _parts(ours: Sequence[PartRow], theirs: Sequence[PartRow]) -> list[Differing]:
    mine, other = ({row.name: row for row in rows} for rows in (ours, theirs))
    found = [
        _differing(row, _how(row, other[row.name]) if row.name in other else "only_in_candidate")
        for row in ours
        if row.name not in other or _how(row, other[row.name])
    ]
    found += [_differing(row, "only_in_reference") for row in theirs if row.name not in mine]
    if not found and [row.name for row in ours] != [row.name for row in theirs]:
        moved = next((one for one, two in zip(ours, theirs, strict=False) if one.name != two.name), ours[-1])
        found.append(_differing(moved, "order"))
    return found


def _differing(row: PartRow, how: str) -> Differing:
    return Differing(name=row.name, family=row.family, layer=row.layer, how=how)


def _how(one: PartRow, two: PartRow) -> str:
    """Return in what two parts of one name differ; empty: in nothing."""
    if (one.family, one.layer, one.element_type, one.stream) != (two.family, two.layer, two.element_type, two.stream):
        return "element_type"
    if tuple(one.shape) != tuple(two.shape):
        return "shape"
    if one.bytes != two.bytes:
        return "size"
    return "" if one.sha256 == two.sha256 else "bytes"


def _logits(pair: Pair, differing: list[Differing], empty: list[str]) -> int:
    ours, theirs = (one.logits if one.logits != NOTHING else "" for one in (pair.candidate, pair.reference))
    if not (ours and theirs) and Phase.BOUNDARY in (pair.reference.phase, pair.candidate.phase):
        return 0
    if not ours and not theirs:
        if pair.phase in (Phase.PREFILLED, Phase.END):
            empty.append("logits")
        return 0
    if ours != theirs:
        differing.append(Differing(name="logits", family=Family.LOGITS, layer=NO_LAYER, how="bytes"))
    return 1


def _tokens(pair: Pair, differing: list[Differing], empty: list[str]) -> int:
    ours, theirs = tuple(pair.candidate.tokens), tuple(pair.reference.tokens)
    if pair.candidate.phase is not pair.reference.phase:
        return 0
    if not ours and not theirs:
        if pair.phase is Phase.END:
            empty.append("tokens")
        return 0
    if ours != theirs:
        differing.append(Differing(name="tokens", family="tokens", layer=NO_LAYER, how="bytes"))
    return 1
