"""The session cache on a toy state, budgets in units of one snapshot of one stride."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from harness.torch_engine import SessionCache, Turn
from harness.torch_engine.errors import LayoutError, MissingError, OptionError, SessionStateError
from harness.torch_engine.keys import Schedule
from tests.torch_engine.support import ToyState, tokens

STRIDE = 128
UNIT = 256 + STRIDE * 16 + 8
A = tokens(1, 500)
B = A[:STRIDE] + tokens(2, 372)
PROMPTS = (A, B, tokens(3, 300))


def cache_of(units: float = 100, entries: int = 100, **more: object) -> SessionCache:
    """A cache with room for so many one-stride snapshots."""
    return SessionCache(byte_budget=int(units * UNIT), entry_budget=entries, **more)  # type: ignore[arg-type]


def turn_of(cache: SessionCache, domain: bytes = b"d", turn_token: int | None = None) -> Turn:
    """A session's side of the cache."""
    return cache.open_turn(domain, Schedule(chunk=STRIDE, turn_token=turn_token))


def capture_all(cache: SessionCache, turn: Turn, prompt: list[int], upto: int = 10_000) -> list[str]:
    """Run a toy over a prompt and capture at each cut; the cache's answers."""
    state, answers = ToyState(), []
    for cut in cache.boundaries(turn, prompt, 0, min(upto, len(prompt) - 1)):
        state.run(prompt, cut)
        answers.append(cache.capture(turn, prompt, cut, state.layout(), state.meta()))
    return answers


def fill(cache: SessionCache, turn: Turn, prompt: list[int], upto: int = 10_000) -> list[str]:
    """Capture and commit."""
    answers = capture_all(cache, turn, prompt, upto)
    cache.commit(turn)
    return answers


def restored(cache: SessionCache, turn: Turn, prompt: list[int]) -> tuple[int, bool]:
    """Plan and restore: the boundary, and whether the state is what a cold run makes."""
    plan = cache.plan(turn, prompt)
    if plan.key is None:
        return 0, True
    fresh, cold = ToyState(), ToyState()
    cache.restore(plan.key, fresh)
    cold.run(prompt, plan.boundary)
    return plan.boundary, fresh.contents() == cold.contents()


def children(cache: SessionCache) -> dict[int, list[object]]:
    """Child counts by boundary."""
    found: dict[int, list[object]] = {}
    for row in cache.entries():
        found.setdefault(int(str(row["boundary"])), []).append(row["children"])
    return found


def test_pending_captures_are_invisible_until_commit() -> None:
    cache = cache_of()
    turn = turn_of(cache)

    capture_all(cache, turn, A)
    before = cache.plan(turn, A)
    cache.commit(turn)

    assert before.boundary == 0
    assert cache.plan(turn, A).boundary == 384


def test_an_abandoned_turn_leaves_neither_bytes_nor_pins() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    capture_all(cache, turn, A)

    dropped = cache.abandon(turn)

    assert dropped == 2
    assert children(cache) == {128: [0]}
    assert cache.counters()["pending_bytes"] == 0


def test_another_session_neither_sees_nor_drops_what_is_pending() -> None:
    cache = cache_of()
    mine, other = turn_of(cache), turn_of(cache)
    capture_all(cache, mine, A)

    cache.abandon(other)
    cache.commit(other)

    assert cache.plan(other, A).boundary == 0
    assert cache.counters()["pending_entries"] == 3
    assert cache.commit(mine) == 3
    assert cache.plan(other, A).boundary == 384


def test_a_chain_stores_one_unit_a_link_and_restores_exactly() -> None:
    cache = cache_of()
    turn = turn_of(cache)

    fill(cache, turn, A)

    assert cache.stored_bytes == 3 * UNIT
    assert restored(cache, turn, A) == (384, True)
    assert restored(cache, turn, A[:300]) == (256, True)


def test_a_branch_shares_the_first_link() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)

    answers = fill(cache, turn, B)

    assert answers == ["exists", "captured", "captured"]
    assert cache.stored_bytes == 5 * UNIT
    assert children(cache) == {128: [2], 256: [1, 1], 384: [0, 0]}
    assert restored(cache, turn, A) == (384, True)
    assert restored(cache, turn, B) == (384, True)


