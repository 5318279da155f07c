"""Cache policy whole: snapshots that stand alone, replace only their own prefix, and may be saved later."""

from __future__ import annotations

import pytest

from harness.torch_engine import TorchEngine, TorchSession
from harness.torch_engine.errors import OptionError
from tests.torch_engine.support import ARCHS, CHUNK, cold, finish, options, parts, tokens, warm_up

A = tokens(1, 3 * CHUNK + 40)
B = tokens(3, 2 * CHUNK + 9)


def whole(**changes: object) -> TorchEngine:
    """An engine of the policy."""
    return TorchEngine(options(snapshots="whole", **changes))


def held(engine: TorchEngine) -> list[int]:
    """Boundaries of the published snapshots, ascending."""
    return sorted(int(str(row["boundary"])) for row in engine.cache.entries() if not row["pending"])


def sizes() -> list[int]:
    """Bytes of a whole snapshot at each cut of `A`."""
    engine = whole()
    warm_up(engine.open_session(), A)
    return sorted(int(str(row["bytes"])) for row in engine.cache.entries())


def counted(engine: TorchEngine, *names: str) -> list[int]:
    """Some of the cache's counters."""
    found = engine.cache.counters()
    return [found[name] for name in names]


@pytest.mark.parametrize("route", ["ar", "mtp"])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_snapshot_has_all_rows_no_parent_and_restores_exactly(arch: str, route: str) -> None:
    engine = whole(arch=arch)
    session = engine.open_session(route=route)
    expected = cold(session, A)
    warm_up(session, A)

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert finish(session, A) == expected
    assert {row["parent"] for row in engine.cache.entries()} == {""}
    assert counted(engine, "restored_links") == [1]


def test_sizes_grow_with_the_prefix() -> None:
    first, second, third = sizes()

    assert second - first == third - second > 0


