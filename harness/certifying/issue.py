"""From closed evidence to a certificate in the store, or to a draft that claims nothing.

Everything is derived and checked first; then, in this order, each step whole or absent:

1. the evidence file, under its digest;
2. the certificate;
3. the event by which it supersedes its predecessor (the current certificate of the same claim key and machine);
4. the generated members: status of its neighbours, README.

Made again with the same evidence, a call completes what an earlier one began and changes nothing else. Another
machine's certificate corroborates: no event.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from harness.certifying.events import time_after
from harness.certifying.ledger import regenerate, require_sound, supersede_event, write_event, write_once
from harness.certifying.store import (
    ATTRIBUTES,
    Store,
    certificate_path,
    event_path,
    evidence_path,
    holds_evidence,
    read_store,
    record_path,
)
from harness.deriving.bodies import body_of
from harness.deriving.changes import not_run_again, same_place
from harness.deriving.fields import text_at, value_at
from harness.deriving.foreign import FOREIGN, text_of
from harness.deriving.ids import certificate_id
from harness.deriving.judge import plan_of
from harness.deriving.status import derive_status
from harness.errors import InvalidDocumentError, StorageError
from harness.model.campaign import CampaignRecords
from harness.model.certificate import Certificate, Event, Status
from harness.model.evidence import CellEvent, Evidence
from harness.model.moments import untrue
from harness.model.target import FORKED
from harness.model.values import CertificateState, TreeState
from harness.wire import canonical, files, privacy
from harness.wire.certificate_doc import format_certificate, require_body
from harness.wire.observed import read_observed

DOES_NOT_COVER: Final = "does_not_cover_the_stop"
"""Why a run is a draft that would replace a stop without the cells that failed in it."""
CLOCK_WAS_SET: Final = "clock_was_set"
"""Why a run is a draft whose times cannot be true together: the clock of the day was set while it lasted."""
NOT_NEWER: Final = "not_newer_than_the_current"
"""Why a run is a draft in whose place another was certified that began no earlier: one that ran beside it."""

_NO_TEXT: Final = b"* -text\n"
"""Git leaves the bytes of everything in the folder alone."""
_MUTANTS: Final = "harness.mutants"
_Observed = Evidence | CampaignRecords


class Candidate:
    """A closed file of observations on its way into a folder: read once, and its body derived once.

    Args:
        data: Its bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def observed(self) -> _Observed:
        """What the bytes say.

        Raises:
            InvalidDocumentError: They are no evidence.
        """
        return read_observed(self.data, "evidence")

    @cached_property
    def body(self) -> dict[str, object]:
        """The body that follows; not to be changed.

        Raises:
            InvalidDocumentError: As ``observed``; or the observations contradict themselves.
        """
        return body_of(self.observed)

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate that the body makes.

        Raises:
            InvalidDocumentError: As ``body``; or it fits no schema, or holds something private.
        """
        require_body(self.body, "certificate")
        private = privacy.findings(self.body)
        if private:
            raise InvalidDocumentError(f"private: {'; '.join(private[:5])}", where="certificate")
        return Certificate(id=certificate_id(self.body), body=self.body, status=Status(state=CertificateState.CURRENT))


def _candidate(given: bytes | Candidate) -> Candidate:
    return given if isinstance(given, Candidate) else Candidate(given)


def why_draft(data: bytes | Candidate, folder: Path | None = None) -> str:
    """Return why evidence can only become a draft; empty: it can be certified.

    Args:
        data: Bytes of a file of observations, or the candidate made of them.
        folder: The certificates folder that it would go into: what is current there may be newer, and a stop in it
            asks for certain cells.

    Raises:
        InvalidDocumentError: The bytes are no evidence, or the folder cannot be trusted.
    """
    found = _candidate(data)
    reason = _why_no_certificate(found)
    if reason or folder is None:
        return reason
    certificate = found.certificate
    store = read_store(folder)
    rivals = _replaced(store, certificate)
    if any(_made(old.body) >= _made(certificate.body) for old in rivals):
        return NOT_NEWER
    return DOES_NOT_COVER if any(not_run_again(old.body, certificate.body) for old in rivals) else ""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no other process that asks for the same file into a folder meanwhile; wait until none does.

    Where the system knows no such locks, or the folder refuses one, nothing is held: what is filed is checked against
    the folder all the same, a moment before.

    Raises:
        StorageError: The folder cannot be made.
    """
    _made_folder(folder)
    with ExitStack() as held:
        with suppress(ImportError, OSError):
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def issue(data: bytes | Candidate, folder: Path, now: str = "") -> list[Path]:
    """File evidence as a certificate; return what was written, nothing if all of it was there.

    Args:
        data: Bytes of a closed file of observations, of a run or of a campaign, or the candidate made of them.
        folder: The certificates folder.
        now: Time of a ledger event, RFC 3339 UTC; the end of the run, if not given.

    Raises:
        InvalidDocumentError: The evidence was cut off, interrupted, partial, contradicts itself, is of a dirty tree or
            a mutant, holds something private, or is older than the current certificate; or the folder cannot be
            trusted. Nothing was written.
        StorageError: The disk refuses; the same call completes what is missing.
    """
    found = _candidate(data)
    reason = _why_no_certificate(found)
    if reason:
        raise InvalidDocumentError(f"cannot be certified: {reason}", where="evidence")
    certificate = found.certificate
    store = read_store(folder)
    _require_new_run(store, certificate)
    created = now or text_at(certificate.body, "run", "finished")
    events = _events(store, certificate, created)
    require_sound(store, [certificate], events)
    kept = {**_records(found.observed), evidence_path(hashlib.sha256(found.data).hexdigest()): found.data}
    return _write(folder, kept, certificate, events)


