"""Entries H01 to H10 and G11: what must have been tried, and what must have come out. Pure.

A probe is one thing tried on the engine, with what was observed and what the harness expected of its own codec. Names
that are listed here must all be there; where a value is known from the specification, it is written down here and the
record's own expectation does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.kv_plan import VERSION
from harness.model.campaign import Record

TILES: Final[Mapping[str, str]] = {
    "tiny lcg1 16": "8763883a4c96ceb649ce5ad55b0fbfc2404932ae698236824e0c1dc387c501d7",
    "wave lcg1 16": "82af56eccd3fc8e7d2d7b265f3d807efd6ada06cd5769c3e38a8669001778ae7",
    "wave lcg1 32": "7588a5c45cc8e63d68313b549aad7b15063eb2c54cd438896060f0a75b660c01",
    "wave lcg2 16": "e20230ae559ec539502c6493980de0ea84b7197fb1e13217dfda85dfb86f8df2",
    "wave lcg2 32": "f7201b9b0e3826516573e10a8a1820a8c3091a42a9df009eb0c127fbb822fead",
}
"""SHA-256 of segments whose bytes are published, or follow from the published layout."""
HARMS: Final[Mapping[str, str]] = {
    "cut": "codec.bounds",
    "trailing": "codec.format",
    "magic": "codec.format",
    "segment magic": "codec.format",
    "reserved": "codec.format",
    "kind": "codec.format",
    "raw too long": "codec.bounds",
    "count": "codec.bounds",
    "payload": "codec.bounds",
    "bins": "codec.format",
    "rows": "codec.bounds",
    "overlap": "codec.geometry",
    "gap": "codec.geometry",
    "tokens": "codec.geometry",
    "other page": "codec.geometry",
}
"""Harm to an archive, and the word of the refusal."""
IDENTITIES: Final[Mapping[str, str]] = {
    "good": "taken",
    "unknown": "codec.identity",
    "stripped": "codec.identity",
    "newer": "codec.identity",
    "length": "codec.identity",
    "class": "codec.identity",
    "lossy for exact": "codec.identity",
    "shelf lossy for exact": "miss",
    "shelf lossy": "served",
    "shelf exact": "served",
}
"""What was done to a stored identity, and what must come of it."""
REFUSED: Final[Mapping[str, str]] = {
    "coded bf16": "codec.geometry",
    "coded f8_e4m3": "codec.geometry",
    "coded i8": "codec.geometry",
    "coded i4": "codec.geometry",
    "opened transposed q8_0": "option",
    "opened transposed i8": "option",
    "opened index q8_0": "option",
    "opened nameless": "option",
}
"""Pairs and types that cannot be, and the word with which each is refused."""
TYPES: Final = ("f32", "f16", "bf16", "f8_e4m3", "q8_0", "q4_0", "i8", "i4")
NAMES: Final[Mapping[str, Sequence[str]]] = {
    "H01": tuple(TILES),
    "H02": ("rows f16/f16", "rows f32/q8_0"),
    "H03": ("bins scheduled", "bins wide", "flat rows", "not finite lcg1", "not finite lcg2"),
    "H04": ("transposed f16", "transposed f32", "tiles", "mixed q8_0/q4_0", "index rows", "exact page i8/i4"),
    "H05": (*HARMS, "untouched", "cancelled", "evicted while read", "killed in publish"),
    "H07": tuple(REFUSED),
    "H10": (*(f"label {kind}" for kind in TYPES), *(f"rows {kind}" for kind in TYPES), "restored f16/q8_0"),
    "G11": tuple(IDENTITIES),
}
"""Probes of each entry that is made of them."""
LATER: Final[Mapping[int, Mapping[str, Sequence[str]]]] = {
    2: {"H09": ("import without the oracle",)},
    3: {"H05": ("flipped bits of a head", "flipped bits of an entry")},
}
"""Probes that a procedure asks for from some version on; older ones are held to what they asked for."""
KNOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "H01": TILES,
    "H03": {"not finite lcg1": "codec.value", "not finite lcg2": "codec.value"},
    "H05": {
        **HARMS,
        "cancelled": "reset",
        "evicted while read": "taken, [1], None",
        "killed in publish": "-9, missed, []",
        "flipped bits of a head": "1344 of 1344 refused",
        "flipped bits of an entry": "0 of 48 served",
    },
    "H07": REFUSED,
    "H09": {"import without the oracle": "apart"},
    "H10": {f"label {kind}": kind for kind in TYPES},
    "G11": IDENTITIES,
}
"""What must come out where it does not depend on the engine."""


def asked_of(version: int) -> Mapping[str, Sequence[str]]:
    """Return the probes of each entry that a procedure of some version asks for."""
    found = {entry: tuple(names) for entry, names in NAMES.items()}
    for since, later in LATER.items():
        if version >= since:
            found |= {entry: (*found.get(entry, ()), *names) for entry, names in later.items()}
    return found


def derive_entries(
    probes: Sequence[Record], cells: Sequence[Mapping[str, object]], oracles: Sequence[Record], version: int = VERSION
) -> list[dict[str, object]]:
    """Return one row for each entry: how many things were asked, and what did not hold.

    Args:
        probes: records of what was tried.
        cells: rows of the matrix, by which H08 goes.
        oracles: timed runs of the oracle, by which H09 goes, beside its probe.
        version: of the procedure.
    """
    found = {(str(one["entry"]), str(one["name"])): one for one in probes}
    asked, rows = asked_of(version), []
    for entry, names in asked.items():
        missing, failed = _tried(found, entry, names)
        counted = len(names)
        if entry == "H09":
            missing, failed, counted = missing or not oracles, [*_inside(oracles), *failed], counted + len(oracles)
        rows.append(_row(entry, counted, failed, missing=missing))
    if "H09" not in asked:
        rows.append(_row("H09", len(oracles), _inside(oracles), missing=not oracles))
    few = [str(one["name"]) for one in cells if "too_few_pairs" in str(one["reasons"])]
    rows.append(_row("H08", len(cells), few, missing=not cells))
    return sorted(rows, key=lambda row: str(row["entry"]))


def _inside(oracles: Sequence[Record]) -> list[str]:
    """Processes whose oracle ran inside a restore, or took no time."""
    return [f"process {one['process']}" for one in oracles if one["inside"] or not one["ns"]]


def _tried(found: Mapping[tuple[str, str], Record], entry: str, names: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether a probe is missing, and which ones did not hold."""
    there = [name for name in names if (entry, name) in found]
    return len(there) != len(names), [name for name in there if not _holds(found[entry, name])]


def _holds(one: Record) -> bool:
    expected = KNOWN.get(str(one["entry"]), {}).get(str(one["name"]), one["expected"])
    return bool(one["observed"] == expected)


def _row(entry: str, asked: int, failed: Sequence[str], *, missing: bool) -> dict[str, object]:
    outcome = "error" if missing else "fail" if failed else "pass"
    return {"entry": entry, "asked": asked, "failed": sorted(failed)[:40], "outcome": outcome}
