"""Files of a certificates folder to values, and a refusal filed under the rule whose question it fails.

A good file takes one strict read and one validation. Only when that fails the file is read again, step by step, to
say which question it was: strict JSON (CG101), the one spelling (CG104), its schema (CG102), closed and whole (CG204).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from harness.errors import InvalidDocumentError
from harness.gating.folder import MAX_DOCUMENT_BYTES, Entry, Kind, read
from harness.gating.rule import Document, Fault
from harness.model.evidence import Evidence
from harness.wire import evidence_doc, observed, schemas, strict
from harness.wire.sha256 import sha256

if TYPE_CHECKING:
    from harness.model.campaign import CampaignRecords

PARSE: Final = "CG101"
SCHEMA: Final = "CG102"
FILES: Final = "CG103"
SPELLING: Final = "CG104"
BLOBS: Final = "CG204"

_LIMITS: Final = strict.Limits(max_bytes=MAX_DOCUMENT_BYTES, max_nodes=150_000)
_SCHEMAS: Final[Mapping[Kind, str]] = {Kind.CERTIFICATE: "certificate.v1", Kind.EVENT: "event.v1"}


def read_document(entry: Entry) -> Document:
    """Read a certificate or an event: one value, in its one rendering, fit for its schema."""
    try:
        data = read(entry)
    except InvalidDocumentError as refused:
        return _faulty(entry, "", Fault(rule=FILES, at="", message=refused.message))
    sha256 = ""  # nobody names a certificate or an event by the bytes of its file
    limits = _LIMITS if entry.kind is Kind.CERTIFICATE else strict.DOCUMENT
    try:
        value = strict.loads(data, where="", limits=limits, form="rendered")
        spelling: tuple[Fault, ...] = ()
    except strict.OtherSpellingError as refused:
        value, spelling = refused.value, (_fault(SPELLING, refused),)
    except InvalidDocumentError as refused:
        return _faulty(entry, sha256, _fault(PARSE, refused))
    if not isinstance(value, dict):
        return _faulty(entry, sha256, Fault(rule=SCHEMA, at="", message="found no object; allowed is one"))
    try:
        schemas.validate(value, _SCHEMAS[entry.kind], "")
    except InvalidDocumentError as refused:
        return Document(entry=entry, sha256=sha256, value={}, faults=(*spelling, _fault(SCHEMA, refused)))
    return Document(entry=entry, sha256=sha256, value=value, faults=spelling)


def read_evidence(entry: Entry) -> tuple[Document, Evidence | CampaignRecords | None]:
    """Read a file of observations; its value stays empty, since the noun holds all of it."""
    try:
        data = read(entry)
    except InvalidDocumentError as refused:
        return _faulty(entry, "", Fault(rule=FILES, at="", message=refused.message)), None
    found = sha256(data).hexdigest()
    try:
        evidence = observed.read_observed(data, "")
    except InvalidDocumentError as refused:
        return _faulty(entry, found, _diagnosed(data, refused)), None
    if evidence.end is None:
        cut = Fault(rule=BLOBS, at="", message="was cut off: there is no end record")
        return _faulty(entry, found, cut), None
    return Document(entry=entry, sha256=found, value={}), evidence


def _diagnosed(data: bytes, refused: InvalidDocumentError) -> Fault:
    """File the refusal of an evidence file under the first question that a line of it fails."""
    of_campaign = observed.is_campaign(data)
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        fault = _line_fault(line, f"#{number}", of_campaign=of_campaign)
        if fault is not None:
            return fault
    return _fault(BLOBS, refused)


def _line_fault(line: bytes, where: str, *, of_campaign: bool) -> Fault | None:
    rule = PARSE
    try:
        value = strict.loads(line, where=where, limits=strict.EVIDENCE_LINE)
        rule = SPELLING
        strict.loads(line, where=where, limits=strict.EVIDENCE_LINE, form="canonical")
        rule = SCHEMA
        _require_record(value, where, of_campaign=of_campaign)
    except InvalidDocumentError as refused:
        return _fault(rule, refused)
    return None


def _require_record(value: object, where: str, *, of_campaign: bool) -> None:
    if not of_campaign or not isinstance(value, dict):
        schemas.validate(value, evidence_doc.SCHEMA, where)
        return
    from harness.wire.campaign_doc import check_record

    check_record(value, where)


def _fault(rule: str, refused: InvalidDocumentError) -> Fault:
    return Fault(rule=rule, at=refused.where, message=refused.message)


def _faulty(entry: Entry, sha256: str, fault: Fault) -> Document:
    return Document(entry=entry, sha256=sha256, value={}, faults=(fault,))
