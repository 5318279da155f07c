"""A session's calls: order, refusals, explicit snapshots, forks, and what stays untouched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.torch_engine import Greedy, Sampling, SessionCache, TorchEngine, TorchSession
from harness.torch_engine.errors import (
    BudgetError,
    CapacityError,
    IdentityError,
    KVModeError,
    LayoutError,
    MetadataError,
    MissingError,
    OptionError,
    SessionStateError,
    UnsupportedError,
)
from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.sampling import SamplerState
from tests.torch_engine.support import (
    ARCHS,
    CHUNK,
    cold,
    finish,
    open_session,
    options,
    parts,
    shared_engine,
    tokens,
    warm_up,
)

PROMPT = tokens(1, 2 * CHUNK + 44)
SAMPLER = Sampling(temperature_ppm=900_000, top_k=30, seed=5, repetition_ppm=1_100_000)


def begun(arch: str = "hybrid", **changes: object) -> TorchSession:
    """A session with the prompt forwarded."""
    session = open_session(arch=arch, **changes)
    session.begin(PROMPT, use_cache=False)
    session.prefill(len(PROMPT))
    return session


def test_boundaries_are_the_same_on_a_hit_and_on_a_miss() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=True)
    missed = session.boundaries()
    session.prefill(len(PROMPT))
    session.commit()

    cached = session.begin(PROMPT, use_cache=True)

    assert cached == 2 * CHUNK
    assert session.boundaries() == missed == (CHUNK, 2 * CHUNK)


def test_a_cut_at_the_end_of_the_prompt_is_forwarded_but_not_captured() -> None:
    prompt = PROMPT[: 2 * CHUNK]
    session = open_session()

    warm_up(session, prompt)

    assert session.boundaries() == (CHUNK, 2 * CHUNK)
    assert [row["boundary"] for row in session.cache.entries()] == [CHUNK]


def test_logits_are_pending_only_after_the_whole_prompt() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=False)

    session.prefill(CHUNK)
    middle = session.logits()
    session.prefill(len(PROMPT))

    assert middle is None
    assert session.logits() is not None
    assert session.position == len(PROMPT)


def test_prefill_to_a_place_off_the_schedule_is_refused() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=False)

    with pytest.raises(SessionStateError, match="100"):
        session.prefill(100)

    assert session.position == 0


def test_decode_without_logits_is_refused() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=False)
    session.prefill(CHUNK)

    with pytest.raises(SessionStateError, match="logits"):
        session.decode(1, Greedy())


def test_extend_with_a_prompt_still_owed_is_refused() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=False)
    session.prefill(CHUNK)

    with pytest.raises(SessionStateError, match="extend"):
        session.extend([1, 2])


@pytest.mark.parametrize("bad", [[-1], [512], [1, 2, 10_000], [1, 2**63]])
def test_a_token_outside_the_vocabulary_is_refused(bad: list[int]) -> None:
    session = begun()
    before = parts(session)

    with pytest.raises(OptionError, match="tokens"):
        session.begin(bad, use_cache=False)
    with pytest.raises(OptionError, match="tokens"):
        session.extend(bad)

    assert parts(session) == before


def test_more_tokens_than_the_buffers_hold_are_refused_before_anything_happens() -> None:
    session = begun(max_seq_len=320)
    before = parts(session)

    with pytest.raises(CapacityError) as refusal:
        session.begin([1] * 321, use_cache=False)
    with pytest.raises(CapacityError):
        session.extend([1] * 21)
    with pytest.raises(CapacityError):
        session.decode(21)

    assert refusal.value.code == "capacity"
    assert parts(session) == before


def test_a_session_can_be_filled_to_its_last_row() -> None:
    session = begun(max_seq_len=320)

    session.decode(10)
    session.extend([1] * 10)

    assert session.position == 320


def test_a_closed_session_refuses_and_may_be_closed_again() -> None:
    session = begun()

    session.close()
    session.close()

    with pytest.raises(SessionStateError, match="closed"):
        session.layout()


def test_an_empty_prompt_leaves_an_empty_session() -> None:
    session = begun()

    cached = session.begin([], use_cache=True)
    session.prefill(0)

    assert (cached, session.position, session.logits()) == (0, 0, None)
    assert all(part.rows == 0 for part in session.layout().rows)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_reset_session_equals_a_fresh_one(arch: str) -> None:
    engine = shared_engine(arch)
    used, fresh = engine.open_session(), engine.open_session()
    used.begin(PROMPT, use_cache=False)
    used.prefill(len(PROMPT))
    used.decode(3, SAMPLER)

    used.reset()

    assert parts(used) == parts(fresh)


def test_metadata_says_position_lengths_and_what_is_valid() -> None:
    session = begun()
    before = decode_metadata(session.metadata())

    session.decode(3, SAMPLER)

    after = decode_metadata(session.metadata())
    assert (before.position, before.logits_valid, before.sampler_valid, before.decoded) == (300, True, False, 0)
    assert (after.position, after.logits_valid, after.sampler_valid, after.decoded) == (303, True, True, 3)
    assert after.layers == ((1, 303, 0, 0), (2, 303, 303, 9), (1, 303, 0, 0), (2, 303, 303, 9))


# -- captures --------------------------------------------------------------------------------


def test_an_abandoned_turn_captures_nothing_more_and_publishes_nothing() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=True)
    session.prefill(CHUNK)

    dropped = session.abandon()
    session.prefill(len(PROMPT))

    assert (dropped, session.commit()) == (1, 0)
    assert session.cache.entries() == []


def test_beginning_again_drops_what_was_pending() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=True)
    session.prefill(len(PROMPT))

    session.begin(tokens(2, 50), use_cache=True)
    session.commit()

    assert session.cache.entries() == []


@pytest.mark.parametrize("arch", ARCHS)
def test_capturing_changes_neither_parts_nor_tokens(arch: str) -> None:
    expected = cold(shared_engine(arch).open_session(), PROMPT)
    session = open_session(arch=arch)

    session.begin(PROMPT, use_cache=True)

    assert finish(session, PROMPT) == expected


def test_nothing_is_captured_by_extend_or_decode() -> None:
    session = open_session()
    session.begin(PROMPT, use_cache=True)
    session.prefill(len(PROMPT))
    before = session.cache.counters()["captures"]

    session.decode(4)
    session.extend(tokens(3, 300))
    session.commit()

    assert session.cache.counters()["captures"] == before == 2


def test_a_failed_restore_resets_the_session_and_raises() -> None:
    session = open_session()
    warm_up(session, PROMPT)
    key = session.cache.key(session.turn, PROMPT, 2 * CHUNK).hex
    session.cache.corrupt(key, "metadata", 8, 1)

    with pytest.raises(MetadataError):
        session.begin(PROMPT, use_cache=True)

    assert session.position == 0
    assert parts(session) == parts(session.engine.open_session())


def test_sessions_of_one_engine_share_the_cache_within_a_namespace() -> None:
    engine = TorchEngine(options())
    one, two = engine.open_session(), engine.open_session()
    other = engine.open_session(namespace="tenant")

    warm_up(one, PROMPT)

    assert two.begin(PROMPT, use_cache=True) == 2 * CHUNK
    assert other.begin(PROMPT, use_cache=True) == 0
    assert engine.cache.counters()["miss_never_captured"] == 2


def test_interleaved_sessions_do_not_disturb_each_other() -> None:
    engine = TorchEngine(options())
    first, second = engine.open_session(), engine.open_session()
    a, b = tokens(4, 300), tokens(5, 280)
    expected = cold(first, a), cold(second, b)

    first.begin(a, use_cache=True)
    second.begin(b, use_cache=True)
    for cut in (CHUNK, 2 * CHUNK):
        first.prefill(cut)
        second.prefill(cut)

    assert (finish(first, a), finish(second, b)) == expected


# -- explicit snapshots -----------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_a_session_restored_after_it_moved_on_continues_the_same(arch: str) -> None:
    session = begun(arch)
    session.decode(3, SAMPLER)
    handle = session.snapshot()
    expected = session.decode(5, SAMPLER), parts(session)
    session.extend(tokens(6, 100))

    session.restore(handle)

    assert (session.decode(5, SAMPLER), parts(session)) == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_taking_a_snapshot_changes_nothing(arch: str) -> None:
    session, twin = begun(arch), begun(arch)
    before = parts(session)

    session.snapshot()

    assert parts(session) == before
    assert session.decode(4, SAMPLER) == twin.decode(4, SAMPLER)


def test_a_fork_continues_like_its_source_and_both_go_their_ways() -> None:
    source = begun()
    source.decode(2, SAMPLER)
    fork = source.engine.open_session(namespace="fork")

    fork.restore(source.snapshot())
    first = fork.decode(4, SAMPLER), parts(fork)
    second = source.decode(4, SAMPLER), parts(source)

    assert first == second


def test_one_handle_restores_any_number_of_times() -> None:
    session = begun()
    handle = session.snapshot()

    runs = []
    for _ in range(3):
        session.restore(handle)
        runs.append((session.decode(4, SAMPLER), parts(session)))

    assert runs[0] == runs[1] == runs[2]


def test_an_empty_snapshot_restored_into_a_used_session_empties_it() -> None:
    engine = TorchEngine(options())
    empty, used = engine.open_session(), engine.open_session()
    used.begin(PROMPT, use_cache=False)
    used.prefill(len(PROMPT))

    used.restore(empty.snapshot())

    assert parts(used) == parts(empty)
    assert used.logits() is None


def test_a_snapshot_in_the_middle_of_a_prompt_still_owes_the_rest() -> None:
    session = open_session()
    expected = cold(session, PROMPT)
    session.begin(PROMPT, use_cache=False)
    session.prefill(CHUNK)
    handle = session.snapshot()
    other = session.engine.open_session()

    other.restore(handle)

    assert other.boundaries() == (CHUNK, 2 * CHUNK)
    assert finish(other, PROMPT) == expected


def test_a_restored_session_carries_the_token_history_for_penalties() -> None:
    session = begun()
    session.decode(5, SAMPLER)
    history = session.history()
    other = session.engine.open_session()

    other.restore(session.snapshot())

    assert other.history() == history
    assert history[: len(PROMPT)] == PROMPT


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"arch": "attention"}, "model", "identity"),
        ({"seed": 1}, "model", "identity"),
        ({"chunk": 256}, "chunk", "identity"),
        ({"k_type": "bf16"}, "k_type", "kv_mode"),
        ({"recurrent_type": "bf16"}, "recurrent_type", "kv_mode"),
    ],
)
def test_a_snapshot_of_another_kind_of_session_is_refused_and_nothing_is_touched(
    change: dict[str, object], field: str, code: str
) -> None:
    handle = begun().snapshot()
    session = open_session(**change)
    session.begin(tokens(7, 60), use_cache=False)
    session.prefill(60)
    before = parts(session)

    with pytest.raises((IdentityError, KVModeError), match=f"identity.{field}") as refusal:
        session.restore(handle)

    assert refusal.value.code == code
    assert parts(session) == before


def test_a_snapshot_longer_than_the_buffers_is_refused_and_nothing_is_touched() -> None:
    handle = begun().snapshot()
    session = open_session(max_seq_len=64)
    session.begin(tokens(7, 60), use_cache=False)
    session.prefill(60)
    before = parts(session)

    with pytest.raises(CapacityError):
        session.restore(handle)

    assert parts(session) == before


def test_damaged_metadata_of_a_handle_is_refused_and_nothing_is_touched() -> None:
    session = begun()
    handle = session.snapshot()
    session.engine.corrupt_handle(handle, "metadata", 8, 1)
    before = parts(session)

    with pytest.raises(MetadataError):
        session.restore(handle)

    assert parts(session) == before


def test_a_dropped_handle_is_a_named_error_and_frees_its_bytes() -> None:
    session = begun()
    handle = session.snapshot()
    held = session.engine.handle_bytes

    session.engine.drop(handle)
    session.engine.drop(handle)

    assert held > 0
    assert session.engine.handle_bytes == 0
    with pytest.raises(MissingError, match="dropped"):
        session.restore(handle)


def test_a_snapshot_past_the_budget_is_refused() -> None:
    session = begun(snapshot_bytes=1000)

    with pytest.raises(BudgetError) as refusal:
        session.snapshot()

    assert refusal.value.code == "budget"
    assert session.engine.handle_bytes == 0


def test_a_flipped_bit_of_a_handle_shows_in_exactly_that_part() -> None:
    session = begun()
    session.decode(1, SAMPLER)
    handle = session.snapshot()
    right = parts(session)

    for part in session.layout().parts():
        session.engine.corrupt_handle(handle, part.name, 0, 1)
        session.restore(handle)
        wrong = [name for name, value in parts(session).items() if value != right[name]]
        session.engine.corrupt_handle(handle, part.name, 0, 1)
        assert wrong == [part.name] or (part.name == "sampler.rng" and "metadata" in wrong)


def test_a_flipped_bit_of_live_state_changes_that_part_and_what_follows() -> None:
    session, twin = begun(), begun()

    session.corrupt("layer0.recurrent", 3, 0x40)

    wrong = [name for name, value in parts(session).items() if value != parts(twin)[name]]
    session.decode(1)
    twin.decode(1)
    first, second = session.logits(), twin.logits()
    assert wrong == ["layer0.recurrent"]
    assert first is not None
    assert second is not None
    assert not torch.equal(first, second)


@pytest.mark.parametrize("part", ["layer1.k", "layer1.index_pooled", "sampler.history"])
def test_only_valid_rows_can_be_flipped(part: str) -> None:
    session = begun()
    size = session.layout().part(part).nbytes

    with pytest.raises(LayoutError, match="byte offset"):
        session.corrupt(part, size, 1)


# -- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"k_type": "q5_1"},
        {"k_type": ""},
        {"index_type": "q8_0"},
        {"conv_type": "q8_0"},
        {"v_type": "f64"},
        {"recurrent_type": "f16"},
        {"chunk": 100},
        {"chunk": 0},
        {"threads": 0},
        {"cache_bytes": -1},
        {"poison": "random"},
        {"device": "tpu"},
        {"device": "cuda:99"},
        {"preset": "huge"},
    ],
)
def test_an_option_out_of_range_is_refused_by_name(change: dict[str, object]) -> None:
    with pytest.raises(OptionError) as refusal:
        TorchEngine(options(**change))

    assert str(next(iter(change.values()))) in str(refusal.value)


def test_a_route_that_is_not_implemented_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="tree") as refusal:
        shared_engine().open_session(route="tree")

    assert refusal.value.code == "unsupported"


def test_an_unknown_session_option_is_refused() -> None:
    with pytest.raises(OptionError, match="colour"):
        shared_engine().open_session(colour="red")


def test_turns_without_a_turn_token_are_refused() -> None:
    with pytest.raises(OptionError, match="turn_token"):
        shared_engine().open_session(turns=True)


@pytest.mark.parametrize("change", [{"temperature_ppm": 0}, {"top_p_ppm": 0}, {"top_p_ppm": 1_000_001}, {"top_k": -1}])
def test_a_sampler_out_of_range_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        Sampling(**change)


def test_top_k_of_one_is_greedy() -> None:
    greedy, narrow = begun(), begun()

    assert greedy.decode(6, Greedy()) == narrow.decode(6, Sampling(top_k=1, seed=3))


def test_a_penalty_keeps_the_last_tokens_from_coming_back() -> None:
    session = begun()

    ids = session.decode(40, Sampling(top_k=1, repetition_ppm=100_000_000, repetition_window=64))

    assert len(set(ids)) > 30


def test_the_generator_continues_its_stream_and_starts_over_for_another_seed() -> None:
    rng = SamplerState(torch.zeros(3, dtype=torch.int64))
    rng.start(1)
    first = [rng.draw(), rng.draw()]

    rng.start(1)
    third = rng.draw()
    rng.start(2)
    rng.start(1)

    assert third not in first
    assert [rng.draw(), rng.draw(), rng.draw()] == [*first, third]


def test_a_subclass_can_put_its_own_classes_in_place() -> None:
    class Cache(SessionCache):
        pass

    class Session(TorchSession):
        pass

    class Engine(TorchEngine):
        cache_class = Cache
        session_class = Session

    engine = Engine(options())

    assert isinstance(engine.cache, Cache)
    assert isinstance(engine.open_session(), Session)


# -- bytes from elsewhere ----------------------------------------------------------------------


def exported(session: TorchSession) -> dict[str, bytes]:
    """A copy of every part's valid bytes."""
    views = {part.name: part.valid() for part in session.layout("session").parts()}
    return {
        name: view.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if view.numel() else b""
        for name, view in views.items()
    }


@pytest.mark.parametrize("arch", ARCHS)
def test_a_session_adopted_from_bytes_continues_like_its_source(arch: str) -> None:
    source = begun(arch)
    source.decode(3, SAMPLER)
    meta, data = source.metadata(), exported(source)
    other = source.engine.open_session()

    other.adopt(meta, data, PROMPT)

    assert parts(other) == parts(source)
    assert other.boundaries() == source.boundaries()
    assert other.decode(4, SAMPLER) == source.decode(4, SAMPLER)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: {name: value for name, value in data.items() if name != "layer1.k"},
        lambda data: data | {"layer9.k": b"\0"},
        lambda data: data | {"layer1.k": data["layer1.k"][:-1]},
    ],
)
def test_bytes_that_do_not_fit_are_refused_and_nothing_is_touched(
    change: Callable[[dict[str, bytes]], dict[str, bytes]],
) -> None:
    source = begun()
    data = change(exported(source))
    other = source.engine.open_session()
    before = parts(other)

    with pytest.raises(LayoutError, match=r"layer\d\.k: expected"):
        other.adopt(source.metadata(), data)

    assert parts(other) == before
