"""What follows from the ledger, written anew: the status member of each certificate, and the page of its claim key.

A merge of two branches leaves every event whole, since each is a file of its own, but may mix the lines of what was
generated on both sides. So the status member is never read here: the body must be there, whole and in its one
rendering, and everything after it is made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.certifying.store import (
    README,
    Store,
    certificate_files,
    certificate_path,
    parse_in_place,
    read_events,
)
from harness.deriving.fields import text_at
from harness.deriving.pages import Listed, page
from harness.deriving.status import derive_status
from harness.model.certificate import Certificate, Event
from harness.model.values import Sha256
from harness.wire import files
from harness.wire.certificate_doc import MAX_BYTES, format_certificate

_STATUS: Final = b'\n  "status": {'
"""Where the body ends in a rendering: no other line begins like this, since the body lies deeper."""
_NEUTRAL: Final = b'\n  "status": {\n    "events": [],\n    "state": "current"\n  }\n}\n'


def read_bodies(folder: Path) -> Store:
    """Return what a folder holds, with the status that the ledger gives, whatever the files say of it.

    Raises:
        InvalidDocumentError: A body or an event cannot be read, or lies under another name than its own.
        StorageError: A file cannot be read.
    """
    events = read_events(folder)
    own = _by_target(events)
    found: dict[Sha256, Certificate] = {}
    for path in certificate_files(folder):
        data, mark, _ = files.read(path, max_bytes=MAX_BYTES).partition(_STATUS)
        one = parse_in_place(folder, path, data + _NEUTRAL if mark else data)
        found[one.id] = replace(one, status=derive_status(one.id, own[one.id]))
    return Store(folder=folder, certificates=found, events=events)


def regenerate(folder: Path, claim_key: str) -> list[Path]:
    """Write the status members and the README of one claim key anew, where they differ. Returns what was written.

    Raises:
        InvalidDocumentError: A body or an event of the folder cannot be trusted.
        StorageError: The disk refuses.
    """
    return _write(read_bodies(folder), claim_key)


def regenerate_all(folder: Path) -> list[Path]:
    """Write everything that is generated in a folder anew, where it differs, also after a merge has mixed it.

    Returns:
        What was written.

    Raises:
        InvalidDocumentError: A body or an event cannot be read, or lies under another name than its own.
        StorageError: The disk refuses.
    """
    store = read_bodies(folder)
    keys = sorted({str(one.body["claim_key"]) for one in store.certificates.values()})
    return [path for key in keys for path in _write(store, key)]


def _write(store: Store, claim_key: str) -> list[Path]:
    certificates = store.of_claim(claim_key)
    wanted = {store.folder / certificate_path(one): format_certificate(one) for one in certificates}
    listed = [
        Listed(id=one.id, created=text_at(one.body, "run", "created"), overall=text_at(one.body, "decision", "overall"))
        for one in certificates
    ]
    wanted[store.folder / claim_key / README] = page(claim_key, listed, _by_target(store.events))
    return [path for path, data in wanted.items() if _put(path, data)]


def _put(path: Path, data: bytes) -> bool:
    if path.is_file() and files.read(path, max_bytes=len(data)) == data:
        return False
    files.replace(path, data)
    return True


def _by_target(events: Sequence[Event]) -> Mapping[str, Sequence[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event.target].append(event)
    return found
