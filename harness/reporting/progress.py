"""What a run shows while it goes on: a live bar on a terminal, one line per cell elsewhere.

The display is fed by calls (:meth:`Progress.cell_begin`, :meth:`Progress.step`,
:meth:`Progress.cell_end`) or straight by the observations of a run (:func:`observe`). It decides
nothing: an outcome is a word that somebody hands over.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO

from harness.model.evidence import CellEvent, Crash, Observation, StepRecord, StoreView, Turn
from harness.reporting import escape
from harness.reporting.units import duration
from harness.reporting.words import RICH_STYLES, mark

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

Clock = Callable[[], int]
"""Monotonic nanoseconds."""

_NOTEWORTHY: Final = frozenset({"fail", "stop", "error", "inconclusive", "crash", "hang"})


class Progress(Protocol):
    """Takes what happens in a run. Use as a context manager, so that the terminal is left in order."""

    def cell_begin(self, cell: str) -> None:
        """A cell begins."""

    def step(self, cell: str, arm: str, label: str) -> None:
        """A step or turn of an arm ended."""

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """A cell ended; ``outcome`` is a word of :class:`harness.model.values.Outcome`, or ``done``."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def progress(stream: TextIO, *, cells: int, quiet: bool, colour: bool, clock: Clock = time.monotonic_ns) -> Progress:
    """Return the display that fits ``stream``: none if ``quiet``, live on a terminal, else lines."""
    if quiet:
        return Silent()
    if stream.isatty():
        return Live(stream, cells=cells, colour=colour, clock=clock)
    return Lines(stream, cells=cells, clock=clock)


def observe(display: Progress, observation: Observation) -> None:
    """Show an observation of a run; the kinds that are not news for a reader are passed over."""
    match observation:
        case CellEvent(event="begin"):
            display.cell_begin(observation.cell)
        case CellEvent(event="end"):
            display.cell_end(observation.cell, "done", observation.reason)
        case CellEvent():
            display.cell_end(observation.cell, observation.event, observation.reason)
        case Turn() | StepRecord() | StoreView():
            display.step(observation.cell, observation.arm, observation.label)
        case Crash():
            display.step(observation.cell, observation.arm, f"{observation.label} ({observation.kind})")
        case _:
            pass


class Silent:
    """Shows nothing."""

    def cell_begin(self, cell: str) -> None:
        """Show nothing."""

    def step(self, cell: str, arm: str, label: str) -> None:
        """Show nothing."""

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """Show nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Lines:
    """One plain line per cell, when it ends; flushed, so that a log can be followed."""

    def __init__(self, stream: TextIO, *, cells: int, clock: Clock = time.monotonic_ns) -> None:
        self._stream = stream
        self._cells = cells
        self._clock = clock
        self._ended = 0
        self._began: dict[str, int] = {}

    def cell_begin(self, cell: str) -> None:
        """Start the time of ``cell``."""
        self._began[cell] = self._clock()

    def step(self, cell: str, arm: str, label: str) -> None:
        """Show nothing: a log has one line per cell."""

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """Write the line of ``cell``."""
        began = self._began.pop(cell, None)
        self._ended += 1
        line = _ending(cell, outcome, reason, taken_ns=None if began is None else self._clock() - began)
        self._stream.write(f"[{self._ended:>{len(str(self._cells))}}/{self._cells}] {line}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.flush()


class Live:
    """A bar with elapsed time, tally, current cell and arm; cells that need a look stay above it."""

    def __init__(self, stream: TextIO, *, cells: int, colour: bool, clock: Clock = time.monotonic_ns) -> None:
        self._bar = _bar(stream, colour=colour)
        self._task: TaskID = self._bar.add_task("", total=cells, tally="")
        self._tally: Counter[str] = Counter()
        self._clock = clock
        self._began: dict[str, int] = {}
        self._under_way: dict[str, str] = {}

    def cell_begin(self, cell: str) -> None:
        """Name the cell below the bar."""
        self._began[cell] = self._clock()
        self._show(cell, cell)

    def step(self, cell: str, arm: str, label: str) -> None:
        """Name the arm and step beside the cell."""
        self._show(cell, f"{cell} · {arm} · {label}")

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """Advance the bar; write a line above it if somebody should look at this cell."""
        from rich.text import Text

        self._tally[outcome] += 1
        self._under_way.pop(cell, None)
        began = self._began.pop(cell, None)
        taken_ns = None if began is None else self._clock() - began
        tally = " ".join(f"{mark(word).glyph}{count}" for word, count in sorted(self._tally.items()))
        self._bar.update(self._task, advance=1, tally=tally)
        if outcome in _NOTEWORTHY:
            line = _ending(cell, outcome, reason, taken_ns=taken_ns)
            self._bar.console.print(Text(line, style=RICH_STYLES[mark(outcome).tone]))

    def _show(self, cell: str, what: str) -> None:
        """Say where a cell is; cells side by side stand beside one another, the longest at work first."""
        self._under_way[cell] = escape.plain(what)
        self._bar.update(self._task, description="  |  ".join(self._under_way.values()))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.update(self._task, description="")
        self._bar.stop()


def _bar(stream: TextIO, *, colour: bool) -> Bar:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    plain_text = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Bar(
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[tally]}", markup=False),
        TextColumn("{task.description}", markup=False, table_column=plain_text),
        console=_console(stream, colour=colour),
        expand=True,
        refresh_per_second=4,
    )


def _console(stream: TextIO, *, colour: bool) -> Console:
    from rich.console import Console

    return Console(file=stream, no_color=not colour, markup=False, emoji=False, highlight=False)


def _ending(cell: str, outcome: str, reason: str, *, taken_ns: int | None) -> str:
    """Word the end of a cell; one that never began took no time that could be told."""
    shown = mark(outcome)
    why = f" ({escape.plain(reason)})" if reason else ""
    took = "" if taken_ns is None else f", {duration(taken_ns)}"
    return f"{shown.glyph} {escape.plain(cell)}: {escape.plain(shown.word)}{why}{took}"
