"""Files of a campaign: observations as canonical lines, closed like evidence, and the summary beside them.

Part tables, trust and end records are those of evidence files; the others are described in
``schemas/campaign.v1.json``, as is the summary, which is also the body of the campaign's certificate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords
from harness.model.values import Sha256
from harness.wire import canonical, privacy, schemas, strict
from harness.wire.files import AppendLog, write_new

SCHEMA: Final = "campaign.v1"
MAX_BYTES: Final = 8 * 1024 * 1024
_OF_EVIDENCE: Final = frozenset({"parts", "trust", "end"})
_OF_SELFCHECK: Final = frozenset({"control", "round", "crasher", "asked"})
_OF_FOREIGN: Final = frozenset({"text"})
_SELFCHECK: Final = "selfcheck.v1"
"""Schema of what the harness asks about itself, without an engine."""
_FOREIGN: Final = "foreign.v1"
"""Schema of records that others published."""
_HEADERS: Final = {"statecert/selfcheck/v1": _SELFCHECK, "statecert/foreign/v1": _FOREIGN}


class CampaignWriter:
    """Writes the observations of a campaign. Each record is on its way to the disk when the call returns.

    Args:
        path: File to create; it must not exist.
        names: Names of this host and user; no record may hold them.

    Raises:
        StorageError: The file exists, or the disk refuses.
    """

    def __init__(self, path: Path, *, names: Iterable[str] = ()) -> None:
        self._names = tuple(names)
        self._tables: set[object] = set()
        self._log = AppendLog(path)

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record; a part table that is there already is not written again.

        Raises:
            InvalidDocumentError: It does not fit its schema, or holds something private.
            StorageError: The disk refuses.
        """
        if record.get("type") == "parts":
            if record["root"] in self._tables:
                return
            self._tables.add(record["root"])
        check_record(record, f"{record.get('type')} record")
        found = privacy.findings(record, self._names)
        if found:
            raise InvalidDocumentError(f"private: {'; '.join(found[:5])}. Leave it out or hash it", where="record")
        self._log.append(canonical.line(record))

    def close(self, *, finished: str, elapsed_ns: int) -> None:
        """Append the end record and make the file durable. Without it the file counts as cut off."""
        self.write(
            {
                "type": "end",
                "records": self._log.records,
                "sha256": self._log.sha256,
                "finished": finished,
                "elapsed_ns": elapsed_ns,
            }
        )
        self._log.close()

    def abandon(self) -> None:
        """Let go of the file without an end record."""
        self._log.close()


def read_campaign(data: bytes, where: str) -> CampaignRecords:
    """Return what a file holds, the header first, the end record last and true to the lines before it.

    Raises:
        InvalidDocumentError: The file is cut off, was changed, or a line is not what a writer makes.
    """
    if len(data) > MAX_BYTES:
        raise InvalidDocumentError(f"found {len(data)} bytes; allowed are {MAX_BYTES}", where=where)
    lines = data.split(b"\n")
    if lines.pop():
        raise InvalidDocumentError("found a line without its end: the file was cut off", where=where)
    records = _records(lines, where)
    _hold_to_end(records, lines, where)
    if records[0].get("type") != "header":
        raise InvalidDocumentError("found no header; the first line must be one", where=where)
    return CampaignRecords(records=records, sha256=Sha256(hashlib.sha256(data).hexdigest()), bytes=len(data))


def read_cut_off(data: bytes, where: str) -> list[Mapping[str, object]]:
    """Return the records of a file that was broken off, the header first; a last line without its end is left out.

    Raises:
        InvalidDocumentError: It was closed, is too large, or a line is not what a writer makes.
    """
    if len(data) > MAX_BYTES:
        raise InvalidDocumentError(f"found {len(data)} bytes; allowed are {MAX_BYTES}", where=where)
    records = _records(data.split(b"\n")[:-1], where)
    if not records or records[0].get("type") != "header":
        raise InvalidDocumentError("found no header; the first line must be one", where=where)
    if records[-1].get("type") == "end":
        raise InvalidDocumentError("found an end record: nothing was broken off", where=where)
    return records


def _records(lines: Iterable[bytes], where: str) -> list[Mapping[str, object]]:
    records: list[Mapping[str, object]] = []
    for number, line in enumerate(lines, start=1):
        at = f"{where}#{number}"
        record = strict.loads(line, where=at, limits=strict.EVIDENCE_LINE, form="canonical")
        if not isinstance(record, dict):
            raise InvalidDocumentError("found no object; a record is one", where=at)
        check_record(record, at)
        records.append(record)
    return records


def _hold_to_end(records: list[Mapping[str, object]], lines: list[bytes], where: str) -> None:
    end = records[-1] if records else {}
    if end.get("type") != "end":
        raise InvalidDocumentError("found no end record: the campaign was cut off", where=where)
    before = b"".join(line + b"\n" for line in lines[:-1])
    if end["records"] != len(records) - 1 or end["sha256"] != hashlib.sha256(before).hexdigest():
        raise InvalidDocumentError("the end record counts or digests other bytes than those before it", where=where)


def check_record(record: Mapping[str, object], where: str) -> None:
    """Do nothing if one line fits its schema.

    Raises:
        InvalidDocumentError: It does not.
    """
    kind, schema = record.get("type"), record.get("schema")
    name = "evidence.v1" if kind in _OF_EVIDENCE else SCHEMA
    if kind == "header":
        name = _HEADERS.get(str(schema), name)
    elif kind in _OF_SELFCHECK or kind in _OF_FOREIGN:
        name = _SELFCHECK if kind in _OF_SELFCHECK else _FOREIGN
    schemas.validate(record, name, where)


def _schema_of(body: Mapping[str, object]) -> str:
    return _HEADERS.get(str(body.get("schema")), SCHEMA)


def write_summary(path: Path, body: Mapping[str, object]) -> None:
    """Write the summary of a campaign.

    Raises:
        InvalidDocumentError: It does not fit its schema.
        StorageError: The file exists, or the disk refuses.
    """
    schemas.validate(body, _schema_of(body), path.name)
    write_new(path, canonical.render(body))


def read_summary(data: bytes, where: str) -> Mapping[str, object]:
    """Return a summary, in the one spelling that it may have.

    Raises:
        InvalidDocumentError: It is no such document.
    """
    body = strict.loads(data, where=where, form="rendered")
    schemas.validate(body, _schema_of(body) if isinstance(body, dict) else SCHEMA, where)
    if not isinstance(body, dict) or body.get("kind") not in ("campaign", "harness", "foreign"):
        raise InvalidDocumentError("found no summary of a campaign", where=where)
    return body