def _records(observed: _Observed) -> Mapping[PurePosixPath, bytes]:
    """Return the published record that an import holds, under its digest."""
    if not isinstance(observed, CampaignRecords) or observed.name != FOREIGN:
        return {}
    text = text_of(observed)
    return {record_path(hashlib.sha256(text).hexdigest()): text}


def draft(data: bytes | Candidate, folder: Path, why: str = "") -> list[Path]:
    """Write what would follow from evidence, as a file that no reader takes for a certificate.

    Args:
        data: Bytes of a closed file of observations, or the candidate made of them.
        folder: Where drafts go.
        why: The reason, if it lies outside the evidence.

    Raises:
        InvalidDocumentError: The evidence was cut off or contradicts itself.
        StorageError: The disk refuses.
    """
    found = _candidate(data)
    body = found.body
    about = text_at(body, "scenario", "id") or text_at(body, "campaign")
    path = folder / f"draft-{about}-{text_at(body, 'run', 'run_id')}.json"
    _made_folder(folder)
    files.replace(path, canonical.render({"draft": body, "why": why or _why_no_certificate(found) or "asked_for"}))
    return [path]


def _made_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made ({error.strerror})") from error


def _why_no_certificate(found: Candidate) -> str:
    """Return why observations can only become a draft, whatever a folder holds; empty: they can be certified."""
    reason = _why_draft(found.observed)
    if reason:
        return reason
    elapsed = value_at(found.body, "run", "elapsed_ns")
    times = text_at(found.body, "run", "created"), text_at(found.body, "run", "finished")
    return CLOCK_WAS_SET if isinstance(elapsed, int) and untrue(*times, elapsed) else ""


def _why_draft(evidence: _Observed) -> str:
    if isinstance(evidence, CampaignRecords):
        return _why_draft_of_campaign(evidence)
    if evidence.end is None:
        return "cut_off"
    header = evidence.header
    conditions = (
        (evidence.end.interrupted, "interrupted"),
        (header.target.get("group") == _MUTANTS, "mutant"),
        (not _ran(evidence), "nothing_ran"),
        (header.source.get("tree") == TreeState.DIRTY, "dirty_tree"),
        (value_at(header.environment, "facts", "children") == FORKED, "forked"),
        (plan_of(header).partial, "partial"),
    )
    return next((word for holds, word in conditions if holds), "")


