"""A difference in words: where it lies, how far it goes, what it looks like, what that usually means.

The place was found by the run (or is found here, for two dumped files); nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from harness.errors import NothingToDoError
from harness.model.evidence import Difference, Evidence
from harness.model.values import NO_LAYER, CellId, Phase
from harness.reporting import escape
from harness.reporting.fault_kinds import KINDS, likely_kinds
from harness.reporting.reading import flat, items, mapping, text
from harness.reporting.reasons import left_out_sentence, reason_sentence
from harness.reporting.tables import printed
from harness.reporting.units import counted, number
from harness.reporting.view import Fact

_SHAPES: Final[Mapping[str, str]] = {
    "single_bit": "one single bit is flipped",
    "all_zero": "the candidate holds nothing but zeros",
    "stale_rows": "what differs is what an earlier state of this part held there",
    "element_type_or_byte_order": "the bytes of each element stand in another order, or in another type of that width",
    "nan_payload": "both hold values that are not numbers, with other bits in them",
    "tail_rows": "one run of rows up to the last one differs, all before it are equal",
    "head_rows": "one run of rows from the first one on differs, all after it are equal",
    "scattered": "elements differ without a pattern that is known here",
    "other_size": "the two parts have different sizes",
    "logits": "the pending logits differ",
    "tokens": "the decoded tokens differ",
}
"""Classification to words; ``shifted_by_<k>_rows`` and ``other_part:<name>`` carry a value of their own."""

_SHIFTED: Final = re.compile(r"shifted_by_(-?)([0-9]+)_rows")

_PHASES: Final[Mapping[str, str]] = {
    Phase.OPENED: "in a new session, before any token",
    Phase.BOUNDARY: "at a chunk boundary of a cold prefill",
    Phase.RESTORED: "right after a restore, import or rollback, before anything else ran",
    Phase.PREFILLED: "after the last prompt token",
    Phase.END: "after the last decoded token",
    Phase.SEEN: "at an observation between two steps",
}
_BLAMED: Final[Mapping[str, str]] = {
    Phase.RESTORED: "that itself is wrong",
    Phase.PREFILLED: "what was there before is wrong, or the prefill ran differently",
    Phase.END: "what was wrong earlier, or decoding itself",
}
"""What a difference at a phase speaks against; of nothing but a difference that nobody planted."""


_PLANTED: Final = "Nothing is wrong: this check is a control, its corruption was planted and had to be seen."


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """One difference, explained."""

    title: str
    facts: Sequence[Fact]
    looks_like: str
    """The classification, one sentence."""
    meanings: Sequence[str]
    """Kinds of fault that it looks like, likeliest first, one sentence each."""
    note: str = ""
    """What must be known first; empty: nothing."""


def phase_in_words(phase: str) -> str:
    """Return when a state was looked at, in words."""
    return _PHASES.get(phase, phase)


def blame_in_words(phase: str) -> str:
    """Return when a state was found to differ, and what that speaks against."""
    blamed = _BLAMED.get(phase, "")
    return f"{phase_in_words(phase)}: {blamed}" if blamed else phase_in_words(phase)


def shape_in_words(shape: str, elements: int = 0) -> str:
    """Return a classification, like ``single_bit`` or ``shifted_by_3_rows``, in words.

    Args:
        shape: The classification.
        elements: How many elements differ; 0: not counted.
    """
    if shape == "scattered" and elements == 1:
        return "one element differs, by more than one bit and without a pattern that is known here"
    shifted = _SHIFTED.fullmatch(shape)
    if shifted is not None:
        rows = "1 row" if shifted[2] == "1" else f"{shifted[2]} rows"
        return f"the reference's rows stand {rows} too {'early' if shifted[1] else 'late'}"
    if shape.startswith("other_part:"):
        return f"the candidate holds another part: {shape.partition(':')[2]}"
    return _SHAPES.get(shape, shape.replace("_", " "))


def place_in_words(difference: Difference) -> str:
    """Return the place of the first difference in one sentence."""
    layer = "" if difference.layer == NO_LAYER else f", layer {difference.layer}"
    others = difference.parts_differing - 1
    more = f"; {counted(others, 'more part')} differ too" if others > 0 else ""
    return (
        f"{difference.part} ({difference.family}{layer}), row {number(difference.row)}, element "
        f"{number(difference.element)}: {_value(difference.reference_value, difference.reference)} expected, "
        f"{_value(difference.candidate_value, difference.candidate)} found; {_looks(difference)}{more}"
    )


def explain(difference: Difference) -> Explanation:
    """Explain a difference that a run located."""
    where = [
        Fact(name="Cell", value=difference.cell, code=True),
        Fact(name="Check", value=difference.check, code=True),
        Fact(name="When", value=blame_in_words(difference.phase)),
        Fact(name="Part", value=difference.part, code=True),
        Fact(name="Family", value=difference.family),
        Fact(name="Layer", value="none" if difference.layer == NO_LAYER else str(difference.layer)),
        Fact(name="Parts differing", value=number(difference.parts_differing)),
    ]
    return Explanation(
        title=f"{difference.cell} {difference.check}: {difference.part} differs",
        facts=[*where, *_extent(difference)],
        looks_like=_looks(difference),
        meanings=[f"{kind}: {KINDS[kind]}" for kind in likely_kinds(difference)],
    )


def explain_evidence(evidence: Evidence, *, cell: str = "", check: str = "") -> list[Explanation]:
    """Explain every located difference of a run, or those of one cell or check.

    Raises:
        NothingToDoError: No located difference fits.
    """
    found = [item for item in evidence.observations if isinstance(item, Difference)]
    kept = [item for item in found if cell in ("", item.cell) and check in ("", item.check)]
    if not kept:
        raise NothingToDoError(_nothing(evidence, found, cell, check))
    planted = _controls(evidence)
    return [_planted(item) if item.check in planted else explain(item) for item in kept]


def _nothing(evidence: Evidence, found: Sequence[Difference], cell: str, check: str) -> str:
    """Return why nothing is explained, and what to do instead."""
    if found:
        known = ", ".join(sorted({f"{item.cell} {item.check}" for item in found})[:5])
        return f"no located difference of cell {cell or 'any'}, check {check or 'any'}; there are: {known}"
    if evidence.end is None:
        return "the run was cut off before its end record, and no difference was located until then; run it again"
    return "no difference was located, so there is nothing to explain; `statecert judge` says what each cell came to"


def explain_checks(body: Mapping[str, object], *, cell: str = "", check: str = "") -> list[Explanation]:
    """Explain the checks that did not pass and have no located difference: observed, limit and reason.

    Args:
        body: What was derived from the evidence.
        cell: Only this cell; empty: any.
        check: Only this check; empty: any.
    """
    return [
        _of_check(text(of_cell, "id"), found)
        for of_cell in items(body, "cells")
        if cell in ("", text(of_cell, "id"))
        for found in items(of_cell, "checks")
        if check in ("", text(found, "id")) and text(found, "outcome") != "pass"
    ]


def explain_left_out(body: Mapping[str, object], *, cell: str = "") -> list[Explanation]:
    """Say why nothing was asked of cells, and what would have to be declared.

    Args:
        body: What was derived from the evidence.
        cell: Only this cell; empty: any.
    """
    return [
        Explanation(
            title=f"{text(one, 'id')}: {text(one, 'outcome')}",
            facts=[
                Fact(name="Cell", value=text(one, "id"), code=True),
                Fact(name="Reason", value=left_out_sentence(text(one, "reason", default=""))),
            ],
            looks_like="",
            meanings=[],
        )
        for one in items(body, "cells")
        if cell in ("", text(one, "id")) and text(one, "outcome") in ("not_supported", "not_run")
    ]


def _of_check(cell: str, check: object) -> Explanation:
    unit = text(check, "unit", default="")
    detail = [
        Fact(name=name.replace("_", " ").capitalize(), value=value) for name, value in flat(mapping(check, "detail"))
    ]
    return Explanation(
        title=f"{cell} {text(check, 'id')}: {text(check, 'outcome')}",
        facts=[
            Fact(name="Cell", value=cell, code=True),
            Fact(name="Check", value=text(check, "id"), code=True),
            Fact(name="Observed", value=f"{text(check, 'observed', default='none')} {unit}".rstrip()),
            Fact(name="Demanded", value=f"{text(check, 'limit', default='none')} {unit}".rstrip()),
            Fact(name="Reason", value=reason_sentence(text(check, "reason", default=""))),
            *detail,
        ],
        looks_like="",
        meanings=[],
    )


def _planted(difference: Difference) -> Explanation:
    """Explain a difference that was planted: first that it was, then where it lies, and nothing that alarms."""
    told = explain(difference)
    when = Fact(name="When", value=phase_in_words(difference.phase))
    return replace(
        told,
        title=f"{difference.cell} {difference.check}: planted corruption seen at {difference.part}",
        facts=[when if fact.name == "When" else fact for fact in told.facts],
        meanings=[],
        note=_PLANTED,
    )


def _looks(difference: Difference) -> str:
    return shape_in_words(difference.shape, difference.differing_elements)


def _controls(evidence: Evidence) -> frozenset[str]:
    """Return the ids of the checks whose difference was planted."""
    checks = items(evidence.header.procedure, "checks")
    return frozenset(text(check, "id") for check in checks if mapping(check, "seen"))


def explain_files(reference: Path, candidate: Path, *, element_type: str, shape: Sequence[int]) -> Explanation | None:
    """Compare two dumped parts as streams and explain the first difference; None where they are equal.

    Raises:
        NotComparableError: Sizes differ, or the shape does not divide the bytes.
        StorageError: A file cannot be read.
    """
    from harness.digest.difference import classify, first_difference

    found = first_difference(reference, candidate, element_type=element_type, shape=shape)
    if found is None:
        return None
    looks = classify(reference, candidate, element_type=element_type, shape=shape)
    difference = Difference(
        cell=CellId("files"),
        check="files",
        phase=Phase.SEEN,
        part=candidate.name,
        family="",
        layer=NO_LAYER,
        element_type=element_type,
        byte=found.byte,
        row=found.row,
        element=found.element,
        reference=found.reference,
        candidate=found.candidate,
        reference_value=found.reference_value,
        candidate_value=found.candidate_value,
        differing_elements=found.differing_elements,
        differing_rows=found.differing_rows,
        last_row=found.last_row,
        shape=str(looks),
        parts_differing=1,
    )
    return Explanation(
        title=f"{candidate.name} differs from {reference.name}",
        facts=_extent(difference),
        looks_like=_looks(difference),
        meanings=[f"{kind}: {KINDS[kind]}" for kind in likely_kinds(difference)],
    )


def render_terminal(explanations: Sequence[Explanation], *, colour: bool, width: int = 80) -> str:
    """Return explanations for reading."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    blocks: list[Group] = []
    for one in explanations:
        grid = Table.grid(padding=(0, 2, 0, 0))
        looks = [Fact(name="Looks like", value=one.looks_like)] if one.looks_like else []
        for fact in [*one.facts, *looks]:
            grid.add_row(Text(escape.plain(fact.name)), Text(escape.plain(fact.value), overflow="fold"))
        meanings = [Padding(Text(escape.plain(f"- {text}")), (0, 0, 0, 4)) for text in one.meanings]
        heading = Text(escape.plain(one.title), style="bold", overflow="fold")
        usual = [Text("  This usually means, likeliest first:")] if meanings else []
        note = [Padding(Text(escape.plain(one.note)), (0, 0, 0, 2))] if one.note else []
        blocks.append(Group(heading, *note, Padding(grid, (0, 0, 0, 2)), *usual, *meanings, Text("")))
    return printed(*blocks, colour=colour, width=width)


