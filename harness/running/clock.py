"""Time, passed in, so that a test can set it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where a run takes its times from."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that only grow; their zero means nothing."""
        ...

    def utc(self) -> str:
        """Wall time, RFC 3339 UTC with ``Z``, whole seconds."""
        ...


class RealClock:
    """The clock of this machine."""

    def monotonic_ns(self) -> int:
        """See :class:`Clock`."""
        return time.monotonic_ns()

    def utc(self) -> str:
        """See :class:`Clock`."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
