"""Turns of a run as a table and as bars: each time was measured once, and the page says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.reporting.reading import integer, items, text
from harness.reporting.units import counted, duration, number, size
from harness.reporting.view import Bar, Head, Sheet

_MOST_ROWS: Final = 60
_HEADS: Final = (
    Head(text="cell"),
    Head(text="turn"),
    Head(text="prompt", right=True),
    Head(text="cached", right=True),
    Head(text="restored", right=True),
    Head(text="prefill", right=True),
    Head(text="first token", right=True),
)
_SINGLE: Final = (
    "Prompt and cached in tokens; #2 is the second run of a reference. Each time is one measurement on the machine "
    "below, hashing left out: no percentile, mean or speed-up can be claimed from it."
)

_Turn = tuple[str, object]
"""Coordinates of the cell, and the turn."""


def timing_sheet(body: Mapping[str, object]) -> Sheet:
    """Return one row per turn; a long list is cut, with a count of what was left out."""
    turns = _turns(body)
    if not turns:
        return Sheet(heads=(), rows=(), note="No turn ran.")
    cut = f" {counted(len(turns) - _MOST_ROWS, 'more turn')} in the record." if len(turns) > _MOST_ROWS else ""
    return Sheet(heads=_HEADS, rows=[_row(turn) for turn in turns[:_MOST_ROWS]], note=_SINGLE + cut)


def first_token_bars(body: Mapping[str, object]) -> list[Bar]:
    """Return one bar per turn that decoded a token."""
    turns = [turn for turn in _turns(body) if integer(turn[1], "first_token_ns") > 0]
    longest = max((integer(turn, "first_token_ns") for _, turn in turns), default=1)
    several = len({cell for cell, _ in turns}) > 1
    return [
        Bar(
            label=f"{_name(turn)} {cell}" if several else _name(turn),
            value=duration(integer(turn, "first_token_ns")),
            ppm=integer(turn, "first_token_ns") * 1_000_000 // longest,
            restored=integer(turn, "cached") > 0,
        )
        for cell, turn in turns
    ]


def _turns(body: Mapping[str, object]) -> list[_Turn]:
    return [(_coordinates(cell), turn) for cell in items(body, "cells") for turn in items(cell, "turns")]


def _row(of_cell: _Turn) -> Sequence[str]:
    cell, turn = of_cell
    first = integer(turn, "first_token_ns")
    return (
        cell,
        _name(turn),
        number(integer(turn, "prompt_tokens")),
        number(integer(turn, "cached")),
        size(integer(turn, "restored_bytes")),
        duration(integer(turn, "prefill_ns")),
        duration(first) if first else "none",
    )


def _name(turn: object) -> str:
    return f"{text(turn, 'arm')}.{text(turn, 'label')}{'#2' if integer(turn, 'rep') else ''}"


def _coordinates(cell: object) -> str:
    """Return the coordinates inside a cell's id without the names of the axes."""
    cell_id = text(cell, "id")
    inner = cell_id.partition("[")[2].rstrip("]")
    return ", ".join(part.partition("=")[2] or part for part in inner.split(",")) or cell_id
