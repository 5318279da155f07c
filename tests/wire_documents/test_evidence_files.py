"""Evidence files: written, read back, and refused when one byte is not what a writer makes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import InvalidDocumentError, StorageError
from harness.model.evidence import CellEvent, Crash, Header, PartTable, Point, Trust
from harness.model.values import CellId, CrashKind, Phase
from harness.wire.evidence_doc import (
    EMPTY_TABLE,
    EvidenceWriter,
    header_from_mapping,
    header_to_mapping,
    observation_from_mapping,
    observation_to_mapping,
    read_evidence,
    read_evidence_file,
)
from tests.fakes.evidence import CELL, recorded

BASE = recorded()
DATA = BASE.data()


def point(**changes: object) -> Point:
    fields = {"cell": CellId(CELL), "arm": "cold", "rep": 0, "label": "a", "phase": Phase.END, "position": 3}
    return Point(**{**fields, "root": EMPTY_TABLE.root, **changes})  # type: ignore[arg-type]


def test_a_writer_and_the_records_in_memory_make_the_same_bytes(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path / "e.jsonl", BASE.header)
    for one in BASE.observations:
        writer.write(one)
    end = writer.close(finished="2026-01-01T09:00:00Z", elapsed_ns=3_600_000_000_000)

    found = read_evidence_file(tmp_path / "e.jsonl")

    assert found.header == replace(BASE.header, scales=(16,))
    assert found.end == end
    assert end.records == writer.count - 1
    assert [one for one in found.observations if not isinstance(one, PartTable)] == [
        one for one in BASE.observations if not isinstance(one, PartTable)
    ]
    assert found.sha256 == read_evidence(DATA, "x").sha256


def test_a_part_table_is_written_once_and_before_its_use(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path / "e.jsonl", BASE.header)

    with pytest.raises(InvalidDocumentError, match="before its part table"):
        writer.write(point())
    writer.write(EMPTY_TABLE)
    writer.write(EMPTY_TABLE)
    writer.write(point())

    assert writer.count == 3


def test_a_record_that_names_a_machine_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path / "e.jsonl", BASE.header, names=["workstation7"])
    crash = Crash(cell=CellId(CELL), arm="a", rep=0, label="x", kind=CrashKind.CRASH, detail="workstation7")

    with pytest.raises(InvalidDocumentError, match="/detail: host or user name"):
        writer.write(crash)
    with pytest.raises(InvalidDocumentError, match="absolute path"):
        EvidenceWriter(tmp_path / "f.jsonl", recorded().with_target(identity={"lib": "/opt/x/lib.so"}).header)

    assert writer.count == 1
    assert not (tmp_path / "f.jsonl").exists()


@pytest.mark.parametrize("words", ["no file /opt/x/lib.so", "workstation7 has none", "wings: found 2"])
def test_words_of_an_engine_stay_out_of_a_record_where_they_name_a_machine(tmp_path: Path, words: str) -> None:
    writer = EvidenceWriter(tmp_path / "e.jsonl", BASE.header, names=["workstation7"])

    writer.write(CellEvent(cell=CellId(CELL), event="not_supported", reason="engine_options", words=words))

    line = (tmp_path / "e.jsonl").read_text("utf-8").splitlines()[-1]
    assert '"reason":"engine_options"' in line
    assert (words in line) is words.startswith("wings")
    assert ("words" in line) is words.startswith("wings")


def test_a_record_that_does_not_fit_its_schema_is_refused(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path / "e.jsonl", BASE.header)

    with pytest.raises(InvalidDocumentError, match="cell record"):
        writer.write(CellEvent(cell=CellId(CELL), event="began"))
    with pytest.raises(StorageError, match="taken"):
        EvidenceWriter(tmp_path / "e.jsonl", BASE.header)


@pytest.mark.parametrize("torn", [b"", b'{"arm"'])
def test_a_file_without_its_end_record_is_readable_and_says_so(torn: bytes) -> None:
    found = read_evidence(
        recorded().__class__(header=BASE.header, observations=BASE.observations, closed=False).data() + torn, "x"
    )

    assert found.end is None
    assert len(found.observations) == len(read_evidence(DATA, "x").observations)


def test_an_abandoned_file_counts_as_cut_off(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path / "e.jsonl", BASE.header)
    writer.abandon()

    assert read_evidence_file(tmp_path / "e.jsonl").end is None


LINES = DATA.split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "no header"),
        (LINES[1:], "header must be the first"),
        ([LINES[0], *LINES], "header must be the first"),
        ([*LINES, LINES[1]], "after the end record"),
        ([LINES[0], *LINES[2:]], "counts"),
        ([LINES[0], LINES[2], LINES[1], *LINES[3:]], "digests other bytes"),
        ([LINES[0], *[one for one in LINES[1:] if b'"type":"parts"' not in one]], "before its part table"),
        ([*LINES[:3], LINES[2], *LINES[3:]], "second time"),
        ([LINES[0], b'{"type":"opinion"}', *LINES[1:]], "opinion"),
        ([LINES[0], LINES[1].replace(b'"event"', b'"evend"'), *LINES[2:]], "evend"),
        ([LINES[0], b"[]", *LINES[1:]], "no object"),
        ([LINES[0], LINES[1] + b" ", *LINES[2:]], "spelled"),
        ([*LINES[:2], LINES[2].replace(b'"layer1.k"', b'"layer1.q"'), *LINES[3:]], "root is not the digest"),
    ],
)
def test_a_changed_file_has_a_named_error(lines: list[bytes], text: str) -> None:
    with pytest.raises(InvalidDocumentError, match=text):
        read_evidence(b"".join(line + b"\n" for line in lines), "x")


@given(at=st.integers(0, len(DATA) - 2), byte=st.integers(0, 255))
@settings(max_examples=80, deadline=None)
def test_no_single_changed_byte_goes_unnoticed(at: int, byte: int) -> None:
    changed = DATA[:at] + bytes([byte]) + DATA[at + 1 :]
    if changed == DATA:
        return

    try:
        found = read_evidence(changed, "x")
    except InvalidDocumentError:
        return

    # only the end record itself can change into another whole one: it digests what stands before it
    assert found.end is not None
    assert changed.rsplit(b"\n", 2)[0] == DATA.rsplit(b"\n", 2)[0]


def test_records_and_nouns_are_one_to_one() -> None:
    for one in read_evidence(DATA, "x").observations:
        assert observation_from_mapping(observation_to_mapping(one)) == one
    value = json.loads(LINES[0])

    assert header_to_mapping(header_from_mapping(value)) == value
    with pytest.raises(InvalidDocumentError, match="allowed are observations"):
        observation_from_mapping(value)
    with pytest.raises(InvalidDocumentError, match="allowed is the header"):
        header_from_mapping(observation_to_mapping(EMPTY_TABLE))


def test_defaults_are_left_out_and_never_written_in_another_way() -> None:
    trust = Trust(child=1, hashed_by="host", algorithm="x", known_answers=1, spot_checks=0, mismatches=0)

    assert "tokens" not in observation_to_mapping(point())
    assert observation_to_mapping(trust)["spot_checks"] == 0
    with pytest.raises(InvalidDocumentError):
        observation_from_mapping({**observation_to_mapping(point()), "tokens": []})
    assert isinstance(BASE.header, Header)
