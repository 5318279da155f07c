"""Any table of the command line, printed for people or as JSON with the same content.

The terminal rendering colours a cell whose whole value is a known state word (``pass``, ``stop``,
``not_run`` …) and never breaks into two meanings: text is escaped, rows keep their order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Final, Literal

from harness.reporting import escape
from harness.reporting.words import MARKS, RICH_STYLES

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_BESIDE: Final = 16
"""Characters that each column beside one that is kept whole has at least."""

Justify = Literal["left", "center", "right"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column."""

    key: str
    """Name of the field in the rows and in JSON."""
    header: str
    """What people read above it."""
    justify: Justify = "left"


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under columns. A field that a row lacks is shown as ``-`` and left out of the JSON."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, str | int]]


def render_terminal(table: Table, *, colour: bool, width: int, whole: Collection[str] = ()) -> str:
    """Return the table as lines for people; without ``colour`` there is no escape sequence in it.

    Args:
        table: What to show.
        colour: Whether states have colours.
        width: Columns of characters.
        whole: Keys of columns that are never broken into lines; the table grows wider than ``width`` if it must.
    """
    from rich import box
    from rich.table import Table as RichTable

    grid = RichTable(
        title=escape.plain(table.title) or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    for column in table.columns:
        least = _longest(table, column) if column.key in whole else None
        width = max(width, (least or 0) + _BESIDE * (len(table.columns) - 1))
        grid.add_column(
            escape.plain(column.header),
            justify=column.justify,
            overflow="fold",
            min_width=least,
            no_wrap=least is not None,
        )
    for row in table.rows:
        grid.add_row(*(_cell(row.get(column.key, "-")) for column in table.columns))
    return printed(grid, colour=colour, width=width)


def _longest(table: Table, column: Column) -> int:
    return max((len(escape.plain(row.get(column.key, "-"))) for row in table.rows), default=1)


def render_json(table: Table) -> bytes:
    """Return title and rows as JSON; each row has the fields of the columns, in their order."""
    rows = [{column.key: row[column.key] for column in table.columns if column.key in row} for row in table.rows]
    return escape.json_bytes({"title": table.title, "rows": rows})


def printed(*what: RenderableType, colour: bool, width: int) -> str:
    """Return what ``rich`` makes of ``what``; the same bytes on each machine and terminal."""
    console = quiet_console(StringIO(), colour=colour, width=width)
    for renderable in what:
        console.print(renderable)
    text = console.file.getvalue() if isinstance(console.file, StringIO) else ""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def quiet_console(file: StringIO, *, colour: bool, width: int) -> Console:
    """Return a console that looks at nothing around it: no environment, no markup, no highlighting."""
    from rich.console import Console

    return Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )


def _cell(value: str | int) -> RenderableType:
    from rich.text import Text

    known = MARKS.get(value) if isinstance(value, str) else None
    return Text(escape.plain(value), style=RICH_STYLES[known.tone] if known else "")
