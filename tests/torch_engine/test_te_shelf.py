"""Pages in a folder: identities, classes, damage, room."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from harness.codec.archive import decode_page
from harness.codec.errors import CodecIdentityError
from harness.codec.identity import CodecIdentity
from harness.codec.paths import coder
from harness.torch_engine.coded.shelf import Entry, PageCorruptError, PageShelf
from harness.torch_engine.errors import BudgetError, MissingError

NOTHING = hashlib.sha256(b"").hexdigest()
LOSSY = CodecIdentity(name="lmcache-cachegen", version=2, kind="lossy", decoded_length=9, calibration=NOTHING)
CODED = b"CKG1" + (9).to_bytes(8, "little") + bytes(4)
"""Bytes that promise what LOSSY says; nothing decodes them here."""
EXACT = CodecIdentity(name="raw", version=1, kind="exact", decoded_length=4, calibration=NOTHING)


def shelf(folder: Path, budget: int = 10_000) -> PageShelf:
    return PageShelf(folder, budget)


def only(folder: Path) -> Path:
    [place] = folder.glob("*.page")
    return place


def rewritten(folder: Path, **changes: Any) -> None:
    """Change members of the head of the only entry; None removes one."""
    place = only(folder)
    line, _, rest = place.read_bytes().partition(b"\n")
    about = {**json.loads(line), **changes}
    kept = {name: value for name, value in about.items() if value is not None}
    place.write_bytes(json.dumps(kept, sort_keys=True).encode() + b"\n" + rest)


def test_what_is_published_is_found(tmp_path: Path) -> None:
    shelf(tmp_path).publish("k", LOSSY, CODED, b"tail")

    assert shelf(tmp_path).find("k", "lossy") == Entry(identity=LOSSY, page=CODED, tail=b"tail")


def test_a_lossy_entry_is_a_miss_for_an_exact_lookup_and_an_exact_one_serves_both(tmp_path: Path) -> None:
    kept = shelf(tmp_path)
    kept.publish("k", LOSSY, CODED, b"")
    assert kept.find("k", "exact") is None
    kept.publish("k", EXACT, b"rows", b"")

    for wanted in ("exact", "lossy"):
        found = kept.find("k", wanted)
        assert found is not None
        assert found.page == b"rows"


def test_an_entry_of_version_1_is_read_as_exact_rows(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"rowstail").hexdigest()
    head = {"key": "k", "page": 4, "sha256": digest, "tail": 4, "version": 1}
    (tmp_path / "k.exact.page").write_bytes(json.dumps(head).encode() + b"\nrowstail")

    assert shelf(tmp_path).find("k", "exact") == Entry(identity=EXACT, page=b"rows", tail=b"tail")


@pytest.mark.parametrize(
    "changes",
    [
        {"codec": None},
        {"version": 3},
        {"key": "other"},
        {"codec": {**LOSSY.record(), "name": "cachegen-next"}},
        {"codec": {**LOSSY.record(), "version": 3}},
        {"codec": {**LOSSY.record(), "class": "exact"}},
        {"codec": {n: v for n, v in LOSSY.record().items() if n != "calibration"}},
    ],
)
def test_an_identity_that_is_not_known_is_refused_and_put_aside(changes: dict[str, Any], tmp_path: Path) -> None:
    kept = shelf(tmp_path)
    kept.publish("k", LOSSY, CODED, b"tail")
    rewritten(tmp_path, **changes)

    with pytest.raises(CodecIdentityError):
        kept.find("k", "lossy")
    assert kept.find("k", "lossy") is None
    assert len(list(tmp_path.glob("*.aside"))) == 1


def test_a_lossy_entry_under_an_exact_name_is_refused(tmp_path: Path) -> None:
    kept = shelf(tmp_path)
    kept.publish("k", LOSSY, CODED, b"tail")
    only(tmp_path).rename(tmp_path / "k.exact.page")

    with pytest.raises(CodecIdentityError, match="lossy entry was found for an exact lookup"):
        kept.find("k", "exact")


@pytest.mark.parametrize("at", [0, 5, -9, -5, -1])
def test_a_flipped_byte_is_refused(at: int, tmp_path: Path) -> None:
    kept = shelf(tmp_path)
    kept.publish("k", LOSSY, CODED, b"tail")
    data = bytearray(only(tmp_path).read_bytes())
    data[at] ^= 4
    only(tmp_path).write_bytes(data)

    with pytest.raises((PageCorruptError, CodecIdentityError)):
        kept.find("k", "lossy")


def test_a_cut_or_a_longer_entry_is_refused(tmp_path: Path) -> None:
    kept = shelf(tmp_path)
    for change in (lambda data: data[:-1], lambda data: data + b"x", lambda _: b"", lambda data: data[:10]):
        kept.publish("k", LOSSY, CODED, b"tail")
        only(tmp_path).write_bytes(change(only(tmp_path).read_bytes()))
        with pytest.raises(PageCorruptError):
            kept.find("k", "lossy")


@pytest.mark.parametrize("size", [-1, 1 << 60, "4", 4.0, True])
def test_a_size_that_cannot_be_is_refused_before_anything_is_read(size: object, tmp_path: Path) -> None:
    kept = shelf(tmp_path)
    kept.publish("k", LOSSY, CODED, b"tail")
    rewritten(tmp_path, page=size)

    with pytest.raises(PageCorruptError):
        kept.find("k", "lossy")


def test_the_least_recently_used_goes_first_and_what_is_too_large_is_refused(tmp_path: Path) -> None:
    kept = shelf(tmp_path, 1400)
    for key in ("a", "b"):
        kept.publish(key, LOSSY, CODED + bytes(284), b"")
    assert kept.find("a", "lossy") is not None
    kept.publish("c", LOSSY, CODED + bytes(284), b"")

    assert [kept.find(key, "lossy") is not None for key in "abc"] == [True, False, True]
    with pytest.raises(BudgetError):
        kept.publish("d", LOSSY, bytes(1400), b"")
    assert kept.find("c", "lossy") is not None


def test_what_a_crash_left_unfinished_is_removed_and_never_found(tmp_path: Path) -> None:
    kept = shelf(tmp_path)

    def crash() -> None:
        raise KeyboardInterrupt

    kept.asks["publish"] = crash
    with pytest.raises(KeyboardInterrupt):
        kept.publish("k", LOSSY, CODED, b"tail")
    assert kept.find("k", "lossy") is None
    shelf(tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["", "../k", "K", "a/b", "x" * 65])
def test_a_name_that_is_no_key_is_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="shelf key"):
        shelf(tmp_path).find(key, "exact")


@pytest.mark.parametrize(
    ("identity", "page"),
    [
        (LOSSY, b"CKG1" + (10).to_bytes(8, "little") + bytes(4)),
        (LOSSY, b"LCG2" + (9).to_bytes(8, "little") + bytes(4)),
        (LOSSY, b"CKG1"),
        (EXACT, b"five!"),
    ],
    ids=["another length", "another codec", "too short", "rows too long"],
)
def test_bytes_that_are_not_what_their_identity_says_are_refused_and_put_aside(
    identity: CodecIdentity, page: bytes, tmp_path: Path
) -> None:
    kept = shelf(tmp_path)
    kept.publish("k", identity, page, b"tail")

    with pytest.raises(CodecIdentityError, match="expected"):
        kept.find("k", identity.kind)
    assert kept.find("k", identity.kind) is None
    assert len(list(tmp_path.glob("*.aside"))) == 1


GOLDEN = Path(__file__).parents[1] / "codec" / "golden"


@pytest.mark.parametrize("name", ["entry-v1.exact.page", "entry-v2.exact.page", "entry-v2.lossy.page"])
def test_a_golden_entry_keeps_being_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    key, kind, _ = name.split(".")

    found = shelf(tmp_path).find(key, "lossy" if kind == "lossy" else "exact")

    assert found is not None
    raw = (GOLDEN / "page.raw").read_bytes()
    assert (found.identity.kind, found.identity.decoded_length, found.tail) == (kind, len(raw), b"tail")
    page = bytes(decode_page(found.page, path=coder("numpy"))) if kind == "lossy" else found.page
    wanted = decode_page((GOLDEN / "page-v2.ckg1").read_bytes(), path=coder("numpy")) if kind == "lossy" else raw
    assert page == bytes(wanted)
