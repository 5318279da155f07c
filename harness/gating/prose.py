"""Looks up what a text cites: certificates by id or claim key, and what of their bodies is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.deriving.prose import Citation
from harness.gating.claimkeys import fits
from harness.gating.known import CertificateFacts
from harness.gating.rule import Body, FolderFacts

_LEAST: Final = 12
_HEX: Final = frozenset("0123456789abcdef")
_NOT_RUN: Final = ("excluded",)


class Row(NamedTuple):
    """One line of a matrix: a cell, or a row of a foreign record."""

    name: str
    coords: Mapping[str, Any]
    outcome: str


def cited(facts: FolderFacts, citation: Citation) -> Sequence[CertificateFacts]:
    """Return the certificates that a citation names.

    By the first digits of an id, whatever their state; by a claim key those that are current.
    """
    target = citation.target
    if len(target) >= _LEAST and _HEX.issuperset(target):
        return [one for one in facts.certificates if one.id.startswith(target)]
    return [one for one in facts.certificates if one.state == "current" and one.claim_key == target]


def of_claims(facts: FolderFacts, pattern: str) -> Iterator[CertificateFacts]:
    """Yield current certificates of a claim key or a pattern."""
    return (one for one in facts.certificates if one.state == "current" and fits(pattern, one.claim_key))


def rows(body: Body) -> Sequence[Row]:
    """Return the cells of a certificate, or the rows of a foreign record."""
    if "cells" in body:
        return [Row(cell["id"], cell["coords"], cell["outcome"]) for cell in body["cells"]]
    return [
        Row(str(one["name"]), {}, str(one["judged"]))
        for one in body.get("results", ())
        if isinstance(one, Mapping) and "name" in one and "judged" in one
    ]


def run_rows(body: Body) -> Sequence[Row]:
    """Return the rows without those that the scenario excludes."""
    return [one for one in rows(body) if one.outcome not in _NOT_RUN]


def meant(body: Body, pointer: str) -> object:
    """Return what a pointer means in a body; None: nothing.

    ``overall`` and ``axis.NAME`` are decisions; ``cell=ID`` and ``NAME=VALUE,...`` outcomes of cells, one word where
    they agree; ``/a/b/0`` is a JSON pointer into the body.
    """
    if pointer in ("", "overall"):
        return body["decision"]["overall"]
    if pointer.startswith("axis."):
        return body["decision"].get("by_axis", {}).get(pointer.removeprefix("axis."))
    if pointer.startswith("/"):
        return _pointed(body, pointer)
    outcomes = {one.outcome for one in rows(body) if _selected(one, pointer)}
    return outcomes.pop() if len(outcomes) == 1 else "mixed" if outcomes else None


def _selected(row: Row, pointer: str) -> bool:
    if pointer.startswith("cell="):
        return row.name == pointer.removeprefix("cell=")
    wanted = dict(one.split("=", 1) for one in pointer.split(",") if "=" in one)
    return bool(wanted) and all(str(row.coords.get(name)) == value for name, value in wanted.items())


def _pointed(value: Any, pointer: str) -> object:
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, Sequence) and not isinstance(value, str) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    held: object = value
    return held
