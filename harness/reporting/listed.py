"""Reports as data: what the terminal shows, for programs. The fields are those of the view model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from harness.reporting import escape
from harness.reporting.tables import Column, Table
from harness.reporting.view import CertificateView, Overview

_OVERVIEW: Final = (
    "claim_key",
    "title",
    "state",
    "overall",
    "cells",
    "comparisons",
    "id",
    "created",
    "others",
    "headline",
)


def overview_table(overview: Overview) -> Table:
    """One row per claim key, worst first."""
    rows: list[dict[str, str | int]] = [{key: str(getattr(row, key)) for key in _OVERVIEW} for row in overview.rows]
    return Table(
        title=overview.sentence, columns=[Column(key=key, header=key.replace("_", " ")) for key in _OVERVIEW], rows=rows
    )


def pages_table(title: str, lines: Sequence[str]) -> Table:
    """One row per page: its name, and what is to be said of it, where there is anything.

    Args:
        title: What was done.
        lines: A name, or a name, a colon and words.
    """
    split = [line.partition(": ") for line in lines]
    rows: list[dict[str, str | int]] = [
        {"page": name, **({"words": words} if words else {})} for name, _, words in split
    ]
    return Table(
        title=title, columns=[Column(key="page", header="page"), Column(key="words", header="words")], rows=rows
    )


def certificate_json(view: CertificateView) -> bytes:
    """One certificate: every section of its report under the section's name, tables as heads and rows."""
    fields = {name: value for name, value in asdict(view).items() if value is not None}
    return escape.json_bytes(fields)
