"""What a gate keeps of each certificate is little, and nothing of it is lost."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.gating.folder import Entry, Form, Kind, Listing
from harness.gating.known import CertificateFacts, Judged, Known, repeated


def facts(number: int) -> CertificateFacts:
    digest = hashlib.sha256(b"%d" % number).hexdigest()
    return CertificateFacts(
        path=f"T01/fake-{number}/cpu/2026-01-01-{digest[:12]}.json",
        id=digest,
        run_id=digest[:32],
        created=f"2026-01-01T00:00:00.{number}Z",
        evidence=digest[::-1],
        claim_key=f"T01/fake-{number % 3}/cpu",
        machine=hashlib.sha256(b"machine %d" % (number % 5)).hexdigest(),
        state="current" if number % 2 else "superseded",
        overall="pass",
    )


def known(count: int) -> Known:
    held = Known()
    for number in range(count):
        held.append(facts(number))
    return held


def test_facts_come_back_as_they_were_given() -> None:
    assert list(known(20)) == [facts(number) for number in range(20)]
    assert known(20)[-1] == facts(19)
    assert known(20)[3:5] == [facts(3), facts(4)]


def test_there_is_no_certificate_behind_the_last_one() -> None:
    with pytest.raises(IndexError):
        known(2)[2]


@pytest.mark.parametrize("number", [0, 7, 19])
def test_a_certificate_is_found_by_its_id(number: int) -> None:
    assert known(20).of_id(facts(number).id) == facts(number)


@pytest.mark.parametrize("wanted", ["", "zz", "ab" * 31, facts(99).id])
def test_what_is_no_id_of_any_is_not_found(wanted: str) -> None:
    assert known(20).of_id(wanted) is None


def test_an_id_that_lies_across_two_others_is_not_found() -> None:
    ids = facts(0).id + facts(1).id

    assert known(2).of_id(ids[20:84]) is None


def test_what_was_judged_is_told_sorted_and_as_often_as_it_is_asked() -> None:
    judged = Judged()
    judged.add(known(5), ())

    assert list(judged) == list(judged) == sorted(f"certificate {one.id} {one.state}" for one in known(5))


def test_only_what_occurs_twice_is_marked() -> None:
    assert repeated(["a", "b", "a"]) == {hash("a")}
    assert repeated(["a", "b"]) == frozenset()


def test_a_listing_gives_its_entries_sorted_and_finds_them() -> None:
    found = [("b", Kind.OTHER, Form.SYMLINK), ("a/x.json", Kind.EVENT, Form.REGULAR), ("a", Kind.README, Form.REGULAR)]
    listing = Listing("root", found)

    assert list(listing) == [Entry("root", *one) for one in sorted(found)]
    assert listing[listing.place("b")].form is Form.SYMLINK
    assert listing.place("c") == -1
    assert [entry.path for entry in listing.of(Kind.EVENT)] == ["a/x.json"]


def test_ten_thousand_certificates_are_kept_in_less_than_half_a_kilobyte_each() -> None:
    paths = [facts(number).path for number in range(10_000)]

    def given() -> Iterator[tuple[str, Kind, Form]]:
        yield from ((path, Kind.CERTIFICATE, Form.REGULAR) for path in paths)

    tracemalloc.start()
    try:
        listing, held = Listing("root", given()), known(10_000)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(listing) == len(held) == 10_000
    assert size < 10_000 * 512


def test_a_gate_holds_paths_of_the_listing_and_no_copies(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    listing = Listing(str(tmp_path), [("README.md", Kind.README, Form.REGULAR)])

    assert listing[0].path is listing[0].path
