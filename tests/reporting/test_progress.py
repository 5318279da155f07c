from __future__ import annotations

from io import StringIO

from harness.model.evidence import CellEvent, Turn
from harness.model.values import CellId
from harness.reporting.progress import Lines, Live, observe, progress

CELL = CellId("A02[scale=16,arch=hybrid]")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def ticking(step_ns: int) -> list[int]:
    return [step_ns * index for index in range(20)]


def turn(arm: str) -> Turn:
    return Turn(
        cell=CELL, arm=arm, rep=0, label="a1", prompt_tokens=8, prompt_digest="0" * 64, cached=0,  # type: ignore[arg-type]
        prefilled=8, decoded=0, restored_bytes=0, begin_ns=1, prefill_ns=1, commit_ns=1, decode_ns=1,
    )  # fmt: skip


def test_a_log_gets_one_line_per_cell() -> None:
    stream = StringIO()
    times = iter(ticking(1_500_000_000))

    with Lines(stream, cells=12, clock=lambda: next(times)) as display:
        observe(display, CellEvent(cell=CELL, event="begin"))
        observe(display, turn("warm"))
        observe(display, CellEvent(cell=CELL, event="end"))
        display.cell_end("A02[scale=1]", "not_run", "no_device")

    assert stream.getvalue().splitlines() == [
        "[ 1/12] · A02[scale=16,arch=hybrid]: done, 1.50 s",
        "[ 2/12] - A02[scale=1]: not run (no_device)",
    ]


def test_a_cell_that_never_began_has_no_time_on_a_terminal_either() -> None:
    stream = Terminal()

    with progress(stream, cells=2, quiet=False, colour=False) as display:
        display.cell_end("A02[x]", "error", "child_ended")

    assert "! A02[x]: error (child_ended)" in stream.getvalue()
    assert " ns" not in stream.getvalue()


def test_quiet_writes_nothing() -> None:
    stream = Terminal()

    with progress(stream, cells=1, quiet=True, colour=True) as display:
        display.cell_begin("a")
        display.cell_end("a", "fail")

    assert not stream.getvalue()


def test_a_terminal_gets_a_bar_and_failures_stay_above_it() -> None:
    stream = Terminal()

    with progress(stream, cells=2, quiet=False, colour=False) as display:
        assert isinstance(display, Live)
        display.cell_begin("A02[x]")
        display.step("A02[x]", "warm", "a1")
        display.cell_end("A02[x]", "fail", "parts_differ")

    shown = stream.getvalue()
    assert "1/2" in shown
    assert "✗ A02[x]: fail (parts_differ)" in shown


def test_a_hostile_cell_name_is_no_command() -> None:
    stream = StringIO()

    with Lines(stream, cells=1) as display:
        display.cell_end("\r::error::boo\x1b[2J", "pass")

    assert "::" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()
