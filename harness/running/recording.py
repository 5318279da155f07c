"""Where observations go: into the evidence file, and to whoever shows the run.

What is made of an observation, a line that fits its schema and holds nothing private, takes as long as a small session
takes to answer. So it is written while the child works on what it was asked next, in the order in which it was made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self

from harness.errors import StatecertError
from harness.model.evidence import Observation
from harness.running.clock import Clock
from harness.stopping import held_back

Progress = Callable[[Observation], None]
"""Is told every observation, after it was written."""


class Writer(Protocol):
    """Takes the observations of one run; :class:`harness.wire.evidence_doc.EvidenceWriter` is one."""

    def write(self, observation: Observation) -> None:
        """Append one observation."""
        ...

    def close(self, *, finished: str, elapsed_ns: int, interrupted: bool = False) -> object:
        """Append the end record and make the file durable."""
        ...

    def abandon(self) -> None:
        """Let go of the file without an end record."""
        ...


class Recorder:
    """Writes observations and tells the time since the run began.

    Args:
        writer: The evidence file.
        clock: Where times come from.
        progress: Is told what was written; None: nobody is.
    """

    def __init__(self, writer: Writer, clock: Clock, progress: Progress | None = None) -> None:
        self._writer = writer
        self._clock = clock
        self._progress = progress
        self._began = clock.monotonic_ns()
        self._waiting: deque[Observation] = deque()

    @classmethod
    def like(cls, other: Recorder) -> Self:
        """Return a recorder of this class on the file, and with the time, of another."""
        made = cls(other._writer, other._clock, other._progress)
        made._began, made._waiting = other._began, other._waiting
        return made

    def now(self) -> int:
        """Nanoseconds since the run began, at least 1."""
        return max(1, self._clock.monotonic_ns() - self._began)

    def write(self, observation: Observation) -> None:
        """Take an observation; it is in the file, and shown, after the next :meth:`flush`."""
        self._waiting.append(observation)

    def flush(self) -> None:
        """Write what was taken, and show it. Ctrl-C waits until all of it is written: none of it may be lost.

        Raises:
            StatecertError: Something cannot be written; nothing that was taken after it is.
        """
        if not self._waiting:
            return
        with held_back() as came:
            self._write_all()
        if came:
            raise KeyboardInterrupt

    def _write_all(self) -> None:
        try:
            while self._waiting:
                observation = self._waiting.popleft()
                self._writer.write(observation)
                if self._progress is not None:
                    self._progress(observation)
        except Exception:
            self._waiting.clear()
            raise

    def close(self, *, interrupted: bool) -> None:
        """Write what was taken, and the end record."""
        self.flush()
        self._writer.close(finished=self._clock.utc(), elapsed_ns=self.now(), interrupted=interrupted)

    def abandon(self) -> None:
        """Write what was taken, as far as it can be, and let go of the file: it counts as cut off."""
        with suppress(StatecertError):
            self.flush()
        self._writer.abandon()