def test_both_are_kept_where_both_fit() -> None:
    engine = whole(cache_bytes=sum(sizes()))

    warm_up(engine.open_session(), A)

    assert held(engine) == [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert counted(engine, "replaced", "allowance_bytes") == [0, 0]


def test_pressure_replaces_strict_ancestors_the_shallowest_first() -> None:
    engine = whole(cache_bytes=sum(sizes()) - 1)

    warm_up(engine.open_session(), A)

    assert held(engine) == [2 * CHUNK, 3 * CHUNK]
    assert counted(engine, "replaced", "evictions") == [1, 0]


def test_an_unrelated_prefix_replaces_nothing() -> None:
    engine = whole(cache_bytes=sum(sizes()))
    session = engine.open_session()
    warm_up(session, A)

    warm_up(session, B)

    assert held(engine) == [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert session.begin(A, use_cache=True) == 3 * CHUNK
    assert counted(engine, "replaced", "skip_budget") == [0, 2]


def test_a_successor_that_cannot_fit_alone_replaces_nothing() -> None:
    engine = whole(cache_bytes=sizes()[2] - 1)

    warm_up(engine.open_session(), A)

    assert held(engine) == [2 * CHUNK]
    assert counted(engine, "replaced", "skip_exceeds_budget") == [1, 1]


def test_a_conversation_under_a_budget_of_one_moves_its_snapshot_on() -> None:
    engine = whole(cache_bytes=sizes()[2])
    session, prompt = engine.open_session(), A[: CHUNK + 4]
    expected = cold(session, A)
    warm_up(session, prompt)
    warm_up(session, A)

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert finish(session, A) == expected
    assert held(engine) == [3 * CHUNK]


def test_what_an_open_turn_was_restored_from_is_not_evicted() -> None:
    engine = whole()
    session = engine.open_session()
    warm_up(session, A[: CHUNK + 4])
    session.begin(A[: CHUNK + 4], use_cache=True)

    during = engine.cache.evict_lru()
    session.commit()
    after = engine.cache.evict_lru()

    assert during is None
    assert after is not None


def test_another_session_does_not_replace_what_an_open_turn_was_restored_from() -> None:
    engine = whole(cache_bytes=sizes()[1])
    session, other = engine.open_session(), engine.open_session()
    warm_up(session, A[: CHUNK + 4])
    session.begin(A[: CHUNK + 4], use_cache=True)

    warm_up(other, A[: 2 * CHUNK + 4])

    assert held(engine) == [CHUNK]
    assert counted(engine, "replaced", "skip_budget") == [0, 1]


@pytest.mark.parametrize("snapshots", ["whole", "delta"])
def test_a_protected_snapshot_is_neither_evicted_nor_replaced(snapshots: str) -> None:
    engine = TorchEngine(options(snapshots=snapshots))
    session = engine.open_session(protect=CHUNK)
    warm_up(session, A)

    while engine.cache.evict_lru() is not None:
        continue

    spares = engine.cache.spare_bytes
    assert held(engine) == [CHUNK]
    assert engine.cache.release(1 << 40) == spares
    assert held(engine) == [CHUNK]


def test_a_protected_ancestor_makes_a_capture_refused() -> None:
    engine = whole(cache_bytes=sizes()[1])

    warm_up(engine.open_session(protect=CHUNK), A[: 2 * CHUNK + 4])

    assert held(engine) == [CHUNK]
    assert counted(engine, "replaced", "skip_budget") == [0, 1]


def test_an_eviction_takes_the_oldest_that_is_no_prefix_of_another() -> None:
    engine = whole()
    session = engine.open_session()
    warm_up(session, A)
    warm_up(session, B)

    for _ in range(3):
        engine.cache.evict_lru()

    assert held(engine) == [CHUNK, 2 * CHUNK]
    assert session.begin(B, use_cache=True) == 2 * CHUNK


def test_memory_is_given_back_leaves_first_then_pending_ones_deepest_first() -> None:
    engine = whole()
    session = engine.open_session()
    warm_up(session, B)
    session.begin(A, use_cache=True)
    session.prefill(len(A))

    freed = engine.cache.release(sizes()[0] + sizes()[1] + 1)

    left = [(row["boundary"], row["pending"]) for row in engine.cache.entries()]
    assert left == [(CHUNK, True), (2 * CHUNK, True)]
    assert freed == sum(sizes())


# -- deferred ----------------------------------------------------------------------------------


def conversation(engine: TorchEngine, **changes: object) -> TorchSession:
    """A session that has saved the deepest cut of `A` without a copy."""
    session = engine.open_session(deferred=True, **changes)
    warm_up(session, A)
    return session


def test_a_deferred_save_is_counted_and_not_copied() -> None:
    engine = whole()

    conversation(engine)

    assert held(engine) == [CHUNK, 2 * CHUNK]
    assert counted(engine, "deferred", "deferred_bytes", "deferred_entries") == [1, sizes()[2], 1]
    assert counted(engine, "allowance_bytes") == [(1 << 30) - sum(sizes())]


@pytest.mark.parametrize("changes", [{"route": "ar"}, {"route": "mtp"}], ids=["ar", "mtp"])
def test_its_own_session_goes_on_without_copying_rows(changes: dict[str, object]) -> None:
    engine = whole()
    session = conversation(engine, **changes)
    expected = cold(engine.open_session(**changes), A)

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert finish(session, A) == expected
    assert counted(engine, "resident_hits", "restores", "materialized") == [1, 0, 0]


@pytest.mark.parametrize("leaving", ["other prompt", "reset", "close", "restore"])
@pytest.mark.parametrize("changes", [{"route": "ar"}, {"route": "mtp"}], ids=["ar", "mtp"])
def test_leaving_copies_it_before_the_rows_go(changes: dict[str, object], leaving: str) -> None:
    engine = whole(poison="nan")
    other = engine.open_session(**changes)
    expected = cold(other, A)
    session = engine.open_session(deferred=True, **changes)
    empty = session.snapshot()
    warm_up(session, A)
    session.decode(3)
    if leaving == "other prompt":
        session.begin(B, use_cache=True)
    elif leaving == "reset":
        session.reset()
    elif leaving == "close":
        session.close()
    else:
        session.restore(empty)

    cached = engine.open_session(deferred=True, **changes).begin(A, use_cache=True)
    served = other.begin(A, use_cache=True)

    assert counted(engine, "materialized", "deferred_bytes") == [1, 0]
    assert cached == served == 3 * CHUNK
    assert finish(other, A) == expected


@pytest.mark.parametrize("end", ["abandon", "nothing"])
def test_a_deferred_save_of_a_turn_that_did_not_end_well_is_none(end: str) -> None:
    engine = whole()
    session = engine.open_session(deferred=True)
    session.begin(A, use_cache=True)
    session.prefill(len(A))
    if end == "abandon":
        session.abandon()

    session.reset()

    assert held(engine) == []
    assert counted(engine, "materialized", "deferred_bytes") == [0, 0]


def test_a_deferred_save_of_a_cancelled_turn_is_copied_at_once() -> None:
    engine = whole()
    other = engine.open_session()
    expected = cold(other, A)
    session = engine.open_session(deferred=True)
    warm_up(session, A[: 2 * CHUNK + 3])
    session.begin(A, use_cache=True)
    session.prefill(len(A))

    session.cancel()

    assert held(engine) == [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert other.begin(A, use_cache=True) == 3 * CHUNK
    assert finish(other, A) == expected


def test_memory_that_cannot_be_had_skips_a_deferred_save(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = whole()
    session = engine.open_session(deferred=True)
    expected = cold(session, A)
    session.begin(A, use_cache=True)
    session.prefill(2 * CHUNK)
    right = engine.snapshotter.allocate

    def fails(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine.snapshotter, "allocate", fails)
    session.prefill(3 * CHUNK)
    monkeypatch.setattr(engine.snapshotter, "allocate", right)

    assert finish(session, A) == expected
    session.commit()
    assert counted(engine, "skip_allocation", "deferred_entries") == [1, 0]


def test_a_longer_deferred_save_copies_the_one_before_or_takes_its_place() -> None:
    def after(cache_bytes: int) -> tuple[list[int], list[int]]:
        engine = whole(cache_bytes=cache_bytes)
        session = engine.open_session(deferred=True)
        warm_up(session, A[: 2 * CHUNK + 3])
        warm_up(session, A)
        return held(engine), counted(engine, "materialized", "replaced", "deferred_bytes")

    assert after(1 << 30) == ([CHUNK, 2 * CHUNK], [1, 0, sizes()[2]])
    assert after(sizes()[2]) == ([], [0, 2, sizes()[2]])


def test_a_deferred_save_needs_the_policy() -> None:
    with pytest.raises(OptionError, match="whole"):
        TorchEngine(options()).open_session(deferred=True)


def test_the_state_of_a_deferring_session_is_that_of_any_other() -> None:
    engine = whole()
    session, other = conversation(engine), engine.open_session()
    warm_up(other, A)

    assert parts(session) == parts(other)
