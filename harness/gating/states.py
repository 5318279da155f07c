"""The state of a certificate from its own events, folded by the gate's own few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.model.certificate import Event

_AFTER: Final = {"supersede": "superseded", "withdraw": "withdrawn", "reinstate": "current"}


def state_of(events: Sequence[Event]) -> dict[str, Any]:
    """Return the status member that events make, oldest first; empty fields are left out."""
    status: dict[str, Any] = {"state": "current", "events": [event.id for event in events]}
    for event in events:
        if event.kind not in _AFTER:
            continue
        status = {
            "state": _AFTER[event.kind],
            "events": status["events"],
            "since": event.created,
            "reason_code": str(event.reason_code),
        }
        if event.by:
            status["superseded_by"] = event.by
    return status
