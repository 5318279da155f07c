"""Turns of a run as a table and as bars: each time was measured once, and the page says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.model.evidence import Evidence, Turn
from harness.reporting.units import duration, number, size
from harness.reporting.view import Bar, Head, Sheet

_MOST_ROWS: Final = 60
_HEADS: Final = (
    Head(text="cell"),
    Head(text="turn"),
    Head(text="prompt tokens", right=True),
    Head(text="cached tokens", right=True),
    Head(text="restored", right=True),
    Head(text="prefill", right=True),
    Head(text="decode", right=True),
    Head(text="first token", right=True),
)
_SINGLE: Final = (
    "Each time is one measurement on the machine named below, hashing left out; no percentile, mean or speed-up can be "
    "claimed from it."
)
_NONE: Final = "The evidence of this certificate is not at hand, so its turns are not shown."


def turns_of(evidence: Evidence | None) -> list[Turn]:
    """Return the turns of a run in the order in which they were made."""
    return [item for item in evidence.observations if isinstance(item, Turn)] if evidence is not None else []


def timing_sheet(evidence: Evidence | None) -> Sheet:
    """Return one row per turn; a long list is cut, with a count of what was left out."""
    if evidence is None:
        return Sheet(heads=(), rows=(), note=_NONE)
    turns = turns_of(evidence)
    cut = f" {number(len(turns) - _MOST_ROWS)} more turns stand in the evidence." if len(turns) > _MOST_ROWS else ""
    return Sheet(heads=_HEADS, rows=[_row(turn) for turn in turns[:_MOST_ROWS]], note=_SINGLE + cut)


def first_token_bars(evidence: Evidence | None) -> list[Bar]:
    """Return one bar per turn that decoded a token."""
    turns = [turn for turn in turns_of(evidence) if turn.first_token_ns > 0]
    longest = max((turn.first_token_ns for turn in turns), default=1)
    cells = {turn.cell for turn in turns}
    return [
        Bar(
            label=_name(turn) if len(cells) == 1 else f"{_name(turn)} {_coordinates(turn.cell)}",
            value=duration(turn.first_token_ns),
            ppm=turn.first_token_ns * 1_000_000 // longest,
            restored=turn.cached > 0,
        )
        for turn in turns
    ]


def _row(turn: Turn) -> Sequence[str]:
    return (
        turn.cell,
        _name(turn),
        number(turn.prompt_tokens),
        number(turn.cached),
        size(turn.restored_bytes),
        duration(turn.prefill_ns),
        duration(turn.decode_ns),
        duration(turn.first_token_ns) if turn.first_token_ns else "none decoded",
    )


def _name(turn: Turn) -> str:
    return f"{turn.arm}.{turn.label}{' (again)' if turn.rep else ''}"


def _coordinates(cell: str) -> str:
    inner = cell.partition("[")[2].rstrip("]")
    return ",".join(part.partition("=")[2] or part for part in inner.split(",")) or cell
