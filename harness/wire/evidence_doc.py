"""Evidence files: one canonical line per record, header first, end record last.

Rules kept here:

- Append-only. The end record counts the lines before it and digests their bytes; nothing comes after it. A
  file without it was cut off: it can be read (``end`` is None), never certified.
- A part table stands once, before the first point that names it, and its root is the digest of its rows.
- What identifies a machine or a person is refused when it is written, by the name of its field.
- A reader accepts exactly the bytes that a writer makes; any other byte ends in a named error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from harness.errors import InvalidDocumentError, StatecertError
from harness.model.evidence import CellEvent, End, Evidence, Header, Observation, PartRow, PartTable, Point
from harness.model.noun import replace
from harness.model.values import Sha256
from harness.wire import canonical, json_bytes, privacy, records, schemas, strict
from harness.wire.sha256 import sha256

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Final = "evidence.v1"
MAX_BYTES: Final = 8 * 1024 * 1024
"""Of a whole evidence file; one that is committed has a lower limit of its own."""


def part_table(rows: Sequence[PartRow]) -> PartTable:
    """Return the table of these rows, with its root; an empty table has a root too."""
    plain = [records.row_to_mapping(row) for row in rows]
    return PartTable(root=Sha256(canonical.digest(plain)), rows=tuple(rows))


EMPTY_TABLE: Final = part_table(())
"""The table of a point at which no parts can be seen. It is written like any other, before its first use."""


def observation_to_mapping(observation: Observation) -> dict[str, object]:
    """Return the record of one observation."""
    return records.record_to_mapping(observation)


def observation_from_mapping(value: Mapping[str, object], where: str = "record") -> Observation:
    """Return the observation of a record, checked against the schema.

    Raises:
        InvalidDocumentError: It does not fit the schema, or is a header or an end record.
    """
    record = _checked(value, where)
    if isinstance(record, (Header, End)):
        raise InvalidDocumentError(f"found a {value['type']} record; allowed are observations", where=where)
    return record


def header_to_mapping(header: Header) -> dict[str, object]:
    """Return the record of a header."""
    return records.record_to_mapping(header)


def header_from_mapping(value: Mapping[str, object], where: str = "record") -> Header:
    """Return the header of a record, checked against the schema.

    Raises:
        InvalidDocumentError: It does not fit the schema, or is another record.
    """
    record = _checked(value, where)
    if not isinstance(record, Header):
        raise InvalidDocumentError(f"found a {value['type']} record; allowed is the header", where=where)
    return record


class EvidenceWriter:
    """Writes one evidence file. Each record is on its way to the disk when the call returns.

    Args:
        path: File to create; it must not exist.
        header: First record.
        names: Names of this host and user; no record may hold them.

    Raises:
        StorageError: The file exists, or the disk refuses.
        InvalidDocumentError: The header does not fit its schema or holds something private.
    """

    def __init__(self, path: Path, header: Header, *, names: Iterable[str] = ()) -> None:
        self._watch = privacy.Watch(names)
        self._roots: set[str] = set()
        first = self._line(header)
        from harness.wire.files import AppendLog

        self._log = AppendLog(path)
        self._log.append(first)

    @property
    def path(self) -> Path:
        """The file that is written."""
        return self._log.path

    @property
    def count(self) -> int:
        """Lines written so far."""
        return self._log.records

    def write(self, observation: Observation) -> None:
        """Append one observation; a part table that is there already is not written again.

        Raises:
            InvalidDocumentError: It does not fit its schema, holds something private, or names a part table
                that was not written.
            StorageError: The disk refuses, or the file is closed.
        """
        if isinstance(observation, PartTable) and observation.root in self._roots:
            return
        if isinstance(observation, Point) and observation.root not in self._roots:
            raise InvalidDocumentError("found a point before its part table; write the table first", where="record")
        self._log.append(self._line(self._without_private_words(observation)))
        if isinstance(observation, PartTable):
            self._roots.add(observation.root)

    def close(self, *, finished: str, elapsed_ns: int, interrupted: bool = False) -> End:
        """Append the end record and make the file durable. Without it the file counts as cut off.

        Args:
            finished: Wall time, RFC 3339 UTC.
            elapsed_ns: Monotonic nanoseconds since the run began.
            interrupted: Whether the run was broken off by its user.

        Raises:
            StorageError: The disk refuses; the file counts as cut off.
        """
        end = End(
            records=self._log.records,
            sha256=Sha256(self._log.sha256),
            finished=finished,
            elapsed_ns=elapsed_ns,
            interrupted=interrupted,
        )
        self._log.append(self._line(end))
        self._log.close()
        return end

    def abandon(self) -> None:
        """Let go of the file without an end record, as after a crash of the harness."""
        self._log.close()

    def _without_private_words(self, observation: Observation) -> Observation:
        """Leave an engine's own words out where they name a path, a host or a person: the rest of the record stands."""
        if not isinstance(observation, CellEvent) or not observation.words:
            return observation
        value = records.record_to_mapping(observation)
        return replace(observation, words="") if self._watch.findings(value, canonical.line(value)) else observation

    def _line(self, record: records.Record) -> bytes:
        value = records.record_to_mapping(record)
        where = f"{value['type']} record"
        schemas.validate(value, SCHEMA, where)
        if isinstance(record, PartTable):
            _require_root(canonical.digest(value["rows"]), record, where)
        line = canonical.line(value)
        found = self._watch.findings(value, line)
        if found:
            raise InvalidDocumentError(f"private: {'; '.join(found[:5])}. Leave it out or hash it", where=where)
        return line


