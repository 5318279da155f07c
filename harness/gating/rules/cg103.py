"""CG103: only known files, plain ones, each where its content says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.gating.folder import Entry, Form, Kind, read
from harness.gating.rule import Document, FolderFacts, Problem, Problems, Rule, Subject

_NO_TEXT: Final = b"* -text\n"
_FORMS: Final[Mapping[Form, str]] = {
    Form.EXECUTABLE: "is executable",
    Form.SYMLINK: "is a symbolic link",
    Form.SPECIAL: "is no regular file",
    Form.FOLDER: "is a folder that cannot be read, or lies too deep",
}


def check_entry(entry: Entry) -> Problems:
    """A plain file of a kind that belongs here."""
    if entry.form in _FORMS:
        yield Problem("", f"{_FORMS[entry.form]}; allowed are regular files that are not executable")
    if entry.kind is Kind.OTHER and entry.form is not Form.FOLDER:
        yield Problem("", "is none of the files that a certificates folder holds")


def check_document(document: Document) -> Problems:
    """A file that could not be read at all; an event outside the folder of its year."""
    for fault in document.faults:
        if fault.rule == RULE.id:
            yield Problem(fault.at, fault.message)
    if document.entry.kind is Kind.EVENT and document.value:
        year = str(document.value["created"])[:4]
        if document.entry.parent != f"ledger/{year}":
            yield Problem("", f"was made in {year}; its folder is ledger/{year}")


def check_certificate(subject: Subject) -> Problems:
    """A certificate in the folder of its claim key, under the day of its run."""
    entry, body = subject.document.entry, subject.body
    if entry.parent != body["claim_key"]:
        yield Problem("/body/claim_key", f"speaks about {body['claim_key']}, which is its folder")
    day = str(body["run"]["created"])[:10]
    if not entry.name.startswith(f"{day}-"):
        yield Problem("/body/run/created", f"was run on {day}; its name begins with that")


def check_folder(facts: FolderFacts) -> Problems:
    """Names that a case-blind file system would merge; signatures of nothing; a listing that did not end."""
    if not facts.folder.complete:
        yield Problem("", f"holds more than {len(facts.folder.entries)} files; the rest was not looked at")
    folded: set[int] = set()
    for entry in facts.folder.entries:
        name = hash(entry.path.casefold())
        if name in folded:
            yield Problem(entry.path, "has the name of another file, but for upper and lower case")
        folded.add(name)
        if entry.kind is Kind.SIGNATURE and facts.folder.find(entry.path.removesuffix(".sig")) is None:
            yield Problem(entry.path, "signs nothing that is there")
    for entry in facts.folder.of(Kind.ATTRIBUTES):
        if read(entry) != _NO_TEXT:
            yield Problem(entry.path, "says something else than `* -text`: git could change line ends")


RULE = Rule(
    id="CG103",
    text="Only known kinds of file lie in the folder, regular and not executable, each where its content says.",
    pain="A file that no rule looks at passes for checked; a link shows one thing to the gate and another to a reader.",
    hint="remove what does not belong here, `chmod 644` what does, and put a renamed file back",
    failing=(
        "symlink",
        "executable",
        "stray_file",
        "stray_name_with_escapes",
        "overlong_name",
        "deep_folder",
        "wrong_folder",
        "wrong_day",
        "event_of_another_year",
        "attributes_edited",
        "signature_of_nothing",
        "unreadable_pipe",
        "huge_string",
        "huge_evidence",
        "submodule",
        "device_name",
    ),
    entry=check_entry,
    document=check_document,
    certificate=check_certificate,
    folder=check_folder,
)
