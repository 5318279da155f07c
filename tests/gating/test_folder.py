"""Every name is classified, nothing is followed, and reading is bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import InvalidDocumentError
from harness.gating import folder as folders
from harness.gating.folder import Entry, Form, Kind, classify, read, scan
from harness.wire import certificate_doc, evidence_doc, packs
from tests.gating.pack_fixtures import valid_packed

SHA = "ab" * 32


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("A01/torch-tiny/cpu-x86_64-avx512/2026-01-31-0123456789ab.json", Kind.CERTIFICATE),
        ("A01/torch-tiny/cpu-x86_64-avx512/2026-01-31-0123456789ab.json.sig", Kind.SIGNATURE),
        ("A01/torch-tiny/cpu-x86_64-avx512/README.md", Kind.README),
        (f"evidence/{SHA}.jsonl", Kind.EVIDENCE),
        (f"ledger/2026/{SHA}.json", Kind.EVENT),
        (f"ledger/2026/{SHA}.json.sig", Kind.SIGNATURE),
        (".gitattributes", Kind.ATTRIBUTES),
        (f"draft-A01-{7:032x}.json", Kind.DRAFT),
        (f"evidence/{SHA.upper()}.jsonl", Kind.OTHER),
        (f"evidence/{SHA}.json", Kind.RECORD),
        (f"evidence/{SHA}.jsonl.sig", Kind.OTHER),
        (f"evidence/{SHA}.json.sig", Kind.OTHER),
        (f"evidence/more/{SHA}.json", Kind.OTHER),
        (f"evidence/more/{SHA}.jsonl", Kind.OTHER),
        (f"ledger/{SHA}.json", Kind.OTHER),
        (f"ledger/20x6/{SHA}.json", Kind.OTHER),
        ("evidence/a/b/2026-01-31-0123456789ab.json", Kind.OTHER),
        ("A01/torch-tiny/2026-01-31-0123456789ab.json", Kind.OTHER),
        ("A01/.hidden/cpu/2026-01-31-0123456789ab.json", Kind.OTHER),
        ("A01/torch tiny/cpu/2026-01-31-0123456789ab.json", Kind.OTHER),
        ("A01/torch-tiny/cpu/2026-1-31-0123456789abc.json", Kind.OTHER),
        ("A01/torch-tiny/cpu/2026-01-31-0123456789AB.json", Kind.OTHER),
        ("A01/torch-tiny/cpu/.2026-01-31-0123456789ab.json.partial", Kind.OTHER),
        ("A01/.gitattributes", Kind.OTHER),
        ("draft-A01-1.json", Kind.OTHER),
        ("", Kind.OTHER),
    ],
)
def test_a_path_is_classified_by_its_shape(path: str, kind: Kind) -> None:
    assert classify(path) is kind


def test_forms_are_told_apart_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "run").write_text("x")
    (tmp_path / "run").chmod(0o744)
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")

    forms = {entry.path: entry.form for entry in scan(tmp_path).entries}

    assert forms == {
        "plain": Form.REGULAR,
        "run": Form.EXECUTABLE,
        "link": Form.SYMLINK,
        "loop": Form.SYMLINK,
        "broken": Form.SYMLINK,
        "pipe": Form.SPECIAL,
    }


def entry(root: Path, path: str, kind: Kind = Kind.CERTIFICATE) -> Entry:
    return Entry(root=str(root), path=path, kind=kind, form=Form.REGULAR)


@pytest.mark.parametrize("make", ["link", "pipe", "folder", "absent"])
def test_what_became_something_else_since_the_listing_is_refused(tmp_path: Path, make: str) -> None:
    (tmp_path / "other").write_text("x")
    match make:
        case "link":
            (tmp_path / "it").symlink_to("other")
        case "pipe":
            os.mkfifo(tmp_path / "it")
        case "folder":
            (tmp_path / "it").mkdir()

    with pytest.raises(InvalidDocumentError):
        read(entry(tmp_path, "it"))


def test_a_file_beyond_its_limit_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_DOCUMENT_BYTES", 10)
    (tmp_path / "it").write_bytes(b"x" * 11)

    with pytest.raises(InvalidDocumentError, match="allowed are 10"):
        read(entry(tmp_path, "it"))


def test_a_listing_without_end_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_ENTRIES", 3)
    for number in range(5):
        (tmp_path / str(number)).write_text("x")

    found = scan(tmp_path)

    assert not found.complete
    assert len(found.entries) == 3


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert not scan(tmp_path / "nowhere").exists


def test_the_limits_are_those_of_the_writers() -> None:
    assert folders.MAX_DOCUMENT_BYTES == certificate_doc.MAX_BYTES
    assert folders.MAX_EVIDENCE_BYTES == evidence_doc.MAX_BYTES


def test_packs_that_hold_too_many_files_together_are_not_read_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid_packed(tmp_path)
    monkeypatch.setattr(packs, "MAX_FILES", 2)

    found = scan(tmp_path)

    assert [message for _, message in found.packs.faults] == [
        "is not read: the packs of the folder hold more than 2 files"
    ]
    assert list(found.of(Kind.EVIDENCE)) == []