def test_a_full_budget_evicts_the_deepest_leaf_and_the_rest_still_restores() -> None:
    cache = cache_of(units=4)
    turn = turn_of(cache)
    fill(cache, turn, A)
    fill(cache, turn, B, upto=256)

    cache.commit(turn)
    fill(cache, turn, B)

    assert restored(cache, turn, A) == (256, True)
    assert restored(cache, turn, B) == (384, True)
    assert children(cache)[128] == [2]
    assert cache.counters()["evictions"] == 1


def test_bytes_and_entries_never_exceed_their_budgets() -> None:
    cache = cache_of(units=3.5, entries=5)
    turn = turn_of(cache)

    for seed in range(8):
        prompt = tokens(seed, 400)
        state = ToyState()
        for cut in (128, 256, 384):
            state.run(prompt, cut)
            cache.capture(turn, prompt, cut, state.layout(), state.meta())
            assert cache.stored_bytes + cache.pending_bytes <= cache.byte_budget
        cache.commit(turn)
        assert restored(cache, turn, prompt)[1]

    assert cache.counters()["evictions"] > 0


def test_the_entry_budget_evicts_like_the_byte_budget() -> None:
    cache = cache_of(entries=2)
    turn = turn_of(cache)

    fill(cache, turn, tokens(5, 129))
    fill(cache, turn, tokens(6, 129))
    fill(cache, turn, tokens(7, 129))

    assert cache.counters()["entries"] == 2
    assert cache.plan(turn, tokens(5, 129)).reason == "evicted"
    assert cache.plan(turn, tokens(7, 129)).boundary == 128


def test_a_snapshot_larger_than_the_budget_is_skipped_and_pins_nothing() -> None:
    cache = cache_of(units=1.5)
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    state = ToyState()
    state.run(A, 384)
    cache.byte_budget = UNIT + 1

    answer = cache.capture(turn, A, 384, state.layout(), state.meta())

    assert answer == "exceeds_budget"
    assert children(cache) == {128: [0]}
    assert cache.counters()["skip_exceeds_budget"] == 1


def test_a_parent_is_pinned_before_anything_is_evicted_for_its_child() -> None:
    cache = cache_of(units=1)
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)

    answers = fill(cache, turn, A, upto=256)

    assert answers == ["exists", "budget"]
    assert children(cache) == {128: [0]}
    assert cache.counters()["evictions"] == 0


@pytest.mark.parametrize("zero", ["bytes", "entries"])
def test_a_zero_budget_means_no_capture_and_no_memory(zero: str) -> None:
    cache = cache_of(units=0 if zero == "bytes" else 9, entries=0 if zero == "entries" else 9)
    turn = turn_of(cache)

    answers = fill(cache, turn, A)

    assert set(answers) == {"disabled"}
    assert cache.stored_bytes + cache.pending_bytes == 0
    assert cache.plan(turn, A).reason == "disabled"
    assert cache.counters()["captures"] == 0


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(OptionError):
        SessionCache(byte_budget=-1, entry_budget=1)


def test_the_memory_guard_evicts_until_there_is_room() -> None:
    cache: SessionCache = cache_of(memory_query=lambda: 3 * UNIT - cache.stored_bytes, headroom=UNIT)
    turn = turn_of(cache)

    fill(cache, turn, tokens(5, 129))
    answers = fill(cache, turn, tokens(6, 129))
    answers += fill(cache, turn, tokens(7, 129))

    assert answers == ["captured", "captured"]
    assert cache.counters()["evictions"] == 1
    assert cache.counters()["skip_memory_guard"] == 0


def test_the_memory_guard_skips_when_nothing_is_left_to_evict() -> None:
    cache = cache_of(memory_query=lambda: 10)
    turn = turn_of(cache)

    answers = fill(cache, turn, A)

    assert answers == ["memory_guard"] * 3
    assert cache.counters()["skip_memory_guard"] == 3


def test_a_failed_memory_query_skips_without_evicting_or_pinning() -> None:
    def fails() -> int:
        raise OSError("no such counter")

    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    broken = cache_of(memory_query=fails)
    cache.guard = broken.guard

    answers = fill(cache, turn, A)

    assert answers == ["exists", "memory_query_failed", "memory_query_failed"]
    assert children(cache) == {128: [0]}
    assert cache.counters()["evictions"] == 0


