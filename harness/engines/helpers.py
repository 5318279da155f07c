"""Threads that help with one look after the other, and the pieces of work of one look.

An executor of the standard library locks and notifies several times for each call. A look at a session lasts a few
milliseconds, so here a call is one entry of a queue, and so is each result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_NAME: Final = "hash"


class Helpers:
    """Threads that wait for calls; the first call of that many starts them."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def call(self, work: Callable[[], None], count: int) -> None:
        """Let some threads do the same work at a time, each as soon as it gets a core; it must not raise."""
        while len(self._threads) < count:
            thread = Thread(target=self._wait, name=f"{_NAME}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        for _ in range(count):
            self._calls.put(work)

    def close(self) -> None:
        """End the threads."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _wait(self) -> None:
        while (work := self._calls.get()) is not None:
            work()
            del work  # what it holds is not held while this thread waits


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    number: int
    result: T


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


class Pieces(Generic[T]):
    """Pieces of work, each done by whichever thread takes it first.

    Args:
        order: Numbers of the pieces, 0 to their count less one, in the order in which they are begun.
        do: Does a piece.
    """

    def __init__(self, order: Iterable[int], do: Callable[[int], T]) -> None:
        self._left = deque(order)
        self._out = len(self._left)
        self._do = do
        self._told: SimpleQueue[_Done[T] | _Failed | None] = SimpleQueue()
        """One entry for each piece; None: it was left out."""
        self._found: dict[int, T] = {}

    def work(self) -> None:
        """Do pieces until none is left, or one has failed; that is told to whoever asks for the results."""
        while (number := self._next()) is not None:
            try:
                self._told.put(_Done(number, self._do(number)))
            except BaseException as error:  # noqa: BLE001 - raised by stop()
                self._told.put(_Failed(error))
                self._leave_out()

    def results(self) -> list[T]:
        """Take part in the work, and return what came of each piece, by number.

        A thread that has not begun by then is not waited for.

        Raises:
            BaseException: What a piece has raised; no piece is begun or done any more then.
        """
        self.work()
        self.stop()
        return [self._found[number] for number in range(len(self._found))]

    def stop(self) -> None:
        """Begin no more pieces, and wait for those that were begun; a second call does nothing.

        Raises:
            BaseException: What a piece has raised.
        """
        self._leave_out()
        failed: list[BaseException] = []
        while self._out:
            told = self._told.get()
            self._out -= 1
            if isinstance(told, _Done):
                self._found[told.number] = told.result
            elif told is not None:
                failed.append(told.error)
        if failed:
            raise failed[0]

    def _next(self) -> int | None:
        try:
            return self._left.popleft()
        except IndexError:  # none is left, or another thread took the last one
            return None

    def _leave_out(self) -> None:
        while self._next() is not None:
            self._told.put(None)
