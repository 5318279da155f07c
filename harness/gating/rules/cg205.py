"""CG205: a pack hides nothing."""

from __future__ import annotations

from harness.errors import InvalidDocumentError
from harness.gating.folder import Entry, Form, Kind, read
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Each pack is whole; what lies in it and elsewhere too is the same there."""
    packs, folder = facts.folder.packs, facts.folder
    for pack, message in packs.faults:
        yield Problem(pack, message)
    for pack, path, other in packs.doubles:
        packed = Entry(folder.root, path, Kind.EVIDENCE, Form.PACKED, pack)
        beside = Entry(folder.root, path, Kind.EVIDENCE, Form.PACKED, other) if other else folder.find(path)
        if beside is not None and not _same(packed, beside):
            yield Problem(pack, f"holds another {path} than {other or 'the one beside it'}")


def _same(one: Entry, other: Entry) -> bool:
    try:
        return read(one) == read(other)
    except InvalidDocumentError:
        return True  # a file that cannot be read is CG103's


RULE = Rule(
    id="CG205",
    text="Every pack is whole, is what its name says, and holds evidence files only, the same as beside it.",
    pain="An archive is where a record is exchanged or hidden: nobody opens it, and a listing shows its name only.",
    hint="restore the pack as it was written by `statecert pack`, or the evidence files that it held",
    failing=(
        "pack_cut_off",
        "pack_exchanged",
        "pack_with_something_behind",
        "pack_with_a_gap",
        "pack_of_other_files",
        "pack_of_nothing",
        "pack_too_large",
        "packs_that_grow",
        "pack_and_another_beside",
        "pack_and_another_pack",
    ),
    passing="valid_packed",
    folder=check,
)
