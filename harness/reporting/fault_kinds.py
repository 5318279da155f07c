"""What a located difference usually means: kinds of fault, and which of them it looks like.

A guess for a person who goes looking, never a judgement: the check has spoken already. The ids are those
of the mutants (``K01.recurrent-kept`` plants a fault of kind K01).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.model.evidence import Difference
from harness.model.values import Family, Phase

KINDS: Final[Mapping[str, str]] = {
    "K01": "Attention rows and recurrent state stand for different texts: one was restored, reset or forked "
    "without the other.",
    "K02": "Key, row count and state position differ by a few tokens: the state is filed under a length that it "
    "does not have.",
    "K03": "Something is not in the image: scales, index rows, pending logits, generator, counters.",
    "K04": "The restore did nothing, or less than it counted.",
    "K05": "A refused or failed restore left traces: it wrote before it had checked everything.",
    "K06": "An image of another build, element type or layout was accepted.",
    "K07": "Memory is shared: another session, a fork or the live session wrote into these bytes.",
    "K08": "Two texts or sessions share a reuse key, so state of another text came back.",
    "K09": "Rows around a window, shift or eviction are lost or stand at wrong positions.",
    "K10": "Packed rows, their scales and the unpacked tail went separate ways, or a lossy form came back.",
    "K11": "Target and draft state were rolled back by different amounts.",
    "K12": "A copy overtook a kernel, or the device gave wrong bytes without an error.",
    "K13": "Another numeric path (chunks, batch, threads, kernel) gave other low bits; the state itself may be sound.",
    "K14": "Memory that nobody wrote, padding or a NaN reached the state.",
    "K15": "A budget, pool or eviction gave way after many rounds.",
}
"""Kind to one sentence."""

_BY_SHAPE: Final[Mapping[str, Sequence[str]]] = {
    "all_zero": ("K03", "K04"),
    "shifted": ("K02", "K09"),
    "stale": ("K04", "K05"),
    "other_part": ("K06", "K07"),
    "element_type": ("K06", "K10"),
    "other_size": ("K02", "K06"),
    "tail_rows": ("K02", "K14"),
    "nan_payload": ("K14", "K12"),
    "head_rows": ("K09", "K08"),
    "single_bit": ("K12", "K07"),
}
"""Beginning of a classification to kinds, likeliest first."""

_BY_FAMILY: Final[Mapping[str, Sequence[str]]] = {
    Family.META: ("K02", "K04"),
    Family.RECURRENT: ("K01", "K02"),
    Family.CONV: ("K01", "K02"),
    Family.WINDOW: ("K09", "K01"),
    Family.INDEX: ("K03", "K09"),
    Family.LOGITS: ("K03", "K02"),
    Family.SAMPLER: ("K03",),
    Family.DRAFT: ("K11",),
    Family.KV: ("K08", "K07"),
    Family.IMAGE: ("K06", "K03"),
}
_MOST_KINDS: Final = 3


def likely_kinds(difference: Difference) -> tuple[str, ...]:
    """Return the ids of the kinds that a difference looks like, likeliest first."""
    by_shape = next((kinds for begin, kinds in _BY_SHAPE.items() if difference.shape.startswith(begin)), ())
    by_family = _BY_FAMILY.get(difference.family, ())
    late = difference.phase in (Phase.PREFILLED, Phase.END)
    first: Sequence[str] = ("K13",) if late and not by_shape else ()
    lone = _BY_FAMILY[Family.RECURRENT] if difference.family in (Family.RECURRENT, Family.CONV) else ()
    order = [*first, *(lone[:1] if difference.phase == Phase.RESTORED else ()), *by_shape, *by_family]
    return tuple(dict.fromkeys(order))[:_MOST_KINDS]
