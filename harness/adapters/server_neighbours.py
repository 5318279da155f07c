"""Requests that are in flight while another one is made, shown to be by what comes back of them.

A neighbour streams an answer long enough to outlast the request that it stands beside. Before that request is sent,
each neighbour has begun to be answered; when its answer is there, none has come to its end. What cannot show that is an
error, since nothing was tried.
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


@contextmanager
def in_flight(stream: Stream, prompt: Sequence[int], count: int, *, patience_s: float) -> Iterator[None]:
    """Hold neighbours of a prompt in flight around what is done inside.

    Raises:
        EngineError: ``NotBeside``: a neighbour did not begin, or had ended when what was done inside had.
    """
    neighbours = [Neighbour(stream, one) for one in prompts_beside(prompt, count)]
    try:
        for one in neighbours:
            if not one.began.wait(patience_s) or one.ended.is_set():
                raise EngineError(f"NotBeside: a neighbour was not in flight: {one.why or 'it had ended'}")
        yield
        gone = sum(one.ended.is_set() for one in neighbours)
        if gone:
            raise EngineError(f"NotBeside: {gone} of {count} neighbours had ended before the answer was there")
    finally:
        for one in neighbours:
            one.leave()
