"""CG201: the name of a record is the digest of what it says."""

from __future__ import annotations

from harness.gating.folder import Kind
from harness.gating.rule import Document, Problem, Problems, Rule, Subject
from harness.wire import canonical

_ID12 = 12


def check_certificate(subject: Subject) -> Problems:
    """The first digits of the digest of the body stand in the file's name."""
    named = subject.document.entry.name.removesuffix(".json")[-_ID12:]
    if named != subject.id[:_ID12]:
        yield Problem("/body", f"has the id {subject.id}; the name says {named}")


def check_document(document: Document) -> Problems:
    """An event is named by its whole id."""
    if document.entry.kind is not Kind.EVENT or not document.value:
        return
    identity = canonical.digest(document.value)
    if document.entry.name != f"{identity}.json":
        yield Problem("", f"has the id {identity}, which is its name")


RULE = Rule(
    id="CG201",
    text="The name of a certificate or event is the SHA-256 of its canonical body.",
    pain="A record is edited in place: same name, same date, another decision.",
    hint="restore the file as it was issued; a change is a new run, or an event in the ledger",
    failing=(
        "renamed",
        "edited_body",
        "renamed_event",
        "edited_event",
    ),
    document=check_document,
    certificate=check_certificate,
)
