"""What a server counts by itself, beside its answers: requests that are being answered, and prompt tokens forwarded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.adapters.server_dialects import Dialect
from harness.adapters.server_http import Client
from harness.errors import EngineError

SLOTS: Final = "slots"
METRICS: Final = "metrics"
CLIENT: Final = "client"
"""Nothing is told: requests count as in flight by what comes back of them here."""
_TRIES: Final = 5
_WAIT_S: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """Reads the counters that a server has."""

    client: Client
    dialect: Dialect
    by: str
    """Where requests in flight are told: ``slots``, ``metrics`` or ``client``."""
    slots: int
    """How many it tells of; 0: it does not tell."""
    counts: bool
    """Whether forwarded prompt tokens are counted, of this caller's requests alone."""

    def busy(self) -> frozenset[str] | int | None:
        """Return the requests that are being answered: their tasks, or how many they are; None: it is not told.

        Raises:
            EngineError: As :meth:`Client.get`.
        """
        if self.by == SLOTS:
            rows = [row for row in self.client.get_list("/slots") if isinstance(row, Mapping)]
            return frozenset(str(row.get("id_task")) for row in rows if row.get("is_processing") is True)
        return self._counter(self.dialect.busy) if self.by == METRICS else None

    def forwarded(self) -> int | None:
        """Return the prompt tokens forwarded so far; None: they are not told.

        Raises:
            EngineError: As :meth:`Client.get`.
        """
        return self._counter(self.dialect.forwarded) if self.counts else None

    def since(self, before: int | None, expected: int | None) -> int | None:
        """Return the prompt tokens forwarded since; None: they are not told.

        Args:
            before: What :meth:`forwarded` was.
            expected: What the answer said: a counter that lags behind it is read again, a few times.
        """
        found: int | None = None
        for attempt in range(_TRIES):
            now = self.forwarded()
            if before is None or now is None:
                return None
            found = now - before
            if expected is None or found == expected:
                break
            time.sleep(_WAIT_S * attempt)
        return found

    def _counter(self, name: str) -> int | None:
        return _value(self.client.get_text("/metrics"), name)


def watch_of(client: Client, dialect: Dialect, *, alone: bool) -> Watch:
    """Find out what a server tells.

    Args:
        client: Of the server.
        dialect: Of the server.
        alone: Nobody else asks it for anything, so its sums are of this caller's requests.
    """
    slots = _slots(client) if dialect.slots else 0
    metric = bool(dialect.busy) and _metric(client, dialect.busy) is not None
    return Watch(
        client=client,
        dialect=dialect,
        by=SLOTS if slots else METRICS if metric else CLIENT,
        slots=slots,
        counts=alone and bool(dialect.forwarded) and _metric(client, dialect.forwarded) is not None,
    )


def _slots(client: Client) -> int:
    """Return how many slots a server tells of, with what each is doing; 0: it does not."""
    try:
        rows = client.get_list("/slots")
    except EngineError:
        return 0
    return len(rows) if all(isinstance(row, Mapping) and "is_processing" in row for row in rows) else 0


def _metric(client: Client, name: str) -> int | None:
    try:
        return _value(client.get_text("/metrics"), name)
    except EngineError:
        return None


def _value(text: str, name: str) -> int | None:
    """Return the sum of a metric over its labels, as a whole number; None: it is not there."""
    found: list[float] = []
    for line in text.splitlines():
        key, _, value = line.rpartition(" ")
        if key == name or key.startswith(f"{name}{{"):
            try:
                found.append(float(value))
            except ValueError:
                return None
    return round(sum(found)) if found else None
