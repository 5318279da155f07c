"""The session cache above a disk tier: demoted, found again by another engine, staged, damaged, killed half-way."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.torch_engine import TorchEngine
from harness.torch_engine.disk_tier import DiskTier, packed, record_of
from harness.torch_engine.errors import TorchEngineError
from harness.torch_engine.store import DiskStore
from harness.torch_engine.store_record import LinkCorruptError, StoreLockedError
from tests.torch_engine.support import ARCHS, CHUNK, Outcome, cold, finish, options, parts, tokens, warm_up

PROMPT = tokens(50, 3 * CHUNK + 11)
OTHER = tokens(51, 2 * CHUNK + 9)


@contextmanager
def engine_on(folder: Path, *, build: str = "b", **changes: object) -> Iterator[TorchEngine]:
    """An engine with a tier; afterwards everything is on the disk, as after a good end."""
    engine = TorchEngine(options(**changes))
    store = DiskStore.open(folder, build=build, budget_bytes=1 << 30)
    engine.cache.tier = DiskTier(store, engine.device)
    try:
        yield engine
        engine.cache.clear()
    finally:
        store.close()


def counted(engine: TorchEngine, *names: str) -> list[int]:
    counters = engine.cache.counters()
    return [counters[name] for name in names]


def again(engine: TorchEngine, prompt: list[int]) -> tuple[int, Outcome]:
    session = engine.open_session()
    reused = session.begin(prompt, use_cache=True)
    return reused, finish(session, prompt)


@pytest.mark.parametrize("arch", ARCHS)
def test_another_engine_is_served_by_the_disk(tmp_path: Path, arch: str) -> None:
    with engine_on(tmp_path, arch=arch) as engine:
        warm_up(engine.open_session(), PROMPT)
        assert counted(engine, "demotions", "disk_entries") == [0, 0]
    with engine_on(tmp_path, arch=arch) as engine:
        reused, found = again(engine, PROMPT)

        assert reused == 3 * CHUNK
        assert found == cold(engine.open_session(), PROMPT)
        assert counted(engine, "promotions", "stagings", "disk_loads", "entries") == [3, 0, 3, 3]


@pytest.mark.parametrize("route", ["ar", "mtp"])
def test_an_evicted_leaf_comes_back_alone(tmp_path: Path, route: str) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(route=route), PROMPT)
        engine.cache.evict_lru()
        assert counted(engine, "entries", "demotions", "disk_entries") == [2, 1, 1]
        session = engine.open_session(route=route)
        assert session.begin(PROMPT, use_cache=True) == 3 * CHUNK
        assert counted(engine, "disk_loads", "promotions", "entries") == [1, 1, 3]
        found = finish(session, PROMPT)

        assert found == cold(engine.open_session(route=route), PROMPT)


def test_without_room_the_links_serve_from_staging(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
    with engine_on(tmp_path, cache_entries=1) as engine:
        for _ in range(2):
            reused, found = again(engine, PROMPT)
            assert reused == 3 * CHUNK
            assert found == cold(engine.open_session(), PROMPT)
        assert counted(engine, "promotions", "stagings") == [1, 4]
        assert counted(engine, "entries") == [1]


def test_a_damaged_link_fails_what_stands_on_it_and_is_named(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
        warm_up(engine.open_session(), OTHER)
        while engine.cache.evict_lru() is not None:
            pass
        rows = engine.cache.tier.store.entries() if engine.cache.tier else []
        file = tmp_path / next(str(row["name"]) for row in rows if row["boundary"] == 2 * CHUNK and row["children"])
        raw = bytearray(file.read_bytes())
        raw[-1] ^= 1
        file.write_bytes(raw)
        session = engine.open_session()
        with pytest.raises(LinkCorruptError) as caught:
            session.begin(PROMPT, use_cache=True)

        assert caught.value.boundary == 2 * CHUNK
        assert parts(session) == parts(engine.open_session())
        assert counted(engine, "disk_quarantined", "restore_failures", "entries") == [1, 1, 0]
        assert again(engine, OTHER)[0] == 2 * CHUNK
        reused, found = again(engine, PROMPT)
        assert reused == CHUNK
        assert found == cold(engine.open_session(), PROMPT)


def test_links_without_their_parents_are_not_served_after_a_kill(tmp_path: Path) -> None:
    engine = TorchEngine(options())
    store = DiskStore.open(tmp_path, build="b", budget_bytes=1 << 30)
    engine.cache.tier = DiskTier(store, engine.device)
    warm_up(engine.open_session(), PROMPT)
    engine.cache.evict_lru()
    store.close()  # as the lock goes with a process that is killed
    with engine_on(tmp_path) as after:
        assert counted(after, "disk_entries", "disk_orphans_removed") == [0, 1]
        assert again(after, PROMPT)[0] == 0


def test_a_link_is_written_once(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
        for _ in range(3):
            while engine.cache.evict_lru() is not None:
                pass
            again(engine, PROMPT)
        assert counted(engine, "disk_stored", "disk_exists", "demotions") == [3, 6, 9]


def test_another_build_is_passed_over_and_a_second_owner_locked_out(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
        with pytest.raises(StoreLockedError), engine_on(tmp_path):
            pass
    with engine_on(tmp_path, build="c") as engine:
        assert counted(engine, "disk_entries", "disk_other_build_entries") == [0, 3]
        assert again(engine, PROMPT)[0] == 0


def test_pressure_and_a_smaller_budget_demote_too(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
        engine.cache.release(1)
        engine.cache.resize(byte_budget=engine.cache.byte_budget, entry_budget=1)
        assert counted(engine, "demotions", "entries", "disk_entries") == [2, 1, 2]
        reused, found = again(engine, PROMPT)
        assert reused == 3 * CHUNK
        assert found == cold(engine.open_session(), PROMPT)


def test_what_a_session_of_other_types_wrote_is_another_domain(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
    with engine_on(tmp_path, k_type="bf16") as engine:
        assert again(engine, PROMPT)[0] == 0
        assert counted(engine, "disk_entries") == [3]


def test_a_link_that_cannot_be_written_costs_nothing_but_itself(tmp_path: Path) -> None:
    engine = TorchEngine(options())
    with DiskStore.open(tmp_path, build="b", budget_bytes=10) as store:
        engine.cache.tier = DiskTier(store, engine.device)
        warm_up(engine.open_session(), PROMPT)
        assert engine.cache.evict_lru() is not None
        assert counted(engine, "demotions", "demotions_failed", "disk_skip_exceeds_budget") == [0, 1, 1]
        assert again(engine, PROMPT)[0] == 2 * CHUNK


def test_without_a_tier_nothing_is_counted_or_written() -> None:
    engine = TorchEngine(options())
    warm_up(engine.open_session(), PROMPT)
    assert not any("disk" in name for name in engine.cache.counters())
    assert engine.cache.evict_lru() is not None


def test_a_record_packs_as_the_snapshot_did() -> None:
    engine = TorchEngine(options())
    warm_up(engine.open_session(), PROMPT)
    for row in engine.cache.entries():
        entry = engine.cache.find(str(row["key"]))
        fixed, segments, size = packed(record_of(entry).sections)
        assert (fixed, segments) == (entry.snapshot.fixed, entry.snapshot.segments)
        assert size == entry.snapshot.arena.numel()


def test_a_handle_that_was_never_there_is_still_missing(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
        root = next(row for row in engine.cache.entries() if not row["parent"])
        engine.cache.damage(str(root["key"]), "missing")
        with pytest.raises(TorchEngineError) as caught:
            engine.open_session().begin(PROMPT, use_cache=True)
        assert caught.value.code == "missing"


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """Classes that something unpickled while the test ran."""
    found: list[str] = []
    listens = [True]

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if listens and event == "pickle.find_class":
            found.append(str(arguments))

    sys.addaudithook(hear)  # a hook cannot be taken away again, so it is made deaf
    yield found
    listens.clear()


def test_nothing_is_unpickled_while_state_comes_back(tmp_path: Path, heard: list[str]) -> None:
    with engine_on(tmp_path) as engine:
        warm_up(engine.open_session(), PROMPT)
    with engine_on(tmp_path) as engine:
        reused, _ = again(engine, PROMPT)

    assert reused == 3 * CHUNK
    assert heard == []
    pickle.loads(pickle.dumps(tmp_path))
    assert heard
