"""Ledger events: made, checked against all that is there, written once; and what is generated from them.

The order on disk is: what events speak of, then the event, then the generated members. A stop at any point leaves
either nothing new, or a folder that a gate refuses and that the same call, made again, completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.certifying.readme import readme
from harness.certifying.store import README, Store, certificate_path, event_path, read_store
from harness.deriving.changes import differs, dropped_cells, reason_code
from harness.deriving.status import REINSTATE, SUPERSEDE, WITHDRAW, derive_status, ledger_problems
from harness.errors import InvalidDocumentError, StorageError, UsageError
from harness.model.certificate import Certificate, Event
from harness.model.values import ReasonCode, Sha256
from harness.wire import files
from harness.wire.certificate_doc import format_certificate
from harness.wire.event_doc import event_id, format_event


def supersede_event(old: Certificate, new: Certificate, created: str) -> Event:
    """Return the event by which a certificate replaces its predecessor; why is computed from what differs."""
    changed = differs(old.body, new.body)
    return _with_id(
        Event(
            id=Sha256(""),
            kind=SUPERSEDE,
            target=old.id,
            by=new.id,
            reason_code=reason_code(changed),
            created=created,
            differs=changed,
            dropped_cells=dropped_cells(old.body, new.body),
        )
    )


def withdraw(folder: Path, certificate: str, reason: ReasonCode, created: str) -> list[Path]:
    """Take a certificate back: it supports no claim any more. Returns what was written.

    Raises:
        UsageError: There is no such certificate.
        InvalidDocumentError: It is withdrawn already, or the folder cannot be trusted.
        StorageError: The disk refuses.
    """
    return _record(folder, WITHDRAW, certificate, reason, created)


def reinstate(folder: Path, certificate: str, reason: ReasonCode, created: str) -> list[Path]:
    """Make a superseded or withdrawn certificate current again. Returns what was written.

    Raises:
        UsageError: There is no such certificate.
        InvalidDocumentError: It is current, another one is current for its claim key and machine, or the folder
            cannot be trusted.
        StorageError: The disk refuses.
    """
    return _record(folder, REINSTATE, certificate, reason, created)


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
        raise InvalidDocumentError(f"{fresh[0].code}: {fresh[0].message}", where=f"ledger event {fresh[0].id[:12]}")


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


def regenerate(folder: Path, claim_key: str) -> list[Path]:
    """Write the status members and the README of one claim key anew, where they differ. Returns what was written.

    Raises:
        InvalidDocumentError: The folder cannot be trusted.
        StorageError: The disk refuses.
    """
    store = read_store(folder)
    certificates = store.of_claim(claim_key)
    written = []
    for certificate in certificates:
        now = replace(certificate, status=derive_status(certificate.id, store.events))
        path = folder / certificate_path(certificate)
        if now.status != certificate.status:
            files.replace(path, format_certificate(now))
            written.append(path)
    page = folder / claim_key / README
    content = readme(claim_key, certificates, store.events)
    if not page.is_file() or files.read(page, max_bytes=len(content)) != content:
        files.replace(page, content)
        written.append(page)
    return written


def _record(folder: Path, kind: str, certificate: str, reason: ReasonCode, created: str) -> list[Path]:
    store = read_store(folder)
    found = store.certificates.get(Sha256(certificate))
    if found is None:
        raise UsageError(f"no certificate {certificate[:64]!r} in this folder; an id has 64 hex digits")
    event = _with_id(Event(id=Sha256(""), kind=kind, target=found.id, reason_code=reason, created=created))
    require_sound(store, events=(event,))
    path = write_event(folder, event)
    return [path, *regenerate(folder, str(found.body["claim_key"]))]


def _with_id(event: Event) -> Event:
    return replace(event, id=event_id(event))
