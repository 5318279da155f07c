"""Memory of links: measured while anybody holds it, taken back, handed out again."""

from __future__ import annotations

import torch

from harness.torch_engine import TorchEngine
from harness.torch_engine.arenas import Arenas
from harness.torch_engine.cache_shelf import MOST_HEADS
from tests.torch_engine.support import CHUNK, options, tokens

CPU = torch.device("cpu")


def test_what_is_held_is_counted_until_nobody_holds_it() -> None:
    arenas = Arenas()
    first, second = arenas.take(100, CPU), arenas.take(50, CPU)
    assert arenas.allocated == 150
    del first
    assert arenas.allocated == 50
    arenas.hold(second, 58)
    assert (arenas.allocated, arenas.peak) == (58, 150)


def test_a_forgotten_arena_stays_counted() -> None:
    arenas = Arenas()
    attic = [arenas.take(100, CPU)]
    arenas.take(10, CPU)
    assert arenas.allocated == 100
    attic.clear()
    assert arenas.allocated == 0


def test_a_spare_is_taken_by_the_next_of_its_size_and_no_other() -> None:
    arenas = Arenas()
    arena = arenas.take(100, CPU)
    arenas.give_back(arena)
    assert arenas.take(99, CPU) is not arena
    assert arenas.take(100, CPU) is arena
    assert (arenas.reused, arenas.spare_bytes) == (1, 0)


def test_spares_go_oldest_first_and_the_wanted_one_stays() -> None:
    arenas = Arenas()
    for size in (10, 20, 30, 40):
        arenas.give_back(arenas.take(size, CPU))
    arenas.trim(75, wanted=20)
    assert arenas.spare_bytes == 90
    arenas.trim(30, wanted=20)
    assert arenas.spare_bytes == 20
    arenas.trim(-1)
    assert (arenas.spare_bytes, arenas.allocated) == (0, 0)
    assert not arenas.drop_one()


def held(engine: TorchEngine) -> int:
    counted = engine.cache.counters()
    return counted["stored_bytes"] + counted["pending_bytes"] + counted["deferred_bytes"] + counted["spare_bytes"]


def test_a_promise_beside_spares_stays_within_the_budget() -> None:
    engine = TorchEngine(options(snapshots="whole"))
    session, other = engine.open_session(), engine.open_session(deferred=True)
    session.begin(tokens(1, 3 * CHUNK + 9), use_cache=True)
    session.prefill(3 * CHUNK + 9)
    engine.cache.resize(byte_budget=engine.cache.pending_bytes, entry_budget=8)
    session.abandon()  # all of it is spare now
    other.begin(tokens(2, 2 * CHUNK + 9), use_cache=True)
    other.prefill(2 * CHUNK + 9)

    assert engine.cache.counters()["deferred"] == 1
    assert held(engine) <= engine.cache.byte_budget


def test_what_is_given_up_under_a_budget_of_nothing_is_not_kept() -> None:
    engine = TorchEngine(options())
    session = engine.open_session()
    session.begin(tokens(1, CHUNK + 9), use_cache=True)
    session.prefill(CHUNK + 9)
    engine.cache.resize(byte_budget=0, entry_budget=8)
    session.abandon()

    assert engine.cache.counters()["allocated_bytes"] == 0


def test_heads_that_nobody_asks_for_again_lose_their_protection() -> None:
    engine = TorchEngine(options())
    for seed in range(MOST_HEADS + 2):
        session = engine.open_session(chat="chatml", keep="head")
        prompt = [0, 3, 2, *range(100 + seed, 120 + seed), 1, 2, 0, 4, 2, 99]
        session.begin(prompt, use_cache=True)
        session.prefill(len(prompt))
        session.commit()

    while engine.cache.evict_lru() is not None:
        continue

    assert engine.cache.counters()["entries"] == MOST_HEADS
