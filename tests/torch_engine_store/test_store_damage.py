"""Damage, forgeries and foreign things: located, quarantined, named, never served, never deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.torch_engine.store_header import PAGE, PREFIX, header_length, parse_header
from harness.torch_engine.store_record import LinkCorruptError, LinkMissingError, RecordFormatError
from tests.torch_engine_store.store_samples import (
    BUDGET,
    CUT,
    DOMAIN,
    ENTRY_FIELDS,
    FIELDS,
    exact,
    fill,
    flip,
    get,
    key,
    name_of,
    open_store,
    path_of,
    payload,
    put_entry,
    put_field,
    record,
    reseal,
)

BIG64, BIG32 = (1 << 64) - 1, (1 << 32) - 1


def one_file(folder: Path) -> bytes:
    """The bytes of a root's file."""
    with open_store(folder / "make") as store:
        root = fill(store, 1)[0]
        return path_of(store, folder / "make", root).read_bytes()


def reopened_with(folder: Path, name: str, raw: bytes | bytearray) -> tuple[str, ...]:
    """Open a tier that holds one file; why it was quarantined, or nothing. It must still be there."""
    folder.mkdir()
    (folder / name).write_bytes(raw)
    with open_store(folder) as store:
        for moved in store.quarantined():
            assert (folder / "quarantine" / moved.moved_to).read_bytes() == raw
            assert moved.name == name
            assert not store.entries()
        return tuple(moved.reason for moved in store.quarantined())


# -- a damaged link ------------------------------------------------------------------------------


def test_a_changed_byte_in_a_root_fails_every_descendant_at_that_link(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store, 4)
        other = fill(store, 2, seed="other")
        root = path_of(store, tmp_path, keys[0])
        header = parse_header(root.read_bytes()[:PAGE])
        placed = next(entry for entry in header.placed if entry.section.name == "layer1.k")
        flip(root, placed.offset + 5)

        for at in reversed(keys):
            with pytest.raises(LinkCorruptError) as refused:
                store.load_chain(at)
            error = refused.value
            assert error.code == "corrupt"
            assert (error.boundary, error.section, error.name) == (CUT, "layer1.k", root.name)
            assert (error.start, error.stop) == (placed.offset, placed.stop)
            assert root.name in str(error)
            assert "layer1.k" in str(error)

        assert store.plan(DOMAIN, [(at.boundary, at.fingerprint) for at in keys]) is None
        assert exact(store, other[-1], seed="other")
        assert store.counters()["verify_failures"] == 1


def test_a_damaged_link_is_in_the_quarantine_and_its_descendants_are_orphans(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)
        path = path_of(store, tmp_path, keys[1])
        flip(path, path.stat().st_size - 1)
        with pytest.raises(LinkCorruptError):
            store.load(keys[1])

        (moved,) = store.quarantined()

        assert (moved.name, moved.reason) == (path.name, "digest")
        assert (tmp_path / "quarantine" / moved.moved_to).exists()
        assert not path.exists()

    with open_store(tmp_path) as store:
        assert store.counters()["orphans_removed"] == 1
        assert exact(store, keys[0])
        assert store.counters()["quarantine_entries"] == 1


def test_a_damaged_link_that_is_stored_again_heals_its_descendants(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)
        path = path_of(store, tmp_path, keys[0])
        flip(path, path.stat().st_size - 1)
        with pytest.raises(LinkCorruptError):
            store.load_chain(keys[-1])

        store.put(record(CUT), payload(record(CUT)))

        assert exact(store, keys[-1])


def test_a_flipped_bit_in_any_byte_of_a_link_is_refused_and_located(tmp_path: Path) -> None:
    raw = one_file(tmp_path)
    header = parse_header(raw[:PAGE])
    places = {entry.section.name: (entry.offset, entry.stop) for entry in header.placed}
    tier = tmp_path / "tier"
    tier.mkdir()
    path = tier / name_of(raw)
    for at in [*range(0, PREFIX.size + 400, 7), *range(PAGE, len(raw), 2)]:
        path.write_bytes(raw)
        with open_store(tier) as store:
            flip(path, at, 1 << at % 8)

            with pytest.raises(LinkCorruptError) as refused:
                store.load(key(CUT))

        (tier / "quarantine" / store.quarantined()[0].moved_to).unlink()
        error = refused.value
        assert error.start <= at < error.stop
        if error.section in places:
            assert places[error.section] == (error.start, error.stop)
        else:
            assert error.section == ("header" if at < PAGE else "padding")


