"""CG502: what is generated from the ledger is what the ledger gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from harness.deriving.pages import Listed, page
from harness.errors import InvalidDocumentError
from harness.gating.folder import Entry, Kind, read
from harness.gating.known import CertificateFacts
from harness.gating.rule import FolderFacts, Problem, Problems, Rule, Subject
from harness.gating.states import state_of


def check_certificate(subject: Subject) -> Problems:
    """The status beside a body is the one that its events make."""
    wanted = state_of(subject.ledger.by_target.get(subject.id, ()))
    for name in sorted({*wanted, *subject.status}):
        held, made = subject.status.get(name, ""), wanted.get(name, "")
        if held != made:
            yield Problem(f"/status/{name}", f"says {_shown(held)}; the ledger gives {_shown(made)}")


def check_folder(facts: FolderFacts) -> Problems:
    """Each claim key has its page, made from its certificates and the ledger; there is no other page."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, claim_key in enumerate(facts.certificates.claim_keys()):
        groups[claim_key].append(place)
    pages = {entry.parent: entry for entry in facts.folder.of(Kind.README)}
    for claim_key, places in sorted(groups.items()):
        if claim_key not in pages:
            yield Problem(f"{claim_key}/README.md", "is missing; it is generated with each certificate")
        elif not facts.unread:
            yield from _page(pages[claim_key], claim_key, [facts.certificates[place] for place in places], facts)
    for parent, entry in sorted(pages.items()):
        if parent not in groups and not facts.unread:
            yield Problem(entry.path, "belongs to no claim key")


def _page(entry: Entry, claim_key: str, certificates: Sequence[CertificateFacts], facts: FolderFacts) -> Problems:
    listed = [Listed(one.id, one.created, one.overall) for one in certificates]
    wanted = page(claim_key, listed, facts.ledger.by_target)
    try:
        held = read(entry)
    except InvalidDocumentError as refused:
        yield Problem(entry.path, refused.message)
        return
    if held != wanted:
        ours, theirs = held.split(b"\n"), wanted.split(b"\n")
        number = next((n for n, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two), len(theirs))
        yield Problem(entry.path, f"line {number + 1} is not what certificates and ledger give")


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"{len(value)} events"
    return str(value) or "nothing"


RULE = Rule(
    id="CG502",
    text="The status in each file and the page of each claim key are generated from the ledger, and up to date.",
    pain="A reader lands on a record or a page that still calls a superseded result current.",
    hint="`statecert gate --fix` writes status and page anew, from the ledger; or restore the file",
    failing=(
        "status_edited",
        "event_deleted",
        "readme_edited",
        "readme_missing",
        "readme_of_nothing",
        "campaign_status_edited",
    ),
    passing="valid_ledger",
    certificate=check_certificate,
    folder=check_folder,
)