def test_the_oldest_unpinned_entry_leaves_first_and_a_pinned_one_never() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)

    left = [cache.evict_lru() for _ in range(4)]

    assert [key.boundary if key else None for key in left] == [384, 256, 128, None]


def test_a_restore_refreshes_every_link_and_changes_the_victim() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    first, second = tokens(5, 129), tokens(6, 129)
    fill(cache, turn, first)
    fill(cache, turn, second)

    restored(cache, turn, first)
    victim = cache.evict_lru()

    assert victim == cache.key(turn, second, 128)


def test_a_plan_does_not_refresh_anything() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    first, second = tokens(5, 129), tokens(6, 129)
    fill(cache, turn, first)
    fill(cache, turn, second)

    cache.plan(turn, first)

    assert cache.evict_lru() == cache.key(turn, first, 128)


def test_an_evicted_prefix_and_one_never_captured_are_told_apart() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    cache.evict_lru()

    reasons = [cache.plan(turn, prompt).reason for prompt in (A, tokens(9, 300), A[:128], [1])]

    assert reasons == ["evicted", "never_captured", "no_boundary", "too_short"]


def test_a_prefix_captured_again_is_no_longer_called_evicted() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    cache.evict_lru()

    fill(cache, turn, A, upto=STRIDE)
    cache.clear()

    assert cache.plan(turn, A).reason == "never_captured"


@pytest.mark.parametrize(
    ("length", "boundary"), [(0, 0), (1, 0), (128, 0), (129, 128), (200, 128), (256, 128), (257, 256)]
)
def test_a_plan_is_always_shorter_than_the_prompt(length: int, boundary: int) -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)

    plan = cache.plan(turn, A[:length])

    assert plan.boundary == boundary


def test_domains_never_share_and_each_hits_its_own() -> None:
    cache = cache_of()
    one, two = turn_of(cache, b"one"), turn_of(cache, b"two")

    fill(cache, one, A)

    assert cache.plan(two, A).boundary == 0
    assert cache.plan(one, A).boundary == 384


def test_divergent_prefixes_of_one_depth_are_entries_of_their_own() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    one, two = tokens(5, 200), tokens(6, 200)

    fill(cache, turn, one)
    fill(cache, turn, two)

    assert restored(cache, turn, one) == (128, True)
    assert restored(cache, turn, two) == (128, True)
    assert cache.counters()["entries"] == 2


def test_a_longer_prompt_reuses_the_shared_prefix() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A[:200])

    assert restored(cache, turn, A) == (128, True)


def test_turn_ends_below_one_stride_are_captured_and_offered() -> None:
    cache = cache_of()
    turn = turn_of(cache, turn_token=7)
    prompt = [1] * 30 + [7] + [2] * 30 + [7] + [3] * 100

    fill(cache, turn, prompt)

    assert [row["boundary"] for row in cache.entries()] == [31, 62, 128]
    assert restored(cache, turn, prompt) == (128, True)
    assert restored(cache, turn, [*prompt[:62], 9, 9]) == (62, True)
    assert restored(cache, turn, [*prompt[:31], 9, 9]) == (31, True)


def test_a_capture_off_the_schedule_is_refused_and_nothing_is_stored() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    state = ToyState()
    state.run(A, 100)

    with pytest.raises(SessionStateError) as refusal:
        cache.capture(turn, A, 100, state.layout(), state.meta())

    assert refusal.value.code == "state"
    assert cache.entries() == []


def test_a_parent_that_does_not_line_up_is_ignored() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    state = ToyState()
    state.run(A, 256)
    cache.snapshotter.lines_up = lambda parent, layout: False  # type: ignore[method-assign]

    cache.capture(turn, A, 256, state.layout(), state.meta())
    cache.commit(turn)

    deep = cache.entries()[-1]
    assert deep["parent"] == ""
    assert int(str(deep["bytes"])) == UNIT + STRIDE * 16
    assert restored(cache, turn, A) == (256, True)


