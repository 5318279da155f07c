"""Single-bit campaigns: which bits are flipped, and what follows from what was seen. Pure.

The flips are a function of the seed and of the part table at the boundary, so a reader makes the plan again and holds
the file to it; everything that the summary counts is derived from digests in the file, nothing is taken on its word.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of, require_children, trust_of
from harness.deriving.checks.inventory import WIDTHS
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record
from harness.model.evidence import PartRow, PartTable
from harness.model.values import Family, Sha256, Verdict
from harness.wire.evidence_doc import observation_from_mapping, part_table

FAULTS: Final = "faults"
LEFT_OUT: Final = frozenset({Family.META, Family.LOGITS, Family.SAMPLER, Family.IMAGE})
"""Families without flips: a changed metadata is refused by name, pending logits and sampler are none at a boundary."""

CLEAN_EVERY: Final = 60
"""A restore without a flip comes before each so many flips, and one after the last."""
_FIELDS: Final = ("where", "part", "byte", "mask")
_COLUMNS: Final = ("flips", "located", "refused", "restored", "prefilled", "logits", "logits_end", "tokens")
_EXPONENTS: Final = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
"""Bits of the mantissa, where elements are floats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """One bit to flip, in the terms of a person and of a machine."""

    number: int
    where: str
    """``store``: in the stored snapshot, before it is restored; ``live``: right after the restore."""
    part: str
    family: str
    layer: int
    element_type: str
    row: int
    element: int
    """Index within its row."""
    bit: int
    """0 is the lowest of the element."""
    byte: int
    """Offset in the part."""
    mask: int

    @property
    def bits(self) -> str:
        """``sign``, ``exponent`` or ``mantissa``; ``integer`` where the element is no float."""
        mantissa = _EXPONENTS.get(self.element_type)
        if mantissa is None:
            return "integer"
        if self.bit == 8 * WIDTHS[self.element_type] - 1:
            return "sign"
        return "mantissa" if self.bit < mantissa else "exponent"


