"""Where a part of the candidate first differs from the reference's, told while both byte strings are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from harness.digest.difference import classify, first_difference
from harness.engines.interface import StatePart
from harness.errors import NotComparableError, ProtocolError


@dataclass(frozen=True, kw_only=True, slots=True)
class Located:
    """The first difference of one part, and the extent of all; as :class:`harness.model.evidence.Difference` has it."""

    byte: int
    row: int
    element: int
    reference: str
    candidate: str
    reference_value: str
    candidate_value: str
    differing_elements: int
    differing_rows: int
    last_row: int
    shape: str


def locate(part: StatePart, *, reference: memoryview, candidate: memoryview) -> dict[str, object]:
    """Compare the bytes of a part in two arms.

    Args:
        part: Tells the element type and the shape, of whichever arm is live.
        reference: The reference's bytes.
        candidate: The candidate's bytes.

    Raises:
        ProtocolError: The bytes are equal, though their digests were not: one of them was hashed wrongly.
    """
    shape = [int(extent) for extent in part.shape]
    try:
        found = first_difference(reference, candidate, element_type=part.element_type, shape=shape)
        if found is None:
            raise ProtocolError(f"{part.name}: the bytes are equal, though the digests were not")
        pattern = classify(reference, candidate, element_type=part.element_type, shape=shape)
    except NotComparableError:
        return _of_other_size(part, reference, candidate)
    return {
        "byte": found.byte,
        "row": found.row,
        "element": found.element,
        "reference": found.reference,
        "candidate": found.candidate,
        "reference_value": found.reference_value,
        "candidate_value": found.candidate_value,
        "differing_elements": found.differing_elements,
        "differing_rows": found.differing_rows,
        "last_row": found.last_row,
        "shape": str(pattern),
    }


def located_from(value: Mapping[str, object]) -> Located:
    """Return the noun of an answer that came over the channel.

    Raises:
        ProtocolError: A field is missing or of another type.
    """
    numbers = {"byte", "row", "element", "differing_elements", "differing_rows", "last_row"}
    kept = {field.name: value.get(field.name) for field in fields(Located)}
    for name, found in kept.items():
        if not isinstance(found, int if name in numbers else str):
            raise ProtocolError(f"{name}: found {found!r} in a located difference")
    return Located(**kept)  # type: ignore[arg-type] # each was looked at above


def _of_other_size(part: StatePart, reference: memoryview, candidate: memoryview) -> dict[str, object]:
    """Describe two parts of different sizes: compare what both have; at the latest they differ where one ends."""
    shared = min(reference.nbytes, candidate.nbytes)
    found = first_difference(reference[:shared], candidate[:shared], element_type="u8", shape=[shared])
    byte = shared if found is None else found.byte
    row_bytes = memoryview(part.data).nbytes // max(part.shape[0], 1) if part.shape else 0
    return {
        "byte": byte,
        "row": byte // row_bytes if row_bytes else 0,
        "element": 0,
        "reference": reference[byte : byte + 1].hex(),
        "candidate": candidate[byte : byte + 1].hex(),
        "reference_value": f"{reference.nbytes}_bytes",
        "candidate_value": f"{candidate.nbytes}_bytes",
        "differing_elements": 0 if found is None else found.differing_elements,
        "differing_rows": 0,
        "last_row": 0,
        "shape": "other_size",
    }
