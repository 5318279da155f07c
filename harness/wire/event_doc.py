"""Ledger events: one file each, in the one rendering of its value; the id is the digest of its canonical bytes."""

from __future__ import annotations

from typing import Any, Final

from harness.errors import InvalidDocumentError
from harness.model.certificate import Event
from harness.model.values import ReasonCode, Sha256
from harness.wire import canonical, schemas, strict

SCHEMA: Final = "event.v1"
_OPTIONAL: Final = ("by", "rule", "until", "note")
"""Left out where they are empty."""


def event_to_mapping(event: Event) -> dict[str, object]:
    """Return an event as it stands in its file; its id is not part of it."""
    found: dict[str, object] = {
        "schema": "statecert/event/v1",
        "kind": event.kind,
        "target": event.target,
        "reason_code": str(event.reason_code),
        "created": event.created,
        "differs": list(event.differs),
        "dropped_cells": list(event.dropped_cells),
    }
    for name in _OPTIONAL:
        if value := getattr(event, name):
            found[name] = value
    return found


def event_id(event: Event) -> Sha256:
    """Return the id that an event must have."""
    return Sha256(canonical.digest(event_to_mapping(event)))


def event_from_mapping(value: object, where: str) -> Event:
    """Return the event of a value that was read from a file.

    Raises:
        InvalidDocumentError: It does not fit its schema.
    """
    schemas.validate(value, SCHEMA, where)
    if not isinstance(value, dict):
        raise InvalidDocumentError("found no object; allowed is one", where=where)
    fields: dict[str, Any] = value
    return Event(
        id=Sha256(canonical.digest(fields)),
        kind=fields["kind"],
        target=Sha256(fields["target"]),
        reason_code=ReasonCode(fields["reason_code"]),
        created=fields["created"],
        differs=tuple(fields["differs"]),
        dropped_cells=tuple(fields["dropped_cells"]),
        **{name: fields.get(name, "") for name in _OPTIONAL},
    )


def parse_event(data: bytes, where: str) -> Event:
    """Return the event of a file.

    Raises:
        InvalidDocumentError: It is not strict JSON, not the one rendering of its value, or does not fit its schema.
    """
    return event_from_mapping(strict.loads(data, where=where, form="rendered"), where)


def format_event(event: Event) -> bytes:
    """Return the bytes of an event file, after reading them back.

    Raises:
        InvalidDocumentError: The event does not fit its schema, or its id is not that of its fields.
    """
    data = canonical.render(event_to_mapping(event))
    if parse_event(data, "event to be written") != event:
        raise InvalidDocumentError("the event reads back as another one; its id must fit", where="event to be written")
    return data