def plan_flips(rows: Sequence[PartRow], *, count: int, seed: int, kind: str) -> Sequence[Flip]:
    """Return the flips of one element type: round after round over all parts, bit positions dealt out evenly.

    Args:
        rows: Part table at the boundary.
        count: How many.
        seed: Of the campaign.
        kind: What is run, like the element type of K and V; another kind draws other places.

    Raises:
        InvalidDocumentError: No part can be flipped in.
    """
    parts = [row for row in rows if row.family not in LEFT_OUT and row.bytes and row.element_type in WIDTHS]
    if not parts:
        raise InvalidDocumentError("found no part with bytes in it; nothing can be flipped")
    dealers: dict[str, Callable[[], int]] = {}
    flips = []
    for number in range(count):
        row = parts[number % len(parts)]
        name = row.element_type
        deal = dealers.setdefault(name, _dealer(8 * WIDTHS[name], f"{seed}:{kind}:{name}"))
        flips.append(_flip(row, number, deal(), number // len(parts), f"{seed}:{kind}:{number}"))
    return flips


def _flip(row: PartRow, number: int, bit: int, turn: int, text: str) -> Flip:
    width = WIDTHS[row.element_type]
    index = _draw(text) % (row.bytes // width)
    in_row = max(1, math.prod(row.shape[1:]))
    return Flip(
        number=number,
        where=("store", "live")[turn % 2],
        part=row.name,
        family=row.family,
        layer=row.layer,
        element_type=row.element_type,
        row=index // in_row,
        element=index % in_row,
        bit=bit,
        byte=index * width + bit // 8,
        mask=1 << bit % 8,
    )


def _dealer(bits: int, text: str) -> Callable[[], int]:
    """Return a function that deals all bit positions in a drawn order, again and again."""
    dealt = 0

    def deal() -> int:
        nonlocal dealt
        order = sorted(range(bits), key=lambda bit: _draw(f"{text}:{dealt // bits}:{bit}"))
        dealt += 1
        return order[(dealt - 1) % bits]

    return deal


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def derive_faults(found: CampaignRecords, where: str = FAULTS) -> dict[str, object]:
    """Return what only a body of this campaign has; :func:`harness.deriving.campaign.derive_campaign` adds the rest.

    Args:
        found: All records of the file.
        where: What to call the file in an error.

    Raises:
        InvalidDocumentError: The records are out of order, or contradict each other or their plan.
    """
    reading = _Reading(where=where, header=found.header, most=len(found.records))
    for record in found.records[1:-1]:
        reading.take(record)
    kinds = reading.finished()
    require_children(found, where)
    return {
        "results": [_row(reading, kind) for kind in kinds],
        "by_family": [{"family": name, **_counted(c)} for name, c in _split(kinds, lambda flip: flip.family)],
        "by_bits": [{"bits": name, **_counted(c)} for name, c in _split(kinds, lambda flip: flip.bits)],
        "missed": [_missed(kind, number) for kind in kinds for number in kind.missed],
        "limits": sorted({"one_boundary", *(f"left_out:{family}" for family in LEFT_OUT)}),
        "decision": _decision(kinds, trust_of(found)),
    }


@dataclass(kw_only=True, slots=True)
class _Kind:
    """What was seen with one element type of K and V."""

    name: str
    references: list[Record] = field(default_factory=list)
    rows: Sequence[PartRow] = ()
    plan: Sequence[Flip] = ()
    answers: list[Mapping[str, bool]] = field(default_factory=list)
    """Per flip: whether each column says yes."""
    clean: list[int] = field(default_factory=list)
    """Per restore without a flip: how many flips came before it."""
    clean_differing: int = 0

    @property
    def missed(self) -> Sequence[int]:
        """Flips that were neither located nor refused."""
        return [n for n, one in enumerate(self.answers) if not one["located"] and not one["refused"]]

    @property
    def repeatable(self) -> bool:
        """Whether both cold runs agree."""
        return _essence(self.references[0]) == _essence(self.references[1])


@dataclass(kw_only=True, slots=True)
class _Reading:
    """Takes the records of a file in order and holds them to the plan and to each other."""

    where: str
    header: Record
    most: int
    """No plan is longer than the file: a header may ask for anything."""
    kinds: dict[str, _Kind] = field(default_factory=dict)
    tables: dict[str, PartTable] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """File one record."""
        match record.get("type"):
            case "parts":
                table = observation_from_mapping(record, self.where)
                if not isinstance(table, PartTable) or part_table(table.rows).root != table.root:
                    raise self._fault("the root of a part table is not the digest of its rows")
                if table.root in self.tables:
                    raise self._fault("found a part table twice")
                self.tables[table.root] = table
            case "reference":
                self._reference(record)
            case "flip":
                self._flip(record)
            case "clean":
                kind = self._kind(record)
                kind.clean.append(len(kind.answers))
                kind.clean_differing += _essence(record) != _essence(kind.references[0])
            case "trust":
                pass
            case other:
                raise self._fault(f"found a record of type {other!r}")

    def finished(self) -> Sequence[_Kind]:
        """Return all element types, each with as many flips as were declared."""
        procedure = self._procedure()
        if list(self.kinds) != procedure["element_types"]:
            raise self._fault(f"found the element types {list(self.kinds)}; declared are {procedure['element_types']}")
        flips = integer_of(procedure, "flips")
        due = [*range(0, flips, CLEAN_EVERY), flips]
        for kind in self.kinds.values():
            if len(kind.answers) != flips or len(kind.references) != _REPS or kind.clean != due:
                raise self._fault(
                    f"{kind.name}: found {len(kind.answers)} flips of {flips}, {len(kind.references)} references of "
                    f"{_REPS}, restores without a flip after {kind.clean} flips; planned after {due}"
                )
        return list(self.kinds.values())

    def _reference(self, record: Record) -> None:
        kind = self.kinds.setdefault(str(record["element_type"]), _Kind(name=str(record["element_type"])))
        if record["rep"] != len(kind.references):
            raise self._fault(f"{kind.name}: found reference {record['rep']} after {len(kind.references)}")
        kind.references.append(record)
        if len(kind.references) > 1:
            return
        root = str(record["restored"])
        if root not in self.tables:
            raise self._fault(f"{kind.name}: found no part table of the reference")
        procedure = self._procedure()
        count = integer_of(procedure, "flips")
        if count > self.most or procedure["left_out"] != sorted(LEFT_OUT):
            raise self._fault(f"{kind.name}: found {count} flips in {self.most} records, or other families left out")
        kind.rows = self.tables[root].rows
        kind.plan = plan_flips(kind.rows, count=count, seed=integer_of(procedure, "seed"), kind=kind.name)

    def _flip(self, record: Record) -> None:
        kind = self._kind(record)
        number = len(kind.answers)
        if record["number"] != number or number >= len(kind.plan):
            raise self._fault(f"{kind.name}: found flip {record['number']}; expected {number} of {len(kind.plan)}")
        flip = kind.plan[number]
        if any(record[name] != getattr(flip, name) for name in _FIELDS):
            raise self._fault(f"{kind.name}: flip {number} is not the one that the seed gives")
        if "refused" not in record:
            self._agrees(kind, record)
        kind.answers.append(_answers(flip, record, kind.references[0], integer_of(self._procedure(), "boundary")))

    def _agrees(self, kind: _Kind, record: Record) -> None:
        """Hold the digests of changed parts to the root of the whole table."""
        changed = mapping_of(record, "changed")
        rows = [replace(row, sha256=Sha256(str(changed.get(row.name, row.sha256)))) for row in kind.rows]
        if part_table(rows).root != record["restored"] or set(changed) - {row.name for row in rows}:
            raise self._fault(f"{kind.name}: flip {record['number']}: changed parts do not give the root of its table")

    def _kind(self, record: Record) -> _Kind:
        kind = self.kinds.get(str(record["element_type"]))
        if kind is None:
            raise self._fault(f"found {record['element_type']} before its reference")
        return kind

    def _procedure(self) -> Record:
        return mapping_of(self.header, "procedure")

    def _fault(self, message: str) -> InvalidDocumentError:
        return InvalidDocumentError(message, where=self.where)


_REPS: Final = 2
_ESSENCE: Final = ("restored", "prefilled", "end", "logits", "logits_end", "tokens")


def _essence(record: Record) -> Sequence[object]:
    return [record.get(name) for name in _ESSENCE]


def _answers(flip: Flip, record: Record, reference: Record, boundary: int) -> Mapping[str, bool]:
    """Return what each way of looking says to one flip."""
    if "refused" in record:
        return {**dict.fromkeys(_COLUMNS, False), "flips": True, "refused": True}
    differs = {name: record[name] != reference[name] for name in _ESSENCE}
    return {
        "flips": True,
        "located": _located(flip, record, boundary),
        "refused": False,
        **{name: differs[name] for name in ("restored", "prefilled", "logits", "logits_end", "tokens")},
    }


def _located(flip: Flip, record: Record, boundary: int) -> bool:
    """Tell whether the one changed part, row, element and bit are those that were flipped, before the suffix ran."""
    found = record.get("located")
    if not isinstance(found, Mapping) or list(mapping_of(record, "changed")) != [flip.part]:
        return False
    place = {"part": flip.part, "layer": flip.layer, "row": flip.row, "element": flip.element, "byte": flip.byte}
    if any(found.get(name) != value for name, value in place.items()) or record["position"] != boundary:
        return False
    try:
        one, other = (int.from_bytes(bytes.fromhex(str(found[side])), "little") for side in ("reference", "candidate"))
    except (KeyError, ValueError):
        return False
    return one ^ other == 1 << flip.bit and found.get("differing_elements") == 1


def _split(kinds: Iterable[_Kind], key: Callable[[Flip], str]) -> Sequence[tuple[str, Sequence[Mapping[str, bool]]]]:
    found: dict[str, list[Mapping[str, bool]]] = {}
    for kind in kinds:
        for flip, one in zip(kind.plan, kind.answers, strict=True):
            found.setdefault(key(flip), []).append(one)
    return sorted(found.items())


def _counted(answers: Sequence[Mapping[str, bool]]) -> dict[str, int]:
    return {name: sum(one[name] for one in answers) for name in _COLUMNS}


def _row(reading: _Reading, kind: _Kind) -> dict[str, object]:
    reference = kind.references[0]
    return {
        "element_type": kind.name,
        **_counted(kind.answers),
        "clean": len(kind.clean),
        "clean_differing": kind.clean_differing,
        "repeatable": kind.repeatable,
        "parts": len({flip.part for flip in kind.plan}),
        "bit_positions": len({(flip.element_type, flip.bit) for flip in kind.plan}),
        "reference": reference["restored"],
        "options": mapping_of(reference, "options"),
        "boundary": integer_of(mapping_of(reading.header, "procedure"), "boundary"),
    }


def _missed(kind: _Kind, number: int) -> dict[str, object]:
    flip = kind.plan[number]
    return {
        "element_type": kind.name,
        "number": number,
        "where": flip.where,
        "part": flip.part,
        "row": flip.row,
        "element": flip.element,
        "bit": flip.bit,
    }


def _decision(kinds: Sequence[_Kind], trust: Mapping[str, object]) -> dict[str, object]:
    reasons = []
    if not all(kind.repeatable for kind in kinds):
        reasons.append("not_repeatable")
    if any(kind.clean_differing for kind in kinds):
        reasons.append("differs_without_a_flip")
    if trust["mismatches"] or not trust["children"]:
        reasons.append("digests_not_trusted")
    if reasons:
        return {"overall": str(Verdict.ERROR), "reasons": reasons}
    missed = any(kind.missed for kind in kinds)
    return {"overall": str(Verdict.STOP if missed else Verdict.PASS), "reasons": ["not_located"] if missed else []}
