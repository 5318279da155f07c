"""CG104: round-trip bytes."""

from __future__ import annotations

from harness.gating.rule import Document, Problem, Problems, Rule


def check(document: Document) -> Problems:
    """A file whose bytes are not the one rendering of its value: edited, reformatted, other line ends."""
    for fault in document.faults:
        if fault.rule == RULE.id:
            yield Problem(fault.at, fault.message)


RULE = Rule(
    id="CG104",
    text="The bytes of every document are the one rendering of its value.",
    pain="An edit by hand, a line-end conversion or a reformatting goes by, and the next diff is unreadable.",
    hint="restore the file as it was issued; keep `* -text` in .gitattributes so that git leaves line ends alone",
    failing=(
        "crlf",
        "reformatted",
        "reformatted_event",
    ),
    document=check,
)