def test_a_refused_parent_refuses_its_pending_children() -> None:
    class Refusing(SessionCache):
        def admissible(self, entry):  # type: ignore[no-untyped-def]
            return entry.key.boundary != 256 and super().admissible(entry)

    cache = Refusing(byte_budget=100 * UNIT, entry_budget=100)
    turn = turn_of(cache)
    capture_all(cache, turn, A)

    published = cache.commit(turn)

    assert published == 1
    assert children(cache) == {128: [0]}
    assert cache.counters()["refused"] == 2
    assert cache.counters()["pending_entries"] == 0


def test_two_sessions_that_capture_the_same_prefix_keep_one_chain() -> None:
    cache = cache_of()
    one, two = turn_of(cache), turn_of(cache)
    capture_all(cache, one, A)
    capture_all(cache, two, A)

    first, second = cache.commit(one), cache.commit(two)

    assert (first, second) == (3, 0)
    assert cache.counters()["duplicates"] == 3
    assert children(cache) == {128: [1], 256: [1], 384: [0]}
    assert restored(cache, two, A) == (384, True)


def test_a_deeper_capture_of_a_second_session_hangs_on_the_published_twin() -> None:
    cache = cache_of()
    one, two = turn_of(cache), turn_of(cache)
    capture_all(cache, one, A, upto=256)
    capture_all(cache, two, A)

    cache.commit(one)
    cache.commit(two)

    assert children(cache) == {128: [1], 256: [1], 384: [0]}
    assert cache.stored_bytes == 3 * UNIT


def test_a_planned_link_that_left_is_a_named_error_and_nothing_is_touched() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    plan = cache.plan(turn, A)
    cache.evict_lru()
    fresh = ToyState()

    assert plan.key is not None
    with pytest.raises(MissingError, match="planned 128-token snapshot is no longer present"):
        cache.restore(plan.key, fresh)

    assert fresh.position == 0
    assert cache.counters()["restore_failures"] == 1


def test_a_restore_into_another_layout_is_refused_and_not_counted_as_a_hit() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)
    plan = cache.plan(turn, A)
    small = ToyState(capacity=200)

    assert plan.key is not None
    with pytest.raises(LayoutError):
        cache.restore(plan.key, small)

    assert not small.rows.any()
    assert cache.counters()["hits"] == 0


def _evict(cache: SessionCache, turn: Turn) -> None:
    cache.evict_lru()


def _clear(cache: SessionCache, turn: Turn) -> None:
    cache.clear()


def _abandon(cache: SessionCache, turn: Turn) -> None:
    cache.close_turn(turn)
    cache.clear()


@pytest.mark.parametrize("leave", [_evict, _clear, _abandon])
def test_memory_is_released_when_an_entry_leaves(leave: Callable[[SessionCache, Turn], None]) -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=STRIDE)
    arena = weakref.ref(cache._published[cache.key(turn, A, STRIDE)].snapshot.arena)

    leave(cache, turn)
    counted = cache.counters()
    assert counted["spare_bytes"] == (0 if arena() is None else counted["allocated_bytes"])
    cache.release(1)
    gc.collect()

    assert arena() is None
    assert cache.counters()["allocated_bytes"] == 0
    assert cache.stored_bytes == 0


def test_release_gives_leaves_back_first_and_pending_captures_last() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, tokens(5, 129))
    capture_all(cache, turn, A)

    first = cache.release(1)
    rest = cache.release(2 * UNIT)

    assert (first, rest) == (UNIT, 2 * UNIT)
    assert [row["boundary"] for row in cache.entries()] == [128]
    assert cache.release(100 * UNIT) == UNIT


def test_clear_drops_everything_and_the_cache_goes_on() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)
    capture_all(cache, turn, B)

    cache.clear()
    fill(cache, turn, A)

    assert cache.stored_bytes == 3 * UNIT
    assert restored(cache, turn, A) == (384, True)


def test_counters_say_what_happened_and_what_is_held() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)
    restored(cache, turn, A)
    cache.note_miss("never_captured")

    counted = cache.counters()

    expected = {
        "captures": 3, "published": 3, "restores": 1, "hits": 1, "restored_tokens": 384,
        "restored_bytes": 256 + 384 * 16, "restored_links": 3, "misses": 1,
        "miss_never_captured": 1, "stored_bytes": 3 * UNIT, "entries": 3, "pending_bytes": 0,
        "evictions": 0,
    }  # fmt: skip
    assert {name: counted[name] for name in expected} == expected