def test_a_file_that_shrinks_or_grows_while_open_is_refused(tmp_path: Path) -> None:
    for number, change in enumerate((-1, 1)):
        with open_store(tmp_path / str(number)) as store:
            root = fill(store, 1)[0]
            path = path_of(store, tmp_path / str(number), root)
            os.truncate(path, path.stat().st_size + change)

            with pytest.raises(LinkCorruptError, match="bytes"):
                store.verify(root)


def test_a_payload_that_was_never_written_is_not_served(tmp_path: Path) -> None:
    raw = one_file(tmp_path)
    folder = tmp_path / "tier"
    folder.mkdir()
    (folder / name_of(raw)).write_bytes(raw[:PAGE] + bytes(len(raw) - PAGE))

    with open_store(folder) as store:
        with pytest.raises(LinkCorruptError, match=r"layer0\.recurrent"):
            store.load(key(CUT))
        assert store.counters()["quarantined"] == 1


def test_a_link_swapped_for_another_valid_one_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "b") as store:
        root = record(CUT)
        store.put(root, payload(root, seed="changed"))
        foreign = path_of(store, tmp_path / "b", root.key).read_bytes()
    with open_store(tmp_path / "a") as store:
        fill(store, 1)
        path_of(store, tmp_path / "a", key(CUT)).write_bytes(foreign)

        with pytest.raises(LinkCorruptError, match="header"):
            store.chain(key(CUT))


def test_a_file_replaced_by_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    with open_store(tmp_path / "tier") as store:
        root = fill(store, 1)[0]
        path = path_of(store, tmp_path / "tier", root)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")

        with pytest.raises(LinkCorruptError):
            store.load(root)

        assert (tmp_path / "elsewhere").exists()


# -- what is found when a folder is opened ---------------------------------------------------------


def test_truncation_at_any_place_is_quarantined(tmp_path: Path) -> None:
    raw = one_file(tmp_path)

    for size in (0, 1, 151, 152, 4095, 4096, len(raw) - 1):
        assert reopened_with(tmp_path / str(size), name_of(raw), raw[:size]) == ("length",)


# Every field of the prefix out of range, digest made right, and the file named as it asks.
PREFIX_CASES: list[tuple[str, int | bytes, str]] = [
    ("magic", bytes(8), "magic"),
    ("version", 0, "version"),
    ("version", 2, "version"),
    ("version", BIG32, "version"),
    ("flags", 1, "record"),
    ("flags", 2, "header"),
    ("flags", BIG32, "header"),
    ("file_bytes", 0, "length"),
    ("file_bytes", BIG64, "length"),
    ("header_bytes", 0, "header"),
    ("header_bytes", 4095, "header"),
    ("header_bytes", 8192, "header"),
    ("header_bytes", BIG64, "header"),
    ("digest", bytes(32), "digest"),
    ("domain_bytes", 0, "header"),
    ("domain_bytes", BIG32, "header"),
    ("sections", 0, "header"),
    ("sections", 3, "header"),
    ("sections", 5, "header"),
    ("sections", BIG32, "header"),
    ("meta_bytes", 0, "header"),
    ("meta_bytes", BIG32, "header"),
    ("table_bytes", 0, "header"),
    ("table_bytes", BIG32, "header"),
    ("boundary", 0, "key"),
    ("boundary", CUT - 1, "key"),
    ("boundary", CUT + 1, "key"),
    ("boundary", BIG64, "key"),
    ("position", CUT + 1, "key"),
    ("position", 0, "key"),
    ("parent_boundary", 1, "header"),
    ("parent_fingerprint", 1, "header"),
]


@pytest.mark.parametrize(("field", "value", "reason"), PREFIX_CASES)
def test_a_forged_field_is_quarantined_by_name(tmp_path: Path, field: str, value: int | bytes, reason: str) -> None:
    forged = put_field(one_file(tmp_path), field, value)

    assert reopened_with(tmp_path / "tier", name_of(forged), forged) == (reason,)


