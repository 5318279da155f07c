"""What ends a command from outside: Ctrl-C, and the signal by which service managers and time limits ask for an end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Final

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)
"""Both break off what is under way in good order."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise `KeyboardInterrupt` in the main thread on SIGTERM too, unless the caller has a mind of its own about it."""
    usual = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if usual:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Let nothing break off the block; the signals that came meanwhile are in the list.

    Only the main thread is ever broken off, so that in another one nothing is done.
    """
    came: list[int] = []
    if current_thread() is not main_thread():
        yield came
        return
    before = {ending: signal.signal(ending, lambda number, _: came.append(number)) for ending in ENDINGS}
    try:
        yield came
    finally:
        for ending, handler in before.items():
            signal.signal(ending, signal.SIG_DFL if handler is None else handler)