def _why_draft_of_campaign(found: CampaignRecords) -> str:
    """Return the reason; a campaign is never partial: one that was broken off has no end, and could not be read."""
    conditions = (
        (value_at(found.header, "target", "group") == _MUTANTS, "mutant"),
        (value_at(found.header, "source", "tree") == TreeState.DIRTY, "dirty_tree"),
    )
    return next((word for holds, word in conditions if holds), "")


def _ran(evidence: Evidence) -> bool:
    return any(isinstance(one, CellEvent) and one.event == "begin" for one in evidence.observations)


def _require_new_run(store: Store, certificate: Certificate) -> None:
    """A run is issued once: another certificate with its run id or evidence would be the same run, shown as two."""
    for path in (("run", "run_id"), ("run", "evidence", "sha256")):
        mine = text_at(certificate.body, *path)
        for other in store.certificates.values():
            if other.id != certificate.id and text_at(other.body, *path) == mine:
                raise InvalidDocumentError(
                    f"certificate {other.id[:12]} has the same {'.'.join(path)}", where="certificate"
                )


def _replaced(store: Store, certificate: Certificate) -> Sequence[Certificate]:
    """Return what is current in the place of a certificate; nothing where the certificate itself had its turn."""
    if certificate.id in store.certificates and not _is_current(store, certificate):
        return ()
    return [
        other
        for other in store.certificates.values()
        if other.id != certificate.id and same_place(other.body, certificate.body) and _is_current(store, other)
    ]


def _events(store: Store, certificate: Certificate, created: str) -> Sequence[Event]:
    rivals = _replaced(store, certificate)
    if not rivals:
        return ()
    if len(rivals) > 1:
        earlier, later = (one.id[:12] for one in sorted(rivals, key=lambda one: _made(one.body))[:2])
        raise InvalidDocumentError(
            f"{len(rivals)} certificates are current for this claim key and machine, as after a run that was ended"
            f" while it filed; first: statecert supersede {earlier} --by {later} --reason rerun_same_inputs",
            where=str(certificate.body["claim_key"]),
        )
    old = rivals[0]
    if _made(old.body) >= _made(certificate.body):
        raise InvalidDocumentError(
            f"the run is not newer than that of the current certificate {old.id[:12]}", where="evidence"
        )
    if missing := not_run_again(old.body, certificate.body):
        raise InvalidDocumentError(
            f"{DOES_NOT_COVER}: certificate {old.id} is a stop, and {', '.join(missing)} did not run again; run these"
            " cells, or give a scenario that lost them another id",
            where="evidence",
        )
    at = time_after(store, (old.id,), max(created, _made(certificate.body)))
    return (supersede_event(old, certificate, at),)


def _is_current(store: Store, certificate: Certificate) -> bool:
    return derive_status(certificate.id, store.events).state is CertificateState.CURRENT


def _made(body: Mapping[str, object]) -> str:
    return text_at(body, "run", "created")


def _write(
    folder: Path, evidence: Mapping[PurePosixPath, bytes], certificate: Certificate, events: Sequence[Event]
) -> list[Path]:
    before = {path for path in _named(folder, evidence, certificate, events) if path.exists()}
    folder.mkdir(parents=True, exist_ok=True)
    attributes = folder / ATTRIBUTES
    if not attributes.exists():
        files.write_new(attributes, _NO_TEXT)
    # 1. evidence, 2. certificate, 3. event
    written = [
        write_once(folder / name, data)
        for name, data in evidence.items()
        if name.suffix != ".jsonl" or not holds_evidence(folder, name.stem)
    ]
    path = folder / certificate_path(certificate)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        files.write_new(path, format_certificate(certificate))
    written.append(path)
    written += [write_event(folder, event) for event in events]
    # 4. generated
    generated = regenerate(folder, str(certificate.body["claim_key"]))
    fresh = [one for one in written if one not in before]
    return fresh + [one for one in generated if one not in fresh]


def _named(
    folder: Path, evidence: Mapping[PurePosixPath, bytes], certificate: Certificate, events: Sequence[Event]
) -> Sequence[Path]:
    names = [*evidence, certificate_path(certificate)]
    return [folder / name for name in (*names, *(event_path(event) for event in events))]
