"""One list of work, done by several processes: shares are taken in turn, and what comes back is in the list's order.

Processes are forked, so that what is read and compiled already is not read again. Nothing is lost silently: a process
that ends before it has handed over its shares is an error, never a shorter answer.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Final, TypeVar

from harness.errors import StatecertError

LEAST: Final = 64
"""Pieces of work below which no process is forked: a fork and what it sends back cost more than they spare."""
_SHARES: Final = 16
"""For each process: large pieces of work lie together, and whoever is done early takes the next."""
_MOST: Final = 250
"""Shares, each of which has a number of one byte."""

_Result = TypeVar("_Result")


def processes(wanted: int) -> int:
    """Return how many processes may work: one for each free processor; one where this one cannot be forked."""
    if not hasattr(os, "fork") or threading.active_count() > 1 or "torch" in sys.modules:
        return 1
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(wanted, round(here - busy)))


def shared(work: Callable[[range], _Result], count: int, jobs: int) -> Iterator[_Result]:
    """Yield what ``work`` returns for each share of ``range(count)``, in order; the shares cover it without a gap.

    Args:
        work: Takes a share; what it returns can be pickled. In other processes nothing else of it is kept.
        count: Pieces of work.
        jobs: Processes, this one included; see :func:`processes`. With one, or little work, there is one share.

    Raises:
        StatecertError: Another process ended before its work did; or what ``work`` raises, in whichever process.
    """
    jobs = processes(jobs) if count >= LEAST else 1
    if jobs == 1:
        yield work(range(count))
        return
    shares = _cut(count, min(_MOST, jobs * _SHARES, count))
    queue, tail = os.pipe()
    os.write(tail, bytes(range(len(shares))))
    os.close(tail)
    sys.stdout.flush()
    sys.stderr.flush()
    others = [_forked(work, shares, queue) for _ in range(jobs - 1)]
    try:
        found = dict(_taken(work, shares, queue))
        for process, pipe in others:
            found |= _received(process, pipe)
    finally:
        os.close(queue)
        for process, pipe in others:
            pipe.close()  # a process that still writes gets an error, and ends
            os.waitpid(process, 0)
    if len(found) != len(shares):
        raise StatecertError(f"{len(shares) - len(found)} of {len(shares)} shares of the work are missing")
    for number in range(len(shares)):
        yield found.pop(number)


def _cut(count: int, pieces: int) -> list[range]:
    return [range(count * one // pieces, count * (one + 1) // pieces) for one in range(pieces)]


def _taken(work: Callable[[range], _Result], shares: list[range], queue: int) -> Iterator[tuple[int, _Result]]:
    """Take one share after another, as long as there are any."""
    while number := os.read(queue, 1):
        yield number[0], work(shares[number[0]])


def _forked(work: Callable[[range], _Result], shares: list[range], queue: int) -> tuple[int, IO[bytes]]:
    """Fork a process that takes shares; return its id and where its answer is read."""
    here, there = os.pipe()
    process = os.fork()
    if process:
        os.close(there)
        return process, os.fdopen(here, "rb")
    code = 1
    try:
        os.close(here)
        try:
            answer: object = list(_taken(work, shares, queue))
        except Exception as error:  # noqa: BLE001 - raised again by the process that asked
            answer = error
        with os.fdopen(there, "wb") as pipe:
            pickle.dump(answer, pipe, protocol=pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)  # nothing of the process that was forked is closed or flushed here


def _received(process: int, pipe: IO[bytes]) -> dict[int, _Result]:
    try:
        answer = pickle.load(pipe)  # noqa: S301 - of a process that this one has forked, through a pipe without a name
    except (EOFError, pickle.UnpicklingError):
        raise StatecertError(f"process {process} ended before its work did") from None
    if isinstance(answer, Exception):
        raise answer
    return dict(answer)
