"""The certificates folder as it lies on disk.

::

    <scenario>/<engine>-<model>/<hw_class>/<date>-<id12>.json   certificates
    <campaign>/<engine>-<model>/<hw_class>/<date>-<id12>.json   certificates of campaigns
    <...>/<...>/<hw_class>/README.md                            generated
    evidence/<sha256>.jsonl                                     what certificates rest on
    evidence/<sha256>.json                                      published records, byte for byte
    packs/<sha256>.xz                                           many evidence files in one
    ledger/<year>/<event id>.json                               append-only

A file is believed only under the name that follows from its content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from harness.deriving.fields import text_at
from harness.deriving.ids import certificate_name
from harness.errors import InvalidDocumentError, UsageError
from harness.model.certificate import Certificate, Event
from harness.model.values import Sha256
from harness.wire import files, packs
from harness.wire.certificate_doc import MAX_BYTES, parse_certificate
from harness.wire.event_doc import parse_event

EVIDENCE: Final = "evidence"
LEDGER: Final = "ledger"
README: Final = "README.md"
ATTRIBUTES: Final = ".gitattributes"

LEAST_HEAD: Final = 6
"""Hex digits of an id that name a certificate, if only one begins so."""

_HEX: Final = frozenset("0123456789abcdef")
_EVENT_BYTES: Final = 2 * 1024 * 1024
_EVIDENCE_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """All certificates and events of a folder."""

    folder: Path
    certificates: Mapping[Sha256, Certificate]
    """By id, in the order of their paths."""
    events: Sequence[Event]

    def of_claim(self, claim_key: str) -> Sequence[Certificate]:
        """Return the certificates of one claim key, oldest run first."""
        found = [one for one in self.certificates.values() if one.body.get("claim_key") == claim_key]
        return sorted(found, key=lambda one: (text_at(one.body, "run", "created"), one.id))

    def find(self, head: str) -> Certificate:
        """Return the certificate whose id begins like this.

        Args:
            head: At least the first six hex digits of an id.

        Raises:
            UsageError: It is too short, or none or several ids begin so.
        """
        shown, lists = repr(head[:64]), f"; `statecert report {self.folder}` lists what is there"
        if len(head) < LEAST_HEAD or not _HEX.issuperset(head):
            wanted = f"the first digits of an id, at least {LEAST_HEAD} hex digits"
            raise UsageError(f"found {shown}; wanted are {wanted}{lists}")
        found = sorted(one for one in self.certificates if one.startswith(head))
        if not found:
            raise UsageError(f"no certificate {shown} in {self.folder}{lists}")
        if len(found) > 1:
            raise UsageError(f"{len(found)} certificates begin with {shown}: {', '.join(found[:4])}; give more digits")
        return self.certificates[found[0]]

    def bodies(self) -> Mapping[Sha256, Mapping[str, object]]:
        """Return id to body."""
        return {identity: one.body for identity, one in self.certificates.items()}


def read_store(folder: Path) -> Store:
    """Return what a certificates folder holds; a folder that is not there holds nothing.

    Raises:
        InvalidDocumentError: A certificate or an event does not parse, or lies under another name than its own.
        StorageError: A file cannot be read.
    """
    certificates = {}
    for path in certificate_files(folder):
        found = parse_in_place(folder, path, files.read(path, max_bytes=MAX_BYTES))
        certificates[found.id] = found
    return Store(folder=folder, certificates=certificates, events=read_events(folder))


def read_events(folder: Path) -> Sequence[Event]:
    """Return the ledger of a certificates folder.

    Raises:
        InvalidDocumentError: An event does not parse, or lies under another name than its own.
        StorageError: A file cannot be read.
    """
    return tuple(_read_event(folder, path) for path in event_files(folder))


def parse_in_place(folder: Path, path: Path, data: bytes) -> Certificate:
    """Return the certificate of bytes that lie at a path below the folder.

    Raises:
        InvalidDocumentError: They are no certificate, or it belongs under another name.
    """
    return _parsed(path.relative_to(folder).as_posix(), data)


@lru_cache(maxsize=4096)
def _parsed(where: str, data: bytes) -> Certificate:
    """A run that issues many certificates reads its folder for each: the same bytes are parsed once."""
    found = parse_certificate(data, where)
    _require_name(where, certificate_path(found))
    return found


def certificate_path(certificate: Certificate) -> PurePosixPath:
    """Return where a certificate lies below its folder."""
    name = certificate_name(text_at(certificate.body, "run", "created"), certificate.id)
    return PurePosixPath(text_at(certificate.body, "claim_key")) / name


def evidence_path(sha256: str) -> PurePosixPath:
    """Return where an evidence file lies below its folder."""
    return PurePosixPath(EVIDENCE) / f"{sha256}.jsonl"


def record_path(sha256: str) -> PurePosixPath:
    """Return where the bytes of a published record lie below a certificates folder: beside their evidence."""
    return PurePosixPath(EVIDENCE) / f"{sha256}.json"


def holds_evidence(folder: Path, sha256: str) -> bool:
    """Tell whether an evidence file lies in a folder, by itself or in a pack.

    Raises:
        InvalidDocumentError: A pack is not whole.
    """
    path = evidence_path(sha256)
    return (folder / path).exists() or path.as_posix() in packs.places(str(folder))


def read_evidence(folder: Path, sha256: str) -> bytes:
    """Return the bytes of an evidence file, wherever in the folder it lies.

    Raises:
        InvalidDocumentError: It is not there, or a pack is not whole.
        StorageError: It cannot be read.
    """
    path = evidence_path(sha256).as_posix()
    if (folder / path).is_file():
        return files.read(folder / path, max_bytes=_EVIDENCE_BYTES)
    pack = packs.places(str(folder)).get(path, "")
    if not pack:
        raise InvalidDocumentError("the evidence of a certificate is not there", where=path.rpartition("/")[2])
    return packs.member(f"{folder}/{pack}", pack, path)


def event_path(event: Event) -> PurePosixPath:
    """Return where an event lies below its folder."""
    return PurePosixPath(LEDGER) / event.created[:4] / f"{event.id}.json"


def event_files(folder: Path) -> Sequence[Path]:
    """Return the event files of a certificates folder, in the order of their paths."""
    return sorted((folder / LEDGER).glob("*/*.json"))


def certificate_files(folder: Path) -> Sequence[Path]:
    """Return the certificate files of a certificates folder, in the order of their paths."""
    found = (path for path in folder.glob("*/*/*/*.json") if path.relative_to(folder).parts[0] != LEDGER)
    return sorted(found)


def _read_event(folder: Path, path: Path) -> Event:
    where = path.relative_to(folder).as_posix()
    found = parse_event(files.read(path, max_bytes=_EVENT_BYTES), where)
    _require_name(where, event_path(found))
    return found


def _require_name(where: str, wanted: PurePosixPath) -> None:
    if where != wanted.as_posix():
        raise InvalidDocumentError(
            f"lies under a name that is not its own; its content belongs at {wanted}", where=where
        )
