"""Kinds of certificate, and which rules ask something of them.

Whatever is not listed here applies to every kind: parsing, schema, names, evidence, ledger, privacy. What is listed
asks about members that only one kind has. A kind that nobody lists would get no verdict of its own, so the schema of
certificates and this table name the same kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

KINDS: Final[Mapping[str, Sequence[str]]] = {
    "qualification": (
        "CG302",
        "CG303",
        "CG304",
        "CG305",
        "CG306",
        "CG307",
        "CG308",
        "CG309",
        "CG314",
        "CG401",
        "CG402",
        "CG405",
        "CG406",
        "CG407",
        "CG603",
        "CG701",
    ),
    "campaign": ("CG310", "CG311"),
    "harness": ("CG312",),
    "foreign": ("CG313", "CG404"),
}
"""Kind to the rules that ask about its own members: cells, axes and checks; counts of planted faults."""

_OWN: Final = {rule: kind for kind, rules in KINDS.items() for rule in rules}


def applies(rule: str, kind: str) -> bool:
    """Tell whether a rule asks something of certificates of a kind."""
    return _OWN.get(rule, kind) == kind


def kinds_of(rule: str) -> Sequence[str]:
    """Return the kinds that a rule applies to, in the order of the table."""
    return [kind for kind in KINDS if applies(rule, kind)]
