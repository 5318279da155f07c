"""What is done to certificates after they were issued: one function per kind of event.

The order on disk is: what events speak of, then the event, then the generated members. Where one act takes several
events, the one that it is named after is written last. So a stop at any point leaves either nothing new, or a folder
that a gate refuses and that the same call, made again, completes.

The time that a caller gives is the least: an event that answers another must not share its second, or come before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.certifying.events import (
    event_time,
    make_event,
    require_sound,
    second_after,
    supersede_event,
    time_after,
    write_event,
    write_once,
)
from harness.certifying.regenerating import read_bodies, regenerate, regenerate_all
from harness.certifying.store import Store
from harness.deriving.changes import covers, is_stop, same_place
from harness.deriving.fields import text_at
from harness.deriving.status import ANNOTATE, REINSTATE, WAIVE, WITHDRAW, last_successor, open_events
from harness.errors import InvalidDocumentError, UsageError
from harness.model.certificate import Certificate, Event, Status
from harness.model.values import CertificateState, ReasonCode, Sha256
from harness.wire import privacy

__all__ = [
    "annotate",
    "event_time",
    "regenerate",
    "regenerate_all",
    "reinstate",
    "require_sound",
    "supersede",
    "supersede_event",
    "waive",
    "withdraw",
    "write_event",
    "write_once",
]

_RULE: Final = re.compile(r"CG[0-9]{3}")
_NOTE: Final = re.compile(r"[ -~]{1,200}")


def supersede(folder: Path, old: str, new: str, reason: ReasonCode, created: str, *, mend: bool = False) -> list[Path]:
    """Let one certificate replace another by hand; runs on one machine do it by themselves.

    Args:
        folder: The certificates folder.
        old: Id of the one that is replaced.
        new: Id of its successor.
        reason: Why.
        created: Least time of the event, RFC 3339 UTC.
        mend: Put aside what the ledger says of ``old`` so far, by a reinstate event: after a merge of contradictions.

    Returns:
        What was written.

    Raises:
        UsageError: There is no such certificate.
        InvalidDocumentError: An invariant of the ledger would be broken; the message names both ids.
        StorageError: The disk refuses.
    """
    store = read_bodies(folder)
    first, second = _known(store, old), _known(store, new)
    _require_force(second)
    aside, at = _put_aside(store, first, time_after(store, (first.id, second.id), created), mend=mend)
    if not aside:
        _require_not_superseded(first)
    return _record(store, first, [*aside, supersede_event(first, second, at, reason)])


def withdraw(folder: Path, certificate: str, reason: ReasonCode, created: str, *, mend: bool = False) -> list[Path]:
    """Take a certificate back: it supports no claim any more. A stop that it had replaced holds again.

    Args:
        folder: The certificates folder.
        certificate: Its id.
        reason: Why.
        created: Least time of the event, RFC 3339 UTC.
        mend: Put aside what the ledger says of it so far, by a reinstate event: also a superseded record is then
            withdrawn.

    Returns:
        What was written.

    Raises:
        UsageError: There is no such certificate.
        InvalidDocumentError: It is withdrawn or superseded already, or the folder cannot be trusted.
        StorageError: The disk refuses.
    """
    store = read_bodies(folder)
    found = _known(store, certificate)
    aside, at = _put_aside(store, found, time_after(store, (found.id,), created), mend=mend)
    uncovered = [event for stop in _stops_behind(store, found) for event in _uncover(store, stop, found, reason, at)]
    return _record(store, found, [*uncovered, *aside, make_event(WITHDRAW, found.id, reason, at)])


def reinstate(folder: Path, certificate: str, reason: ReasonCode, created: str) -> list[Path]:
    """Make a superseded or withdrawn certificate current again; an older current one gives way to it.

    Returns:
        What was written.

    Raises:
        UsageError: There is no such certificate.
        InvalidDocumentError: It is current, a newer one is current for its claim key and machine, or the folder
            cannot be trusted.
        StorageError: The disk refuses.
    """
    store = read_bodies(folder)
    found = _known(store, certificate)
    older = [one for one in _rivals(store, found) if _made(one) < _made(found)]
    at = time_after(store, (found.id, *(one.id for one in older)), created)
    giving_way = [supersede_event(one, found, at, reason) for one in older if _holds(one)]
    return _record(store, found, [*giving_way, make_event(REINSTATE, found.id, reason, at)])


def waive(folder: Path, certificate: str, rule: str, reason: ReasonCode, created: str, until: str = "") -> list[Path]:
    """Record that a finding of one gate rule on one certificate is accepted; whether it counts is the policy's matter.

    Args:
        folder: The certificates folder.
        certificate: Its id.
        rule: The gate rule, like ``CG601``.
        reason: Why.
        created: Least time of the event, RFC 3339 UTC.
        until: Last day on which it holds, like ``2026-12-31``; empty: no end.

    Returns:
        What was written.

    Raises:
        UsageError: There is no such certificate, the rule is no rule id, the day does not exist, or it is over.
        InvalidDocumentError: The folder cannot be trusted.
        StorageError: The disk refuses.
    """
    if _RULE.fullmatch(rule) is None:
        raise UsageError(f"found the rule {rule[:20]!r}; wanted is one like CG601 (`statecert gate --list-rules`)")
    if until:
        _require_day(until, created)
    store = read_bodies(folder)
    found = _known(store, certificate)
    return _record(store, found, [make_event(WAIVE, found.id, reason, created, rule=rule, until=until)])


def annotate(folder: Path, certificate: str, reason: ReasonCode, created: str, note: str = "") -> list[Path]:
    """Put a note beside a certificate; changes nothing of what it supports.

    Args:
        folder: The certificates folder.
        certificate: Its id.
        reason: What the note is about.
        created: Least time of the event, RFC 3339 UTC.
        note: At most 200 printable ASCII characters on one line, naming nobody and no machine.

    Returns:
        What was written.

    Raises:
        UsageError: There is no such certificate, or the note is too long, not plain, or holds something private.
        InvalidDocumentError: The folder cannot be trusted.
        StorageError: The disk refuses.
    """
    if note and _NOTE.fullmatch(note) is None:
        raise UsageError("a note is one line of at most 200 printable ASCII characters")
    private = privacy.text_kind(note)
    if private:
        raise UsageError(f"the note holds something private ({private}); say it without")
    store = read_bodies(folder)
    found = _known(store, certificate)
    return _record(store, found, [make_event(ANNOTATE, found.id, reason, created, note=note)])


def _known(store: Store, certificate: str) -> Certificate:
    found = store.certificates.get(Sha256(certificate))
    if found is None:
        raise UsageError(f"no certificate {certificate[:64]!r} in this folder; an id has 64 hex digits")
    return found


def _record(store: Store, about: Certificate, events: Sequence[Event]) -> list[Path]:
    """Check events together, write them in their order, then everything that follows from them."""
    require_sound(store, events=events)
    written = [write_event(store.folder, event) for event in events]
    return [*written, *regenerate(store.folder, str(about.body["claim_key"]))]


def _put_aside(store: Store, one: Certificate, created: str, *, mend: bool) -> tuple[Sequence[Event], str]:
    """Return the reinstate event that mending takes, if any, and the time of what comes after it."""
    if not mend or not open_events(one.id, store.events):
        return (), created
    return (make_event(REINSTATE, one.id, ReasonCode.RECORD_ERROR, created),), second_after(created)


def _require_force(successor: Certificate) -> None:
    if successor.status.state is CertificateState.WITHDRAWN:
        message = f"successor_withdrawn: {successor.id} was withdrawn and can replace nothing; reinstate it first"
        raise InvalidDocumentError(f"{message}; the event is not written", where="ledger")


def _require_not_superseded(one: Certificate) -> None:
    if one.status.state is CertificateState.SUPERSEDED:
        message = f"two_successors: {one.id} was superseded by {one.status.superseded_by} already"
        raise InvalidDocumentError(f"{message}; the event is not written", where="ledger")


def _stops_behind(store: Store, one: Certificate) -> Sequence[Certificate]:
    """Return the stops that a certificate replaced, directly or through others, and that it alone keeps answered."""
    statuses = {str(other.id): other.status for other in store.certificates.values()}
    return [
        other
        for other in store.certificates.values()
        if other.id != one.id
        and other.status.superseded_by
        and is_stop(other.body)
        and _leads_through(other, one, statuses)
    ]


def _leads_through(stop: Certificate, one: Certificate, statuses: Mapping[str, Status]) -> bool:
    """Tell whether the successions of a stop end at a certificate, or at it once it is withdrawn."""
    if last_successor(stop.id, statuses) == one.id:
        return True
    return last_successor(stop.id, {**statuses, str(one.id): Status(state=CertificateState.CURRENT)}) == one.id


def _uncover(store: Store, stop: Certificate, gone: Certificate, reason: ReasonCode, at: str) -> Sequence[Event]:
    """Let a stop hold again, or be replaced by what holds now instead of what is taken back."""
    back = make_event(REINSTATE, stop.id, reason, at)
    rivals = [one for one in _rivals(store, stop) if _holds(one) and one.id != gone.id]
    others = [one for one in rivals if covers(stop.body, one.body)]
    return (back, *(supersede_event(stop, one, second_after(at), reason) for one in others[:1]))


def _rivals(store: Store, one: Certificate) -> Sequence[Certificate]:
    return [other for other in store.certificates.values() if other.id != one.id and same_place(other.body, one.body)]


def _holds(one: Certificate) -> bool:
    return one.status.state is CertificateState.CURRENT


def _made(one: Certificate) -> str:
    return text_at(one.body, "run", "created")


def _require_day(until: str, created: str) -> None:
    try:
        day = datetime.strptime(until, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"found the day {until[:20]!r}; wanted is one like 2026-12-31") from None
    if f"{day:%Y-%m-%d}" != until or until < created[:10]:
        raise UsageError(f"a waiver until {until[:20]} is over before it begins, or is no day like 2026-12-31")