def test_entries_name_keys_parents_and_pins() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A, upto=256)

    root, leaf = cache.entries()

    assert root["key"] == cache.key(turn, A, 128).hex
    assert (root["parent"], leaf["parent"]) == ("", root["key"])
    assert (root["pinned"], leaf["pinned"]) == (True, False)
    assert (root["bytes"], root["fixed_bytes"], root["pending"]) == (UNIT, 256, False)


def test_a_flipped_bit_in_a_link_reaches_the_restored_state() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)

    cache.corrupt(cache.key(turn, A, 256).hex, "toy.rows", 0, 1)

    assert restored(cache, turn, A) == (384, False)
    with pytest.raises(MissingError):
        cache.corrupt("00" * 16, "toy.rows", 0, 1)


def test_links_carried_into_another_cache_restore_there() -> None:
    source, target = cache_of(), cache_of()
    turn = turn_of(source)
    fill(source, turn, A)
    keys = source.keys(turn, A, (128, 256, 384))

    answers = []
    for key, parent in zip(keys, [None, *keys], strict=False):
        answers.append(target.put(key, parent, source.find(key.hex).snapshot))

    assert answers == ["published"] * 3
    assert restored(target, turn_of(target), A) == (384, True)
    assert target.put(keys[0], None, source.find(keys[0].hex).snapshot) == "exists"


def test_a_link_without_its_parent_is_not_taken_in() -> None:
    source, target = cache_of(), cache_of()
    turn = turn_of(source)
    fill(source, turn, A)
    root, child, _ = source.keys(turn, A, (128, 256, 384))

    orphan = target.put(child, root, source.find(child.hex).snapshot)
    rootless = target.put(child, None, source.find(child.hex).snapshot)

    assert (orphan, rootless) == ("refused", "refused")
    assert target.entries() == []


def test_a_smaller_budget_evicts_leaves_until_the_rest_fits() -> None:
    cache = cache_of()
    turn = turn_of(cache)
    fill(cache, turn, A)

    evicted = cache.resize(byte_budget=UNIT, entry_budget=100)

    assert evicted == 2
    assert restored(cache, turn, A) == (128, True)
    with pytest.raises(OptionError):
        cache.resize(byte_budget=-1, entry_budget=1)


class CacheMachine(RuleBasedStateMachine):
    """Any order of calls keeps budgets, pins, chains and restored bytes right."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = SessionCache(byte_budget=4 * UNIT, entry_budget=5)
        self.turns = [turn_of(self.cache), turn_of(self.cache)]

    @rule(turn=st.integers(0, 1), prompt=st.integers(0, 2), upto=st.sampled_from([128, 256, 384]))
    def capture(self, turn: int, prompt: int, upto: int) -> None:
        capture_all(self.cache, self.turns[turn], PROMPTS[prompt], upto)

    @rule(turn=st.integers(0, 1))
    def commit(self, turn: int) -> None:
        self.cache.commit(self.turns[turn])

    @rule(turn=st.integers(0, 1))
    def abandon(self, turn: int) -> None:
        self.cache.abandon(self.turns[turn])

    @rule()
    def evict(self) -> None:
        self.cache.evict_lru()

    @rule(units=st.integers(1, 3))
    def release(self, units: int) -> None:
        self.cache.release(units * UNIT)

    @rule(prompt=st.integers(0, 2))
    def restore(self, prompt: int) -> None:
        assert restored(self.cache, self.turns[0], PROMPTS[prompt])[1]

    @invariant()
    def budgets_hold(self) -> None:
        counted = self.cache.counters()
        assert counted["stored_bytes"] + counted["pending_bytes"] <= 4 * UNIT
        assert counted["entries"] + counted["pending_entries"] <= 5

    @invariant()
    def pins_are_the_number_of_children(self) -> None:
        rows = self.cache.entries()
        total = sum(int(str(row["children"])) for row in rows)
        assert total == sum(row["parent"] != "" for row in rows)

    @invariant()
    def parents_of_published_entries_are_published(self) -> None:
        rows = self.cache.entries()
        published = {row["key"] for row in rows if not row["pending"]}
        assert all(row["parent"] in published | {""} for row in rows if not row["pending"])


CacheMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestCacheMachine = CacheMachine.TestCase