def render_json(explanations: Sequence[Explanation]) -> bytes:
    """Return explanations as JSON with the same content."""
    return escape.json_bytes({"differences": [_mapping(one) for one in explanations]})


def _mapping(one: Explanation) -> dict[str, object]:
    facts = {fact.name.lower().replace(" ", "_"): fact.value for fact in one.facts}
    return {**asdict(one), "facts": facts}


def _extent(difference: Difference) -> list[Fact]:
    return [
        Fact(name="Element type", value=difference.element_type),
        Fact(name="First byte", value=number(difference.byte)),
        Fact(name="First row", value=number(difference.row)),
        Fact(name="First element", value=number(difference.element)),
        Fact(name="Expected", value=_value(difference.reference_value, difference.reference)),
        Fact(name="Found", value=_value(difference.candidate_value, difference.candidate)),
        Fact(name="Elements differing", value=number(difference.differing_elements)),
        Fact(name="Rows differing", value=_rows(difference)),
    ]


def _rows(difference: Difference) -> str:
    if difference.differing_rows == 0:
        return "not counted"
    return f"{number(difference.differing_rows)}, from {number(difference.row)} to {number(difference.last_row)}"


def _value(decoded: str, stored: str) -> str:
    return f"{decoded} (bytes {stored})" if decoded and stored else decoded or f"bytes {stored}"
