"""CG204: evidence is there, whole and unchanged, and all of it belongs to a certificate."""

from __future__ import annotations

from harness.errors import InvalidDocumentError
from harness.gating.folder import READABLE, Kind, read
from harness.gating.rule import Document, FolderFacts, Problem, Problems, Rule
from harness.wire.sha256 import sha256


def check_document(document: Document) -> Problems:
    """The bytes of an evidence file are those that its name promises, and the file was closed by its writer."""
    if document.entry.kind is not Kind.EVIDENCE:
        return
    for fault in document.faults:
        if fault.rule == RULE.id:
            yield Problem(fault.at, fault.message)
    named = document.entry.name.removesuffix(".jsonl")
    if document.sha256 and document.sha256 != named:
        yield Problem("", f"holds bytes with the digest {document.sha256}")


def check_folder(facts: FolderFacts) -> Problems:
    """Every certificate finds its evidence; no evidence lies there without a certificate."""
    wanted = {one.evidence: one.path for one in facts.certificates}
    for digest, path in wanted.items():
        entry = facts.folder.find(f"evidence/{digest}.jsonl")
        if entry is None or entry.form not in READABLE:
            yield Problem(path, f"rests on evidence/{digest}.jsonl, which is not there")
    for entry in facts.folder.of(Kind.EVIDENCE):
        if entry.name.removesuffix(".jsonl") not in wanted:
            yield Problem(entry.path, "belongs to no certificate that could be read")
    yield from _records(facts)


def _records(facts: FolderFacts) -> Problems:
    """Every published record lies there as it was published, and belongs to a certificate."""
    wanted = {one.record: one.path for one in facts.certificates if one.record}
    for digest, path in wanted.items():
        entry = facts.folder.find(f"evidence/{digest}.json")
        if entry is None or entry.form not in READABLE:
            yield Problem(path, f"is about evidence/{digest}.json, which is not there")
    for entry in facts.folder.of(Kind.RECORD):
        if entry.name.removesuffix(".json") not in wanted:
            yield Problem(entry.path, "belongs to no certificate that could be read")
            continue
        try:
            found = sha256(read(entry)).hexdigest()
        except InvalidDocumentError as refused:
            yield Problem(entry.path, refused.message)
            continue
        if found != entry.name.removesuffix(".json"):
            yield Problem(entry.path, f"holds bytes with the digest {found}")


RULE = Rule(
    id="CG204",
    text="Every certificate has its evidence, with the digest that it names; every evidence file has its certificate.",
    pain="A verdict whose evidence was lost or exchanged cannot be derived again, and nobody notices.",
    hint="restore the evidence file as it was issued; remove a file that belongs to nothing",
    failing=(
        "evidence_missing",
        "evidence_appended",
        "evidence_line_dropped",
        "evidence_cut_off",
        "evidence_exchanged",
        "orphan_evidence",
        "campaign_line_dropped",
        "foreign_record_missing",
        "foreign_record_edited",
        "foreign_record_of_nothing",
    ),
    document=check_document,
    folder=check_folder,
)
