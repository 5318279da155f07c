"""The matrix of element types as it is planned: a function of its procedure. Pure.

A *group* is one page: a pair of element types of K and V, a model, a prefix. Its lossy forms are the cells. A *round*
takes every arm of a group once, in an order that rotates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of
from harness.deriving.kv_figures import integers, texts
from harness.model.campaign import Record

KV: Final = "kv"
SLICE: Final = "kv_slice"
"""What a slice of the matrix is called in claim keys: it stands beside the whole one, and takes no place of it."""
CODED: Final = ("f32", "f16", "q8_0", "q4_0")
"""Element types that the archive has a record for."""
MODELS: Final[Mapping[str, Mapping[str, str]]] = {
    "scheduled": {"preset": "deep", "arch": "attention"},
    "wide": {"preset": "deep", "arch": "sliding"},
}
"""Twelve layers in one cache, so that both numbers of bins run; and two caches of fewer than ten layers each."""
CODECS: Final = (1, 2)
"""Versions of the segments."""
EXACT: Final = "exact"
CONTROL: Final = "exact_again"
"""The exact arm once more: what it differs by is noise."""
PLANTED: Final = "planted"
"""Memory that is taken on purpose, as much as would break the limit: if it is not seen, none is."""
VERSION: Final = 3
"""Of the procedures that are made now. Version 2 asks for more probes than 1; version 3 for the path of a restore, for
more probes, and for percentiles where there are samples enough."""
LIMITS: Final[Mapping[str, int]] = {
    "size_ppm": 1_000_000,
    "restore_ppm": 1_000_000,
    "import_ppm": 2_000_000,
    "total_ppm": 1_000_000,
    "host_kib": 4096,
    "pairs": 10,
    "noise_ppm": 100_000,
    "spread_ppm": 250_000,
    "implausible_ppm": 20_000,
}
"""Lossy beside exact, in millionths; KiB above a decoded page that an import may take; rules of the measurement."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One page that was planned: its lossy forms are cells."""

    model: str
    prefix: int
    k: str
    v: str

    @property
    def id(self) -> str:
        """Like ``k=f16,v=q8_0,model=scheduled,prefix=250``."""
        return f"k={self.k},v={self.v},model={self.model},prefix={self.prefix}"


def plan_groups(procedure: Record) -> list[Group]:
    """Return all groups in order."""
    coded = texts(procedure, "coded")
    return [
        Group(model=str(model), prefix=prefix, k=k, v=v)
        for model in mapping_of(procedure, "models")
        for prefix in integers(procedure, "prefixes")
        for k in coded
        for v in coded
    ]


def excluded_of(procedure: Record) -> list[str]:
    """Return the element types that the archive has no record for: pairs with one of them are excluded."""
    coded = texts(procedure, "coded")
    return [kind for kind in texts(procedure, "types") if kind not in coded]


def arms_of(procedure: Record) -> list[str]:
    """Return the arms of a round, in the order of its number 0."""
    return [EXACT, *(f"lossy_lcg{version}" for version in integers(procedure, "versions")), CONTROL]


def order_of(procedure: Record, number: int) -> list[str]:
    """Return the order of the arms in a round: it rotates."""
    arms = arms_of(procedure)
    shift = number % len(arms)
    return [*arms[shift:], *arms[:shift]]


def version_of(procedure: Record) -> int:
    """Return the version of a procedure; the oldest ones do not name theirs."""
    return integer_of(procedure, "version") if "version" in procedure else 1


def restore_path_of(procedure: Record) -> str:
    """Return the path that imports were to be decoded by; empty where a procedure does not declare one."""
    return str(procedure.get("restore", ""))


def is_slice(procedure: Record) -> bool:
    """Return whether a procedure leaves types, models or codecs of the matrix out; prefixes may be scaled.

    Procedures before version 3 were not asked.
    """
    axes = (
        (texts(procedure, "coded"), CODED),
        (mapping_of(procedure, "models"), MODELS),
        (integers(procedure, "versions"), CODECS),
    )
    return version_of(procedure) >= 3 and any({*found} != {*whole} for found, whole in axes)
