"""Storing, finding, chains, loading, budgets, space, the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.torch_engine.store import DiskStore, Section, SectionKind
from harness.torch_engine.store_files import StoreFolder, file_system_of
from harness.torch_engine.store_record import (
    ChainError,
    LinkMissingError,
    RecordError,
    ShortKeyError,
    StoreClosedError,
    StoreError,
    StoreFolderError,
    StoreLockedError,
)
from tests.torch_engine_store.store_samples import (
    BUDGET,
    CUT,
    DOMAIN,
    exact,
    fill,
    key,
    open_store,
    path_of,
    payload,
    record,
)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock", "quarantine"}


def one_size(folder: Path) -> int:
    """Bytes of the file of one link."""
    with open_store(folder) as store:
        fill(store, 1, seed="size")
        return int(str(store.entries()[0]["bytes"]))


# -- round trips -------------------------------------------------------------------------------


def test_a_chain_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)

        chain = store.chain(keys[-1])

        assert [link.key for link in chain] == keys[::-1]
        assert chain[0] == record(3 * CUT)
        assert exact(store, keys[-1])
        assert store.counters()["loads"] == 3


def test_links_survive_reopening_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)

    with open_store(tmp_path) as store:
        assert store.find(keys[1]) == record(2 * CUT)
        assert exact(store, keys[-1])
        assert store.counters()["stored"] == 0
        assert store.counters()["entries"] == 3


def test_a_link_is_loaded_into_the_callers_buffers(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        root = fill(store, 1)[0]
        arena = bytearray(b"\xa5" * 4096)
        sizes = [section.nbytes for section in record(CUT).sections]
        starts = [sum(sizes[:at]) for at in range(len(sizes))]
        views = [memoryview(arena)[at : at + size] for at, size in zip(starts, sizes, strict=True)]

        store.load(root, into=views)

        assert arena[: sum(sizes)] == b"".join(payload(record(CUT)))
        assert set(arena[sum(sizes) :]) == {0xA5}


@pytest.mark.parametrize("change", [-1, 1])
def test_buffers_of_another_size_are_refused_and_not_written(tmp_path: Path, change: int) -> None:
    with open_store(tmp_path) as store:
        root = fill(store, 1)[0]
        buffers = [bytearray(section.nbytes) for section in record(CUT).sections]
        buffers[1] = bytearray(len(buffers[1]) + change)

        with pytest.raises(RecordError):
            store.load(root, into=buffers)

        assert not any(map(any, buffers))


def test_read_only_buffers_are_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        root = fill(store, 1)[0]

        with pytest.raises(RecordError):
            store.load(root, into=payload(record(CUT)))


def test_an_empty_stream_and_a_link_without_bytes_are_stored(tmp_path: Path) -> None:
    empty = replace(
        record(CUT), sections=(Section(name="k", kind=SectionKind.ROWS, row_bytes=16, start=0, stop=0),), meta=b""
    )
    with open_store(tmp_path) as store:
        assert store.put(empty, [b""]) == "stored"
        assert store.load(empty.key).payload == (memoryview(b""),)

    with open_store(tmp_path) as store:
        assert store.verify(empty.key)


def test_storing_the_same_link_again_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.snap")}

        outcomes = [store.put(record(at.boundary), payload(record(at.boundary))) for at in keys]

        assert outcomes == ["exists"] * 3
        assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.snap")}
        assert store.counters()["exists"] == 3


def test_the_same_link_gives_the_same_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        with open_store(tmp_path / folder) as store:
            fill(store)

    left, right = (sorted((tmp_path / folder).glob("*.snap")) for folder in ("a", "b"))
    assert [path.name for path in left] == [path.name for path in right]
    assert [path.read_bytes() for path in left] == [path.read_bytes() for path in right]


# -- planning ----------------------------------------------------------------------------------


def test_the_deepest_link_of_a_prompt_is_planned(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)
        cuts = [(at.boundary, at.fingerprint) for at in (*keys, key(4 * CUT))]

        assert store.plan(DOMAIN, cuts) == keys[-1]
        assert store.plan(DOMAIN, cuts[:2]) == keys[1]
        assert store.plan(b"other", cuts) is None
        assert store.plan(DOMAIN, [(CUT, 1)]) is None
        assert store.plan(DOMAIN, []) is None


def test_a_link_whose_chain_is_broken_is_not_planned(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        leaf = record(3 * CUT)
        store.put(leaf, payload(leaf))
        cuts = [(3 * CUT, leaf.key.fingerprint)]

        assert store.plan(DOMAIN, cuts) is None
        with pytest.raises(LinkMissingError, match=f"{2 * CUT} tokens"):
            store.chain(leaf.key)


def test_a_chain_may_end_on_a_link_that_is_held_elsewhere(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        leaf = record(3 * CUT)
        store.put(leaf, payload(leaf))
        held = {key(2 * CUT)}

        assert store.plan(DOMAIN, [(3 * CUT, leaf.key.fingerprint)], held=held) == leaf.key
        assert store.chain(leaf.key, held=held) == (leaf,)


def test_leaves_may_be_demoted_before_their_parents(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for boundary in (3 * CUT, 2 * CUT, CUT):
            assert store.put(record(boundary), payload(record(boundary))) == "stored"

        assert exact(store, key(3 * CUT))


def test_a_missing_link_is_a_plain_miss(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.find(key(CUT)) is None
        for ask in (store.chain, store.load, store.verify):
            with pytest.raises(LinkMissingError) as missed:
                ask(key(CUT))
            assert missed.value.code == "missing"


def test_a_file_that_vanished_is_missing_and_no_longer_planned(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)
        path_of(store, tmp_path, keys[0]).unlink()

        with pytest.raises(LinkMissingError, match=f"{CUT} tokens"):
            store.load_chain(keys[-1])

        assert store.plan(DOMAIN, [(at.boundary, at.fingerprint) for at in keys]) is None
        assert store.counters()["vanished"] == 1


# -- what must not be stored -------------------------------------------------------------------


@pytest.mark.parametrize("position", [CUT + 1, CUT - 1])
def test_a_key_that_does_not_cover_exactly_the_snapshot_is_refused(tmp_path: Path, position: int) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(ShortKeyError) as refused:
            store.put(replace(record(CUT), position=position), payload(record(CUT)))

        assert refused.value.code == "key"
        assert names(tmp_path) == set()


def with_section(**changes: object) -> tuple[Section, ...]:
    first, *others = record(CUT).sections
    return (replace(first, **changes), *others)  # type: ignore[arg-type]


BAD_RECORDS = {
    "no sections": {"sections": ()},
    "a name twice": {"sections": record(CUT).sections * 2},
    "a path as a name": {"sections": with_section(name="../k")},
    "a backslash in a name": {"sections": with_section(name="a\\b")},
    "no name": {"sections": with_section(name="")},
    "a control character": {"sections": with_section(name="k\n")},
    "a long name": {"sections": with_section(name="k" * 2000)},
    "a fixed part of two rows": {"sections": with_section(stop=2)},
    "rows backwards": {"sections": with_section(start=2)},
    "a negative size": {"sections": with_section(row_bytes=-1)},
    "a root that starts in the middle": {"sections": record(2 * CUT).sections},
    "a parent as deep": {"parent": key(CUT, seed="b")},
    "a parent of another domain": {"parent": key(4, domain=b"x")},
    "no domain": {"key": key(CUT, domain=b"")},
    "a header that is too long": {"meta": bytes(5 << 20)},
}


@pytest.mark.parametrize("change", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_record_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    changed = replace(record(CUT), **change)  # type: ignore[arg-type]
    parts = [bytes(max(section.nbytes, 0)) for section in changed.sections]

    with open_store(tmp_path) as store, pytest.raises(RecordError):
        store.put(changed, parts)

    assert names(tmp_path) == set()


def test_a_payload_of_another_size_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(RecordError):
            store.put(record(CUT), payload(record(CUT))[:-1])
        with pytest.raises(RecordError):
            store.put(record(CUT), [*payload(record(CUT))[:-1], b""])


def test_a_link_that_does_not_continue_its_parent_is_refused(tmp_path: Path) -> None:
    child = record(2 * CUT)
    late = tuple(replace(s, start=CUT + 1) if s.name == "layer1.k" else s for s in child.sections)
    with open_store(tmp_path) as store:
        fill(store, 1)

        with pytest.raises(ChainError, match=r"layer1\.k"):
            store.put(replace(child, sections=late), payload(replace(child, sections=late)))


def test_a_parent_that_its_children_do_not_continue_is_refused(tmp_path: Path) -> None:
    parent = record(CUT)
    wide = tuple(replace(s, row_bytes=32) if s.name == "layer1.k" else s for s in parent.sections)
    with open_store(tmp_path) as store:
        store.put(record(2 * CUT), payload(record(2 * CUT)))

        with pytest.raises(ChainError):
            store.put(replace(parent, sections=wide), payload(replace(parent, sections=wide)))


# -- budget and space --------------------------------------------------------------------------


def test_the_budget_is_never_exceeded_and_the_oldest_leaf_goes(tmp_path: Path) -> None:
    budget = 3 * one_size(tmp_path / "size")
    with open_store(tmp_path / "s", budget_bytes=budget) as store:
        roots = [fill(store, 1, seed=seed)[0] for seed in "abc"]
        store.load(roots[0])

        fill(store, 1, seed="d")

        assert [store.find(at) is not None for at in roots] == [True, False, True]
        assert store.counters()["stored_bytes"] == budget
        assert sum(path.stat().st_size for path in (tmp_path / "s").glob("*.snap")) == budget


def test_a_parent_is_pinned_while_it_has_children_on_the_disk(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store)
        pinned = {str(row["key"]): row["pinned"] for row in store.entries()}

        order = [store.evict() for _ in range(4)]

        assert [pinned[at.hex] for at in keys] == [True, True, False]
        assert [bool(names) for names in order] == [True, True, True, False]
        assert not store.entries()


def test_the_chain_of_a_new_link_is_not_evicted_for_it(tmp_path: Path) -> None:
    budget = 2 * one_size(tmp_path / "size")
    with open_store(tmp_path / "s", budget_bytes=budget) as store:
        keys = fill(store, 2)

        outcome = store.put(record(3 * CUT), payload(record(3 * CUT)))

        assert outcome == "budget"
        assert exact(store, keys[-1])
        assert store.counters()["skip_budget"] == 1


def test_protected_links_are_not_evicted(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 1, seed="a")
        fill(store, 1, seed="b")

        assert len(store.evict(2, protect={key(CUT, seed="a")})) == 1

        assert store.find(key(CUT, seed="a"))


def test_only_a_leaf_is_removed_by_its_key(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        keys = fill(store, 2)

        assert [store.remove(at) for at in (keys[0], keys[1], keys[0], keys[0])] == [False, True, True, False]


def test_a_link_larger_than_the_budget_is_skipped_and_evicts_nothing(tmp_path: Path) -> None:
    size = one_size(tmp_path / "size")
    with open_store(tmp_path / "s", budget_bytes=size) as store:
        fill(store, 1)
        big = replace(record(CUT, seed="b"), sections=with_section(row_bytes=size))

        outcome = store.put(big, payload(big))

        assert outcome == "exceeds_budget"
        assert store.find(key(CUT))


def test_a_zero_budget_stores_nothing_and_deletes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store)

    with open_store(tmp_path, budget_bytes=0) as store:
        assert store.put(record(CUT, seed="b"), payload(record(CUT, seed="b"))) == "disabled"
        assert exact(store, key(3 * CUT))


def test_a_smaller_budget_is_kept_at_the_next_open(tmp_path: Path) -> None:
    size = one_size(tmp_path / "size")
    with open_store(tmp_path / "s") as store:
        fill(store)

    with open_store(tmp_path / "s", budget_bytes=2 * size) as store:
        assert store.counters()["stored_bytes"] == 2 * size
        assert exact(store, key(2 * CUT))


def test_low_space_makes_the_store_read_only_and_is_counted(tmp_path: Path) -> None:
    free = [BUDGET]
    with open_store(tmp_path, min_free_bytes=1000, free_query=lambda: free[0]) as store:
        keys = fill(store, 1)
        free[0] = 999

        outcome = store.put(record(CUT, seed="b"), payload(record(CUT, seed="b")))

        assert outcome == "low_space"
        assert store.counters()["read_only"] == 1
        assert store.counters()["skip_low_space"] == 1
        assert exact(store, keys[0])


def test_free_space_at_exactly_the_minimum_is_enough(tmp_path: Path) -> None:
    size = one_size(tmp_path / "size")
    for spare, outcome in ((0, "stored"), (-1, "low_space")):
        with open_store(tmp_path / outcome, min_free_bytes=5, free_query=lambda s=spare: size + 5 + s) as store:
            assert store.put(record(CUT), payload(record(CUT))) == outcome


def test_an_unknown_free_space_means_skip(tmp_path: Path) -> None:
    def fails() -> int:
        raise OSError

    with open_store(tmp_path, free_query=fails) as store:
        assert store.put(record(CUT), payload(record(CUT))) == "space_query_failed"
        assert store.counters()["read_only"] == 1


@pytest.mark.parametrize("step", ["write", "sync", "rename", "sync_folder"])
def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path, step: str) -> None:
    class Failing(StoreFolder):
        pass

    class Store(DiskStore):
        folder_class = Failing

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with Store.open(tmp_path, build="b", budget_bytes=BUDGET) as store:
        fill(store, 1, seed="before")
        setattr(Failing, step, fail)

        outcome = store.put(record(CUT), payload(record(CUT)))

        assert outcome == "io"
        assert store.counters()["skip_io"] == 1
        assert len(names(tmp_path)) == 1
        assert exact(store, key(CUT, seed="before"), seed="before")


def test_a_link_is_published_in_the_order_that_survives_a_loss_of_power(tmp_path: Path) -> None:
    steps: list[str] = []

    class Noting(StoreFolder):
        def sync(self, file: int) -> None:
            steps.append(f"sync {os.fstat(file).st_size}")
            super().sync(file)

        def rename(self, temporary: Path, final: Path) -> None:
            steps.append(f"rename {temporary.suffix} {final.suffix}")
            super().rename(temporary, final)

        def sync_folder(self) -> None:
            steps.append("sync folder")
            super().sync_folder()

    class Store(DiskStore):
        folder_class = Noting

    with Store.open(tmp_path, build="b", budget_bytes=BUDGET) as store:
        store.put(record(CUT), payload(record(CUT)))
        size = store.entries()[0]["bytes"]

    assert steps == [f"sync {size}", "rename .tmp .snap", "sync folder"]


# -- the folder --------------------------------------------------------------------------------


def test_a_second_store_of_the_same_process_is_locked_out(tmp_path: Path) -> None:
    with open_store(tmp_path / "tier"), pytest.raises(StoreLockedError, match=f"tier.*{os.getpid()}") as refused:
        open_store(tmp_path / "tier")

    assert refused.value.code == "locked"
    open_store(tmp_path / "tier").close()


def test_a_store_of_another_process_is_locked_out_until_it_ends(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from harness.torch_engine.store import DiskStore\n"
        "store = DiskStore.open(pathlib.Path(sys.argv[1]), build='toy 1', budget_bytes=1 << 20)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], text=True, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == "open\n"

        with pytest.raises(StoreLockedError, match=str(child.pid)):
            open_store(tmp_path)

        child.kill()
    with open_store(tmp_path) as store:
        fill(store)


def test_a_lock_file_of_a_dead_process_does_not_lock(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n")

    open_store(tmp_path).close()


def test_a_closed_store_refuses_and_closing_twice_is_allowed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()

    with pytest.raises(StoreClosedError):
        store.put(record(CUT), payload(record(CUT)))


def test_a_folder_that_is_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    with pytest.raises(StoreFolderError):
        open_store(tmp_path / "link")


@pytest.mark.parametrize("name", [".lock", "quarantine"])
def test_a_symbolic_link_in_place_of_the_tiers_own_names_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tier").mkdir()
    (tmp_path / "tier" / name).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreFolderError):
        open_store(tmp_path / "tier")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreFolderError):
        open_store(tmp_path / "file")


def test_a_negative_budget_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        open_store(tmp_path, budget_bytes=-1)


def test_the_store_works_without_torch() -> None:
    code = "import sys, harness.torch_engine.store; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_file_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_store(tmp_path) as store:
        keys = fill(store)
        for _ in range(5):
            exact(store, keys[-1])

    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("text", ["//host/share/shelf", "\\\\host\\share", "nfs://host/shelf", "smb:/host/shelf"])
def test_a_folder_on_a_network_is_refused_by_its_address(text: str) -> None:
    with pytest.raises(StoreFolderError, match="found an address"):
        StoreFolder(Path(text))


def test_a_folder_that_leads_upwards_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreFolderError, match=r"found one with '\.\.'"):
        StoreFolder(tmp_path / "shelf" / ".." / ".." / "elsewhere")

    assert not list(tmp_path.iterdir())


def test_the_deepest_mount_says_what_a_folder_lies_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    root, shelf = tmp_path.resolve(), (tmp_path / "a b").resolve()
    escaped = str(shelf).replace(" ", "\\040")
    mounts.write_text(f"dev / ext4 rw 0 0\nhost:/x {root} nfs4 rw 0 0\ndev {escaped} xfs rw 0 0\n")

    assert file_system_of(tmp_path / "new" / "deep", mounts) == "nfs4"
    assert file_system_of(shelf / "new", mounts) == "xfs"
    assert file_system_of(tmp_path, tmp_path / "no table") == ""
    monkeypatch.setattr("harness.torch_engine.store_files.file_system_of", lambda _: "nfs4")
    with pytest.raises(StoreFolderError, match="expected a local file system, found nfs4"):
        StoreFolder(tmp_path / "new")
