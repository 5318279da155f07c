"""Single ledger events: made with their id, timed, checked against all that is there, written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from harness.certifying.store import Store, event_path
from harness.deriving.changes import differs, dropped_cells, reason_code
from harness.deriving.status import SUPERSEDE, ledger_problems
from harness.errors import InvalidDocumentError, StorageError, UsageError
from harness.model.certificate import Certificate, Event
from harness.model.values import ReasonCode, Sha256
from harness.wire import files
from harness.wire.event_doc import event_id, format_event

_CLOCK_AHEAD: Final = timedelta(minutes=10)
"""How far beyond now the last event may lie before a clock must be wrong."""


def supersede_event(old: Certificate, new: Certificate, created: str, reason: ReasonCode | None = None) -> Event:
    """Return the event by which a certificate replaces its predecessor.

    Args:
        old: The predecessor.
        new: The successor.
        created: Time of the event.
        reason: Why; computed from what differs, if not given. What differs is always computed.
    """
    changed = differs(old.body, new.body)
    return make_event(
        SUPERSEDE,
        old.id,
        reason or reason_code(changed),
        created,
        by=new.id,
        differs=changed,
        dropped_cells=dropped_cells(old.body, new.body),
    )


def event_time(store: Store, certificates: Iterable[str], now: str) -> str:
    """Return the time for a new event about certificates: now, or the first second after what is said of them.

    Raises:
        UsageError: An event lies far in the future: a clock is wrong, here or where it was made.
    """
    found = time_after(store, certificates, now)
    if _moment(found) - _moment(now) > _CLOCK_AHEAD:
        raise UsageError(f"the last ledger event was made just before {found}, which is to come; look at the clocks")
    return found


def time_after(store: Store, certificates: Iterable[str], least: str) -> str:
    """Return the time for a new event about certificates: the least, or the first second after what is said of them.

    Events are read in the order of their times, so one that answers another must not share its second.
    """
    named = set(certificates)
    latest = max((one.created for one in store.events if one.target in named or one.by in named), default="")
    return least if not latest or least > second_after(latest, 0) else second_after(latest)


def require_sound(store: Store, new: Sequence[Certificate] = (), events: Sequence[Event] = ()) -> None:
    """Do nothing if the ledger would hold with additions; what was wrong before is not blamed on them.

    Raises:
        InvalidDocumentError: An invariant would be broken.
    """
    before = {(one.code, one.id) for one in ledger_problems(store.bodies(), store.events)}
    bodies = {**store.bodies(), **{one.id: one.body for one in new}}
    after = ledger_problems(bodies, (*store.events, *events))
    fresh = [one for one in after if (one.code, one.id) not in before]
    if fresh:
        message = f"{fresh[0].code}: {fresh[0].message}; the event is not written"
        raise InvalidDocumentError(message, where=f"ledger event {fresh[0].id[:12]}")


def write_event(folder: Path, event: Event) -> Path:
    """Write an event, once; one that is there already with the same content is left alone.

    Raises:
        StorageError: The disk refuses.
    """
    return write_once(folder / event_path(event), format_event(event))


def write_once(path: Path, data: bytes) -> Path:
    """Write a file under a name that follows from its content; the same file may be there already.

    Raises:
        StorageError: The disk refuses, or another content lies under the name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        files.write_new(path, data)
    elif files.read(path, max_bytes=len(data)) != data:
        raise StorageError(f"{path.name}: another content lies under this name; nothing was changed")
    return path


def make_event(kind: str, target: str, reason: ReasonCode, created: str, **fields: Any) -> Event:
    """Return an event with the id that it must have; ``fields`` are those of its kind."""
    event = Event(id=Sha256(""), kind=kind, target=Sha256(target), reason_code=reason, created=created, **fields)
    return replace(event, id=event_id(event))


def _moment(created: str) -> datetime:
    """Return a time of a document, whole seconds."""
    return datetime.strptime(created[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)


def second_after(created: str, seconds: int = 1) -> str:
    """Return a time that much later, in whole seconds."""
    return f"{_moment(created) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
