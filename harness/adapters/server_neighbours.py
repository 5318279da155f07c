"""Requests that are in flight while another one is made, shown to be by what comes back of them.

A neighbour streams an answer long enough to outlast the request that it stands beside. Before that request is sent,
each neighbour has begun to be answered; when its answer is there, none has come to its end. Where the server tells what
it is answering, it must say the same at both times: by its slots the very same tasks, by its metrics as many. What
cannot show that is an error, since nothing was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from harness.errors import EngineError

WORDS: Final = 256
"""Tokens that a neighbour asks for."""
_CHANGED: Final = 8
"""Last tokens of the prompt that are other ones in a neighbour's."""
Stream = Callable[[Sequence[int], int], Iterator[object]]
"""Begins a request for so many tokens after a prompt; yields its events as they come."""


class Neighbour:
    """One request in a thread of its own.

    Args:
        stream: Makes the request.
        prompt: Its prompt.
    """

    def __init__(self, stream: Stream, prompt: Sequence[int]) -> None:
        self.began, self.ended = Event(), Event()
        self.why = ""
        self._leave = Event()
        self._thread = Thread(target=self._run, args=(stream, prompt), daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Break the request off, and wait until it is."""
        self._leave.set()
        self._thread.join()

    def _run(self, stream: Stream, prompt: Sequence[int]) -> None:
        try:
            events = stream(prompt, WORDS)
            for _ in events:
                self.began.set()
                if self._leave.is_set():
                    break
        except EngineError as error:
            self.why = str(error)
        finally:
            self.ended.set()
            self.began.set()


def prompts_beside(prompt: Sequence[int], count: int) -> Sequence[Sequence[int]]:
    """Return prompts that begin with the same words and end with others, each with its own.

    Args:
        prompt: Token ids, at least one.
        count: How many.
    """
    kept = max(0, len(prompt) - _CHANGED)
    return [
        [*prompt[:kept], *(8 + (one + 17 * number) % 400 for one in prompt[kept:])] for number in range(1, count + 1)
    ]


Busy = frozenset[str] | int | None
"""What a server says it is answering: tasks, or how many requests; None: it does not say."""


@contextmanager
def in_flight(
    stream: Stream, prompt: Sequence[int], count: int, *, patience_s: float, busy: Callable[[], Busy]
) -> Iterator[None]:
    """Hold neighbours of a prompt in flight around what is done inside.

    Args:
        stream: Makes the request of a neighbour.
        prompt: Of what is done inside.
        count: Of neighbours.
        patience_s: Until each must have begun.
        busy: Asks the server what it is answering.

    Raises:
        EngineError: ``NotBeside``: a neighbour did not begin, or had ended when what was done inside had, by what came
            back of it or by what the server says.
    """
    neighbours = [Neighbour(stream, one) for one in prompts_beside(prompt, count)]
    try:
        for one in neighbours:
            if not one.began.wait(patience_s) or one.ended.is_set():
                raise EngineError(f"NotBeside: a neighbour was not in flight: {one.why or 'it had ended'}")
        before = busy()
        if before is not None and _number(before) < count:
            raise EngineError(f"NotBeside: the server is answering {_number(before)} of {count} neighbours")
        yield
        left = _left(before, busy())
        if left is not None and left < count:
            raise EngineError(f"NotBeside: the server is still answering {left} of {count} neighbours")
        gone = sum(one.ended.is_set() for one in neighbours)
        if gone:
            raise EngineError(f"NotBeside: {gone} of {count} neighbours had ended before the answer was there")
    finally:
        for one in neighbours:
            one.leave()


def _number(busy: frozenset[str] | int) -> int:
    return busy if isinstance(busy, int) else len(busy)


def _left(before: Busy, after: Busy) -> int | None:
    """Return how many of the requests that were being answered still are; None: it is not told."""
    if isinstance(before, frozenset) and isinstance(after, frozenset):
        return len(before & after)
    return after if isinstance(after, int) else None
