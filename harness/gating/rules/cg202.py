"""CG202: what was there stays as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from harness.errors import InvalidDocumentError
from harness.gating.folder import READABLE, Entry, Form, Kind, read
from harness.gating.rule import FolderFacts, Problem, Problems, Rule

if TYPE_CHECKING:
    from harness.gating.since import Held, Since

_STATUS: Final = b'\n  "status": {'
"""Where the body ends in a certificate's one rendering."""
_PLAIN: Final = "100644"


def check(facts: FolderFacts) -> Problems:
    """Bodies, events and evidence of the base are there, byte for byte; nothing was taken away in between."""
    since = facts.asked.since
    if since is None:
        return
    if not since.merge_base:
        yield Problem("", f"has no history in common with {since.base[:12]}: it was rewritten")
        return
    if since.rewritten:
        yield Problem("", f"does not come after {since.base[:12]}: the history was rewritten")
    yield from _held(facts, since)


def _held(facts: FolderFacts, since: Since) -> Problems:
    before: set[str] = set()
    moved = _Moved(facts, before)
    lost: list[Held] = []
    for held in since.records(facts.folder.root):
        before.add(held.path)
        entry = facts.folder.find(held.path)
        if entry is None:
            lost.append(held._replace(data=hashlib.sha256(held.data).digest()))
        else:
            yield from _one(held, entry)
    for held in lost:
        place = moved.of(held.data)
        yield Problem(
            held.path, f"was there before this change and {f'was renamed to {place}' if place else 'is gone'}"
        )
    own = {one.path: one.commit for one in since.taken_away(facts.folder.root)}
    for path, commit in sorted(own.items()):
        if path not in before and facts.folder.find(path) is None:
            yield Problem(path, f"was added by this change and taken away again by {commit[:12]}")


def _one(held: Held, entry: Entry) -> Problems:
    if entry.form not in READABLE:
        yield Problem(held.path, f"was a file before this change and is a {entry.form}")
        return
    if held.mode == _PLAIN and entry.form is Form.EXECUTABLE:
        yield Problem(held.path, f"had the mode {held.mode} before this change and is {entry.form}")
    if held.kind is Kind.SIGNATURE:
        return  # may be made again; CG901 asks whether it counts
    try:
        now = read(entry)
    except InvalidDocumentError as refused:
        yield Problem(held.path, refused.message)
        return
    if now == held.data:
        return
    if held.kind is not Kind.CERTIFICATE:
        yield Problem(held.path, f"is another {held.kind} than before this change")
    elif _body(now) != _body(held.data):
        yield Problem(f"{held.path}#/body", "is another than before this change")


def _body(data: bytes) -> bytes:
    body, mark, _ = data.partition(_STATUS)
    return body if mark else data


class _Moved:
    """New files by their content, told only when something is gone."""

    def __init__(self, facts: FolderFacts, before: set[str]) -> None:
        self._facts = facts
        self._before = before
        self._known: Mapping[bytes, str] | None = None

    def of(self, digest: bytes) -> str:
        if self._known is None:
            self._known = dict(self._new())
        return self._known.get(digest, "")

    def _new(self) -> list[tuple[bytes, str]]:
        found = []
        for entry in self._facts.folder.entries:
            if entry.path in self._before or entry.form not in READABLE:
                continue
            try:
                found.append((hashlib.sha256(read(entry)).digest(), entry.path))
            except InvalidDocumentError:
                continue
        return found


RULE = Rule(
    id="CG202",
    text="Bodies, events, evidence and signatures that the base has are still there, unchanged; history only grows.",
    pain="A stop is edited, moved or deleted in the same change that claims a pass, and nobody sees it go.",
    hint="restore it (`git checkout BASE -- PATH`); a record is replaced by `statecert supersede`, never removed",
    failing=(
        "body_edited_since",
        "certificate_deleted_since",
        "certificate_renamed_since",
        "event_deleted_since",
        "evidence_deleted_since",
        "signature_deleted_since",
        "became_a_link_since",
        "became_executable_since",
        "added_and_taken_away",
        "history_rewritten",
        "history_of_its_own",
    ),
    passing="valid_since",
    option="--since",
    folder=check,
)
"""Compared are the files that a reader of this checkout sees; what was there before comes from git's objects."""
