"""What ends a command from outside: Ctrl-C, and the signal by which service managers and time limits ask for an end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Final

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)
"""Both break off what is under way in good order."""


class _Once:
    """Handler of SIGTERM that breaks off once; while what was broken off ends, further ones change nothing.

    A time limit tells the process and then its whole group, so that one process is told twice.
    """

    def __init__(self) -> None:
        self._told = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.first():
            raise KeyboardInterrupt

    def first(self) -> bool:
        """Whether nobody has asked before."""
        told, self._told = self._told, True
        return not told


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in the main thread on the first SIGTERM too.

    Unless the caller has a mind of its own about that signal. Ctrl-C breaks off each time that it comes.
    """
    usual = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if usual:
        signal.signal(signal.SIGTERM, _Once())
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Let nothing break off the block; the signals that came meanwhile are in the list.

    Only the main thread is ever broken off, so that in another one nothing is done. What came here has been told: a
    further SIGTERM after the block is none that breaks off again.
    """
    came: list[int] = []
    if current_thread() is not main_thread():
        yield came
        return
    before = {ending: signal.getsignal(ending) for ending in ENDINGS}

    def note(number: int, _: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        if not isinstance(handler, _Once) or handler.first():
            came.append(number)

    for ending in ENDINGS:
        signal.signal(ending, note)
    try:
        yield came
    finally:
        for ending, handler in before.items():
            signal.signal(ending, signal.SIG_DFL if handler is None else handler)
