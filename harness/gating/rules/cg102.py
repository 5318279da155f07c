"""CG102: schema valid, known version."""

from __future__ import annotations

from harness.gating.rule import Document, Problem, Problems, Rule


def check(document: Document) -> Problems:
    """Whatever does not fit the schema that the document must have where it lies."""
    for fault in document.faults:
        if fault.rule == RULE.id:
            yield Problem(fault.at, fault.message)


RULE = Rule(
    id="CG102",
    text="Every document fits the schema of its kind, in a version that this gate knows; nothing is undeclared.",
    pain="Writer and reader drift apart, a field is dropped unseen, or an event is shown as a certificate.",
    hint="restore the file as it was issued; for a newer version use the gate of that version",
    failing=(
        "event_as_certificate",
        "undeclared_field",
        "newer_version",
        "a_list",
        "markup_1",
        "markup_2",
        "markup_3",
        "markup_4",
        "markup_5",
        "markup_6",
        "markup_7",
        "markup_8",
    ),
    document=check,
)
