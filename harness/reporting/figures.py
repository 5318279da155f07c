"""Geometry of the two drawings of a page: integers and text, no markup.

Each drawing stays small (about 20 kB): a matrix with too many cells is left to its table, and a long
list of turns is cut with a count of what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.reporting.view import Bar, Matrix
from harness.reporting.words import mark

_MOST_BOXES: Final = 120
_MOST_BARS: Final = 24
_LABEL_LETTERS: Final = 30
_HEAD_LETTERS: Final = 9
_LABEL_WIDTH: Final = 225
_BOX_WIDTH: Final = 68
_BOX_HEIGHT: Final = 26
_BAR_HEIGHT: Final = 20
_BAR_LENGTH: Final = 420
_VALUE_WIDTH: Final = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """Text at a place."""

    x: int
    y: int
    text: str
    full: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A filled rectangle with a short text inside and a long one for who asks."""

    x: int
    y: int
    width: int
    height: int
    tone: str
    text: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """All of one drawing."""

    title: str
    description: str
    width: int
    height: int
    labels: Sequence[Label]
    boxes: Sequence[Box]
    left_out: int = 0


def heat_map(matrix: Matrix) -> Drawing | None:
    """Return the matrix as coloured boxes with glyphs; None where a table serves better."""
    count = len(matrix.rows) * len(matrix.columns)
    if not 0 < count <= _MOST_BOXES or len(matrix.columns) > _MOST_BOXES // 8:
        return None
    top = _BOX_HEIGHT
    labels = [
        _label(_LABEL_WIDTH + index * _BOX_WIDTH + _BOX_WIDTH // 2, top - 9, text, _HEAD_LETTERS)
        for index, text in enumerate(matrix.columns)
    ]
    boxes: list[Box] = []
    for down, row in enumerate(matrix.rows):
        y = top + down * _BOX_HEIGHT
        labels.append(_label(0, y + 17, row.label, _LABEL_LETTERS))
        for right, cell in enumerate(row.cells):
            shown = mark(cell.state)
            title = f"{cell.id}: {shown.word}{f' ({cell.reason})' if cell.reason else ''}"
            x = _LABEL_WIDTH + right * _BOX_WIDTH
            boxes.append(_box(x + 1, y + 1, _BOX_WIDTH - 2, _BOX_HEIGHT - 2, shown.tone, shown.glyph, title))
    tallies = ", ".join(f"{tally.count} {mark(tally.state).word}" for tally in matrix.tallies)
    return Drawing(
        title="Matrix of cells",
        description=f"{matrix.down} down, {matrix.across or 'one cell'} across: {tallies}.",
        width=_LABEL_WIDTH + len(matrix.columns) * _BOX_WIDTH,
        height=top + len(matrix.rows) * _BOX_HEIGHT + 2,
        labels=labels,
        boxes=boxes,
    )


def first_token_bars(bars: Sequence[Bar]) -> Drawing | None:
    """Return one bar per turn; None if no turn decoded anything."""
    if not bars:
        return None
    shown = bars[:_MOST_BARS]
    labels: list[Label] = []
    boxes: list[Box] = []
    for index, bar in enumerate(shown):
        y = index * _BAR_HEIGHT
        length = max(2, bar.ppm * _BAR_LENGTH // 1_000_000)
        labels.append(_label(0, y + 14, bar.label, _LABEL_LETTERS))
        labels.append(_label(_LABEL_WIDTH + length + 6, y + 14, bar.value, _LABEL_LETTERS))
        tone = "reused" if bar.restored else "cold"
        boxes.append(_box(_LABEL_WIDTH, y + 3, length, _BAR_HEIGHT - 6, tone, "", f"{bar.label}: {bar.value}"))
    return Drawing(
        title="Time to the first token, by turn",
        description="One measurement each, no repeats: a picture of this run, not a statistic.",
        width=_LABEL_WIDTH + _BAR_LENGTH + _VALUE_WIDTH,
        height=len(shown) * _BAR_HEIGHT + 2,
        labels=labels,
        boxes=boxes,
        left_out=len(bars) - len(shown),
    )


def _label(x: int, y: int, text: str, most: int) -> Label:
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return Label(x=x, y=y, text=cut, full=text)


def _box(x: int, y: int, width: int, height: int, tone: str, text: str, title: str) -> Box:
    return Box(x=x, y=y, width=width, height=height, tone=tone, text=text, title=title)
