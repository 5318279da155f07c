"""How far a part of the candidate lies from the reference's, told while both byte strings are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from harness.digest.distance import Distance, distance
from harness.errors import NotComparableError, ProtocolError


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The distance of one part, as :class:`harness.model.evidence.Distance` has it."""

    element_type: str
    distance: Distance


def measure(
    element_type: str, shape: Sequence[int], *, reference: memoryview, candidate: memoryview
) -> dict[str, object]:
    """Return the distance of a part in two arms, on its way to the parent; empty where it cannot be told.

    Args:
        element_type: Of the part, of whichever arm is live.
        shape: Its valid extent there.
        reference: The reference's bytes.
        candidate: The candidate's bytes.
    """
    try:
        found = distance(reference, candidate, element_type=element_type, shape=shape)
    except NotComparableError:
        return {}
    return {"element_type": element_type, **asdict(found)}


def measured_from(value: Mapping[str, object]) -> Measured | None:
    """Return the noun of an answer that came over the channel; None: the distance cannot be told.

    Raises:
        ProtocolError: A field is missing or of another type.
    """
    if "elements" not in value:
        return None
    counts: dict[str, int] = {}
    for name in ("elements", "differing_elements", "ulp", "relative_ppb", "absolute_nano"):
        found = value.get(name)
        if isinstance(found, bool) or not isinstance(found, int):
            raise ProtocolError(f"{name}: found {found!r} in a distance")
        counts[name] = found
    element_type, finite = value.get("element_type"), value.get("finite")
    if not isinstance(element_type, str) or not isinstance(finite, bool):
        raise ProtocolError(f"found {element_type!r} and {finite!r} in a distance")
    return Measured(element_type=element_type, distance=Distance(**counts, finite=finite))
