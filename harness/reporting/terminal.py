"""Reports for a terminal: 80 columns, complete without colour, one verdict line at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.reporting import escape
from harness.reporting.tables import printed
from harness.reporting.units import counted
from harness.reporting.view import (
    NOTHING,
    Badge,
    CertificateView,
    Fact,
    Grid,
    Head,
    Link,
    Matrix,
    Overview,
    OverviewRow,
    Problem,
    Sheet,
    Tally,
)
from harness.reporting.words import RICH_STYLES, mark

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_INDENT = 2
_MOST_COLUMNS = 5
_MOST_ROWS = 24
_SQUARE = 3
"""Characters of a column of the grid: two, and one between."""


def render_certificate(view: CertificateView, *, colour: bool, width: int = 80) -> str:
    """Return one certificate for reading from top to bottom; the last line is its verdict."""
    return printed(*_certificate(view), _verdict(view), colour=colour, width=width)


def render_overview(overview: Overview, *, colour: bool, width: int = 80) -> str:
    """Return a line for what passes, a block for all else and, as the last line, how many have which decision.

    Where there are several subjects, what passes has a square in the grid instead of a line.
    """
    good = [row for row in overview.rows if (row.overall, row.state) == ("pass", "current")]
    rest = [row for row in overview.rows if (row.overall, row.state) != ("pass", "current")]
    parts: list[RenderableType] = [_line(overview.sentence)]
    if len(overview.grid.subjects) > 1:
        parts += [*_by_subject(overview.grid, width), *([_blank()] if rest else [])]
    elif good:
        parts += [_passing(good)]
    else:
        parts += [_blank()]
    for row in rest:
        parts += _block(row)
    ending = _tallies(overview.tallies) if overview.rows else _line("no certificates")
    return printed(*parts, _blank(), ending, colour=colour, width=width)


def _by_subject(grid: Grid, width: int) -> Iterator[RenderableType]:
    """Scenarios down, subjects across by their numbers, which are told before; a long title is cut."""
    from rich import box
    from rich.table import Table

    yield _padded(grid.note)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    room = width - len(grid.subjects) * _SQUARE - 2
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=max(room, _SQUARE))
    for number, subject in enumerate(grid.subjects, 1):
        yield _padded(f"{number:>2}  {subject}")
        table.add_column(str(number), justify="center", min_width=2)
    for row in grid.rows:
        squares = (_glyph(square.state) if square else _line("") for square in row.squares)
        title = _line(row.title)
        title.overflow = "ellipsis"
        table.add_row(title, *squares)
    yield table


def _passing(rows: Sequence[OverviewRow]) -> RenderableType:
    heads = [Head(text="claim"), Head(text="cells"), Head(text="equal", right=True), Head(text="certificate")]
    lines: list[list[RenderableType]] = [
        [
            _hanging(_glyph(row.overall), _line(row.title or row.claim_key)),
            _line(row.cells),
            _line(row.comparisons or "-"),
            _line(row.id[:12]),
        ]
        for row in sorted(rows, key=lambda row: row.claim_key)
    ]
    return _grid(heads, lines)


def _block(row: OverviewRow) -> Iterator[RenderableType]:
    yield _joined([_mark(row.overall), _line(f"{row.claim_key}  {row.title}", style="bold")])
    state = f"{mark(row.state).glyph} {mark(row.state).word}"
    yield _padded(f"{state}, {row.id[:12]} of {row.created[:10]}{_also(row.others)}")
    equal = f"; comparisons equal: {row.comparisons}" if row.comparisons else ""
    yield _padded(f"cells: {row.cells}{equal}" if equal else row.cells)
    if row.headline:
        yield _padded(row.headline)


def _certificate(view: CertificateView) -> Iterator[RenderableType]:
    yield _line(view.title, style="bold")
    yield _line(view.claim_key)
    yield _joined([_mark(view.state), _line(f"certificate {view.id12} of {view.created[:10]}")])
    if view.state_note:
        yield _line(view.state_note, style="bold")
    yield _badges(view.badges)
    yield _blank()
    yield _line(view.sentence)
    yield from _section("May be claimed", _items(view.claims, "+") or [_padded("Nothing.")])
    yield from _section("May not be claimed", _items(view.no_claims, "-"))
    if view.matrix:
        yield from _section("Matrix", [_matrix(view.matrix), _tallies(view.matrix.tallies)])
    yield from _section("Failures and inconclusives", _problems(view.problems, view.problems_note))
    if view.exactness:
        yield from _section("Exactness", [_facts(view.exactness), *_sheet(view.comparisons)])
    if view.timings != NOTHING:
        yield from _section("Turns", _sheet(view.timings))
    for part in view.sections:
        yield from _section(part.title, [*([_facts(part.facts)] if part.facts else []), *_sheet(part.sheet)])
    yield from _section("Environment", [_facts(view.environment)])
    yield from _section("History", [_history(view.history)])
    yield from _section("Not covered, limits, trust", _items(view.limits, "-"))
    yield from _section("Reproduce", [_padded(view.command), _facts(view.digests)])
    yield _blank()


def _verdict(view: CertificateView) -> RenderableType:
    overall = next((badge.state for badge in view.badges if badge.name == "overall"), "error")
    state = mark(view.state).word
    return _joined([_mark(overall), _line(f"{view.claim_key} {view.id12} {state}")])


def _section(title: str, parts: Sequence[RenderableType]) -> Iterator[RenderableType]:
    yield _blank()
    yield _line(title, style="bold underline")
    yield from parts


def _problems(problems: Sequence[Problem], note: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for problem in problems:
        what = f"{problem.cell} {problem.check} {problem.code}".rstrip()
        parts.append(_joined([_mark(problem.state), _line(what)]))
        parts.append(_padded(problem.reason, by=4))
        if problem.observed or problem.limit:
            parts.append(_padded(f"observed {problem.observed or '-'}, limit {problem.limit or '-'}", by=4))
        parts.extend([_padded(problem.place, by=4)] if problem.place else [])
    return [*parts, *([_padded(note)] if note else [])]


def _matrix(matrix: Matrix) -> RenderableType:
    """Lay the matrix out; a wide one is turned, or shown by its glyphs alone (the line below has the words)."""
    columns = [[row.cells[index].state for row in matrix.rows] for index in range(len(matrix.columns))]
    lines = [[cell.state for cell in row.cells] for row in matrix.rows]
    labels = [row.label for row in matrix.rows]
    across, down = [row.total for row in matrix.rows], list(matrix.totals)
    if len(columns) > _MOST_COLUMNS >= len(lines):
        name = f"{matrix.across} \\ {matrix.down}"
        return _laid_out(name, labels, list(matrix.columns), columns, [*down, matrix.total], across)
    name = f"{matrix.down} \\ {matrix.across}" if matrix.across else matrix.down
    return _laid_out(name, list(matrix.columns), labels, lines, [*across, matrix.total], down)


def _laid_out(
    name: str,
    columns: Sequence[str],
    labels: Sequence[str],
    lines: Sequence[Sequence[str]],
    right: Sequence[str],
    below: Sequence[str],
) -> RenderableType:
    shown = _glyph if len(columns) > _MOST_COLUMNS else _mark
    heads = [Head(text=name), *(Head(text=column) for column in columns), Head(text="total", right=True)]
    rows: list[list[RenderableType]] = [
        [_line(label), *map(shown, line), _line(total)]
        for label, line, total in zip(labels, lines, right[:-1], strict=True)
    ]
    return _grid(heads, [*rows, [_line("total"), *map(_line, below), _line(right[-1])]])


def _history(links: Sequence[Link]) -> RenderableType:
    heads = ("certificate", "made", "state", "decision", "reason, change")
    rows: list[list[RenderableType]] = [
        [
            _line(f"{link.id12}{' (this)' if link.here else ''}"),
            _line(link.created[:10]),
            _mark(link.state),
            _mark(link.overall),
            _line("; ".join(text for text in (link.reason, link.changed, link.dropped) if text) or "-"),
        ]
        for link in links
    ]
    return _grid([Head(text=head) for head in heads], rows)


def _sheet(sheet: Sheet) -> list[RenderableType]:
    note: list[RenderableType] = [_padded(sheet.note)] if sheet.note else []
    if not sheet.rows:
        return note
    rows: list[list[RenderableType]] = [[_line(value) for value in row] for row in sheet.rows[:_MOST_ROWS]]
    more = len(sheet.rows) - _MOST_ROWS
    cut = [_padded(f"{counted(more, 'more row')} on the Markdown and HTML pages.")] if more > 0 else []
    return [_grid(sheet.heads, rows), *cut, *note]


def _grid(heads: Sequence[Head], rows: Sequence[Sequence[RenderableType]]) -> RenderableType:
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for head in heads:
        grid.add_column(_line(head.text), justify="right" if head.right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _facts(facts: Sequence[Fact]) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(max_width=34, overflow="fold")
    grid.add_column(overflow="fold")
    for fact in facts:
        grid.add_row(_line(fact.name), _line(fact.value))
    return Padding(grid, (0, 0, 0, _INDENT))


def _badges(badges: Sequence[Badge]) -> RenderableType:
    pieces: list[Text] = []
    for badge in badges:
        pieces += [_line(f"{badge.name}"), _mark(badge.state), _line("  ")]
    return _joined(pieces)


def _tallies(tallies: Sequence[Tally]) -> RenderableType:
    return _joined([piece for tally in tallies for piece in (_mark(tally.state), _line(f"{tally.count} "))])


def _items(texts: Sequence[str], sign: str) -> list[RenderableType]:
    from rich.table import Table

    if not texts:
        return []
    grid = Table.grid(padding=(0, 1, 0, 0))
    for text in texts:
        grid.add_row(f"  {sign}", _line(text))
    return [grid]


def _padded(text: str, *, by: int = _INDENT) -> RenderableType:
    from rich.padding import Padding

    return Padding(_line(text), (0, 0, 0, by))


def _mark(state: str) -> Text:
    shown = mark(state)
    return _line(f"{shown.glyph} {shown.word}", style=RICH_STYLES[shown.tone])


def _glyph(state: str) -> Text:
    shown = mark(state)
    return _line(shown.glyph, style=RICH_STYLES[shown.tone])


def _line(text: str, *, style: str = "") -> Text:
    from rich.text import Text

    return Text(escape.plain(text), style=style, overflow="fold")


def _joined(pieces: Sequence[Text]) -> Text:
    from rich.text import Text

    return Text(" ").join(pieces)


def _hanging(sign: Text, text: Text) -> RenderableType:
    """Put a sign before a text, whose further lines begin below its first word."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(sign, text)
    return grid


def _blank() -> Text:
    return _line("")


def _also(text: str) -> str:
    return f"; {text}" if text else ""