def test_every_field_of_the_prefix_has_a_case() -> None:
    harmless = {"fingerprint", "build"}
    assert {case[0] for case in PREFIX_CASES} | harmless == set(FIELDS)


@pytest.mark.parametrize("field", ["fingerprint", "build", "boundary"])
def test_a_file_under_a_name_that_is_not_its_own_is_quarantined(tmp_path: Path, field: str) -> None:
    raw = one_file(tmp_path)
    value: int | bytes = bytes(32) if field == "build" else 5
    forged = put_field(raw, field, value)
    if field == "boundary":
        forged = put_field(bytes(forged), "position", 5)

    assert reopened_with(tmp_path / "tier", name_of(raw), forged) == ("name",)


ENTRY_CASES: list[tuple[str, int | bytes, str]] = [
    ("name_bytes", 0, "header"),
    ("name_bytes", 65_535, "header"),
    ("kind", 2, "header"),
    ("kind", 255, "header"),
    ("zero8", 1, "header"),
    ("zero32", 1, "header"),
    ("row_bytes", 0, "header"),
    ("row_bytes", BIG64, "header"),
    ("start", 1, "header"),
    ("start", BIG64, "header"),
    ("stop", 0, "header"),
    ("stop", BIG64, "header"),
    ("offset", 0, "header"),
    ("offset", BIG64, "header"),
]


@pytest.mark.parametrize(("field", "value", "reason"), ENTRY_CASES)
def test_a_forged_table_entry_is_quarantined(tmp_path: Path, field: str, value: int, reason: str) -> None:
    forged = put_entry(one_file(tmp_path), field, value)

    assert reopened_with(tmp_path / "tier", name_of(forged), forged) == (reason,)


def test_every_field_of_a_table_entry_has_a_case() -> None:
    assert {case[0] for case in ENTRY_CASES} | {"sha256"} == set(ENTRY_FIELDS)


def test_a_forged_section_digest_is_refused_when_the_link_is_loaded(tmp_path: Path) -> None:
    raw = put_entry(one_file(tmp_path), "sha256", bytes(32))
    (tmp_path / "tier").mkdir()
    (tmp_path / "tier" / name_of(raw)).write_bytes(raw)

    with open_store(tmp_path / "tier") as store, pytest.raises(LinkCorruptError, match=r"layer0\.recurrent"):
        store.load(key(CUT))


def test_a_section_named_like_a_path_is_quarantined(tmp_path: Path) -> None:
    raw = bytearray(one_file(tmp_path))
    at = raw.index(b"layer0.recurrent")
    raw[at : at + 16] = b"../../layer0.rec"

    forged = reseal(raw)

    assert reopened_with(tmp_path / "tier", name_of(forged), forged) == ("record",)


def test_a_child_that_does_not_continue_its_parent_is_quarantined(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store, 2)
        path = path_of(store, tmp_path, keys[1])
        raw = path.read_bytes()
    at = raw.index(b"layer1.k") - 72
    forged = bytearray(raw)
    forged[at + 16 : at + 24] = (CUT - 1).to_bytes(8, "little")
    forged[at + 24 : at + 32] = (2 * CUT - 1).to_bytes(8, "little")
    path.write_bytes(reseal(forged))

    with open_store(tmp_path) as store:
        assert [(moved.name, moved.reason) for moved in store.quarantined()] == [(path.name, "chain")]
        assert exact(store, keys[0])


def test_things_that_are_no_links_are_quarantined_or_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(one_file(tmp_path))
    tier = tmp_path / "tier"
    with open_store(tier) as store:
        keys = fill(store)
    (tier / ("0" * 32 + ".snap")).symlink_to(outside)
    (tier / ("1" * 32 + ".snap")).mkdir()
    os.mkfifo(tier / ("2" * 32 + ".snap"))
    (tier / "..snap").write_bytes(b"x")
    (tier / "a name\n.snap").write_bytes(b"x")
    (tier / ("n" * 250 + ".snap")).write_bytes(b"x")
    (tier / "notes.txt").write_bytes(b"x")
    (tier / ("3" * 32 + ".77.tmp")).write_bytes(b"x")
    (tier / "keep.tmp").write_bytes(b"x")

    with open_store(tier) as store:
        reasons = {moved.name[:6]: moved.reason for moved in store.quarantined()}
        counters = store.counters()

        assert reasons == {
            "000000": "not_readable",
            "111111": "not_a_file",
            "222222": "not_a_file",
            "..snap": "length",
            "a name": "length",
            "nnnnnn": "length",
        }
        assert counters["ignored_files"] == 2
        assert counters["temporaries_removed"] == 1
        assert exact(store, keys[-1])
    assert outside.exists()
    assert (tier / "notes.txt").exists()
    assert (tier / "keep.tmp").exists()