def read_evidence(data: bytes, where: str) -> Evidence:
    """Return the evidence that a file holds.

    A file that was cut off gives what is whole, with ``end`` None; any other departure from what
    :class:`EvidenceWriter` makes is refused.

    Raises:
        InvalidDocumentError: With file, line and path inside.
    """
    if len(data) > MAX_BYTES:
        raise InvalidDocumentError(f"found {len(data)} bytes; allowed are {MAX_BYTES}", where=where)
    json_bytes.expect(len(data))
    schemas.expect(SCHEMA, len(data))
    whole = data[: data.rfind(b"\n") + 1]
    reader = _Reader(where, len(data))
    for line in whole.split(b"\n")[:-1]:
        reader.take(line)
    if reader.header is None:
        raise InvalidDocumentError("found no header; the first line must be one", where=where)
    if reader.end is not None and len(whole) != len(data):
        raise InvalidDocumentError("found bytes after the end record; allowed are none", where=where)
    return Evidence(
        header=reader.header,
        observations=tuple(reader.observations),
        end=reader.end,
        sha256=Sha256(sha256(data).hexdigest()),
        bytes=len(data),
    )


class _Reader:
    """Takes the lines of a file in order and holds them to the rules of order."""

    def __init__(self, where: str, size: int) -> None:
        self.header: Header | None = None
        self.end: End | None = None
        self.observations: list[Observation] = []
        self._where = where
        self._lines = 0
        self._digest = sha256(size=size)
        self._roots: set[str] = set()

    def take(self, line: bytes) -> None:
        where = f"{self._where}#{self._lines + 1}"
        if self.end is not None:
            raise InvalidDocumentError("found a line after the end record; allowed are none", where=where)
        value = strict.loads(line, where=where, limits=strict.EVIDENCE_LINE, form="canonical")
        if not isinstance(value, dict):
            raise InvalidDocumentError("found no object; a record is one", where=where)
        self._file(_checked(value, where), where)
        self._digest.update(line + b"\n")
        self._lines += 1

    def _file(self, record: records.Record, where: str) -> None:
        if isinstance(record, Header) != (self._lines == 0):
            raise InvalidDocumentError("the header must be the first line, and only that", where=where)
        if isinstance(record, Header):
            self.header = record
        elif isinstance(record, End):
            self._close(record, where)
        else:
            self._observe(record, where)

    def _close(self, end: End, where: str) -> None:
        if end.records != self._lines:
            raise InvalidDocumentError(f"counts {end.records} records; found {self._lines} before it", where=where)
        if end.sha256 != self._digest.hexdigest():
            raise InvalidDocumentError("digests other bytes than those before it: the file was changed", where=where)
        self.end = end

    def _observe(self, observation: Observation, where: str) -> None:
        if isinstance(observation, PartTable):
            if observation.root in self._roots:
                raise InvalidDocumentError("found a part table a second time; allowed is once", where=where)
            _require_root(part_table(observation.rows).root, observation, where)
            self._roots.add(observation.root)
        if isinstance(observation, Point) and observation.root not in self._roots:
            raise InvalidDocumentError("found a point before its part table", where=where)
        self.observations.append(observation)


def _checked(value: Mapping[str, object], where: str) -> records.Record:
    schemas.validate(value, SCHEMA, where)
    return records.record_from_mapping(value, where)


def _require_root(root: str, table: PartTable, where: str) -> None:
    if root != table.root:
        raise InvalidDocumentError("the root is not the digest of the rows", where=where)


def read_evidence_file(path: Path, where: str = "") -> Evidence:
    """Return the evidence in a file; ``where`` is what to call it in an error, its name by default.

    Raises:
        InvalidDocumentError: As :func:`read_evidence`.
        StatecertError: The file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StatecertError(f"{where or path.name}: cannot be read ({error.strerror})") from error
    return read_evidence(data, where or path.name)
