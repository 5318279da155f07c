"""CG903: privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from harness.gating.folder import Kind
from harness.gating.rule import Document, Problem, Problems, Rule, Subject
from harness.model.evidence import Crash, Difference, Evidence, PartTable, StepRecord, StoreView
from harness.wire import canonical, evidence_doc, privacy
from harness.wire.records import record_to_mapping

_MOST: Final = 20
_WATCH: Final = privacy.Watch()


def check_certificate(subject: Subject) -> Problems:
    """The body, and everything in the evidence that can hold free text."""
    for finding in _findings(subject.body, subject.text.data)[:_MOST]:
        path, _, kind = finding.rpartition(": ")
        yield Problem(f"/body{path}", f"holds a private thing: {kind}")
    for count, text in enumerate(_in_observed(subject)):
        if count == _MOST:
            break
        yield Problem("/body/run/evidence", f"its evidence holds a private thing: {text}")


def check_document(document: Document) -> Problems:
    """A ledger event."""
    if document.entry.kind is Kind.EVENT:
        for finding in _findings(document.value)[:_MOST]:
            yield Problem("", f"holds a private thing: {finding}")


def _in_observed(subject: Subject) -> Iterator[str]:
    if subject.evidence is not None:
        yield from _in_evidence(subject.evidence)
    if subject.campaign is not None:
        for record in subject.campaign.records:
            for finding in _findings(record):
                yield f"{record['type']}{finding}"


def _in_evidence(evidence: Evidence) -> Iterator[str]:
    """Findings as ``kind of record, path: kind of thing``. Labels and digests are held to their patterns already."""
    for finding in _findings(evidence_doc.header_to_mapping(evidence.header)):
        yield f"header{finding}"
    names: set[str] = set()
    for one in evidence.observations:
        if isinstance(one, PartTable):
            names.update(row.name for row in one.rows)
            names.update(row.element_type for row in one.rows)
        elif isinstance(one, (StepRecord, StoreView, Difference, Crash)):
            for finding in _findings(record_to_mapping(one)):
                yield f"{type(one).__name__}{finding}"
    for name in sorted(names):
        if kind := _kind(name):
            yield f"name of a part: {kind}"


def _findings(value: object, text: bytes = b"") -> Sequence[str]:
    """Return what :func:`privacy.findings` returns; texts that many records share are looked at once."""
    return _WATCH.findings(value, text or canonical.canonical_trusted(value))


@lru_cache(maxsize=8192)
def _kind(text: str) -> str:
    return privacy.text_kind(text)


RULE = Rule(
    id="CG903",
    text="No record holds a path, an address, a serial number, a token, or a name of a machine or person.",
    pain="What is committed once is public for good.",
    hint="remove the record before it is pushed; make the producer hash or drop the field, then run again",
    failing=(
        "path_in_evidence",
        "path_in_body",
        "campaign_path_in_evidence",
    ),
    document=check_document,
    certificate=check_certificate,
)