def test_the_same_name_is_quarantined_as_often_as_it_comes(tmp_path: Path) -> None:
    name = "0" * 32 + ".snap"
    for content in (b"first", b"second", b"third"):
        (tmp_path / name).write_bytes(content)
        open_store(tmp_path).close()

    kept = {path.name: path.read_bytes() for path in (tmp_path / "quarantine").iterdir()}
    assert kept == {f"{name}.length": b"first", f"{name}.length.1": b"second", f"{name}.length.2": b"third"}


def test_orphans_of_every_depth_are_reclaimed(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store, 4)
        other = fill(store, 1, seed="other")
        gone = path_of(store, tmp_path, keys[1])
    gone.unlink()

    with open_store(tmp_path) as store:
        assert store.counters()["orphans_removed"] == 2
        assert exact(store, keys[0])
        assert exact(store, other[0], seed="other")
    assert len(list(tmp_path.glob("*.snap"))) == 2


def test_links_of_another_build_are_never_planned_and_go_first(tmp_path: Path) -> None:
    with open_store(tmp_path, build="older") as store:
        old = fill(store, 2)
    with open_store(tmp_path) as store:
        size = int(str(store.entries()[0]["bytes"]))

        assert store.plan(DOMAIN, [(at.boundary, at.fingerprint) for at in old]) is None
        with pytest.raises(LinkMissingError):
            store.load(old[0])
        assert not store.quarantined()
        assert store.counters()["other_build_entries"] == 2

        fill(store, 1)
        store.load(key(CUT))
        assert len(store.evict()) == 1
        assert store.counters()["evictions_other_build"] == 1
        assert exact(store, key(CUT))
    with open_store(tmp_path, budget_bytes=size) as store:
        assert store.counters()["other_build_entries"] == 0
        assert exact(store, key(CUT))
    with open_store(tmp_path, build="older") as store:
        assert store.counters()["entries"] == 0


def test_use_survives_reopening(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        roots = [fill(store, 1, seed=seed)[0] for seed in "abc"]
        for number, at in enumerate(roots):
            os.utime(path_of(store, tmp_path, at), ns=(number, number))
        store.load(roots[0])

    with open_store(tmp_path) as store:
        store.evict(2)
        assert [store.find(at) is not None for at in roots] == [True, False, False]


FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def survives(raw: bytes) -> None:
    """Reading ends in a named error or in a header, never in anything else."""
    try:
        parse_header(raw[: header_length(raw[: PREFIX.size], len(raw))])
    except RecordFormatError as error:
        reason = error.reason
    else:
        return
    assert reason


@FUZZ
@given(st.binary(max_size=5_000))
def test_random_bytes_end_in_a_named_error(raw: bytes) -> None:
    survives(raw)
    survives(b"SCDELTA\x1a\x01\0\0\0" + raw)


@FUZZ
@given(data=st.data())
def test_a_link_with_random_changes_and_a_right_digest_ends_in_a_named_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray(_sample(tmp_path_factory))
    used = PREFIX.size + get(raw, "domain_bytes") + get(raw, "meta_bytes") + get(raw, "table_bytes")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, used - 5))
        value = data.draw(st.sampled_from([0, 1, 255, 65_535, BIG32]) | st.integers(0, BIG32))
        raw[at : at + 4] = value.to_bytes(4, "little")

    survives(bytes(reseal(raw)))


_SAMPLES: list[bytes] = []


def _sample(factory: pytest.TempPathFactory) -> bytes:
    if not _SAMPLES:
        _SAMPLES.append(one_file(factory.mktemp("sample")))
    return _SAMPLES[0]


def test_the_sample_is_small() -> None:
    assert sum(section.nbytes for section in record(CUT).sections) < BUDGET // 100
