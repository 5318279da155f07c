"""What the engine claims: a restored session continues bit for bit like a cold one."""

from __future__ import annotations

import pytest

from harness.torch_engine import Sampling, TorchEngine
from harness.torch_engine.sampling import PPM
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

GRID = (1, 65, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 64, 4 * CHUNK + 37)
TYPES = [("f32", "f32", "f32"), ("f16", "f16", "f32"), ("bf16", "bf16", "bf16"), ("f32", "f16", "f32"), ("bf16", "f32", "bf16")]  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("length", GRID)
def test_a_restored_prompt_equals_a_cold_one(arch: str, length: int) -> None:
    prompt = tokens(1, length)
    session = open_session(arch=arch)
    expected = cold(session, prompt)
    warm_up(session, prompt)

    cached = session.begin(prompt, use_cache=True)
    found = finish(session, prompt)

    assert cached == (length - 1) // CHUNK * CHUNK
    assert found == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_a_cold_run_repeats(arch: str) -> None:
    prompt = tokens(2, 300)
    engine = shared_engine(arch)

    first, second = cold(engine.open_session(), prompt), cold(engine.open_session(), prompt)

    assert first == second


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("k_type", "v_type", "recurrent_type"), TYPES)
def test_every_pair_of_element_types_restores_exactly(arch: str, k_type: str, v_type: str, recurrent_type: str) -> None:
    prompt = tokens(3, 2 * CHUNK + 50)
    session = open_session(arch=arch, k_type=k_type, v_type=v_type, recurrent_type=recurrent_type)
    expected = cold(session, prompt)
    warm_up(session, prompt)

    cached = session.begin(prompt, use_cache=True)

    assert cached == 2 * CHUNK
    assert finish(session, prompt) == expected


def test_element_types_really_differ() -> None:
    prompt = tokens(3, 200)

    outcomes = [cold(open_session(k_type=k), prompt).logits for k in ("f32", "f16", "bf16")]

    assert len(set(outcomes)) == 3


@pytest.mark.parametrize("preset", ["small", "deep"])
@pytest.mark.parametrize("arch", ARCHS)
def test_larger_presets_restore_exactly(preset: str, arch: str) -> None:
    prompt = tokens(4, 2 * CHUNK + 20)
    session = open_session(preset=preset, arch=arch)
    expected = cold(session, prompt)
    warm_up(session, prompt)

    cached = session.begin(prompt, use_cache=True)

    assert cached == 2 * CHUNK
    assert finish(session, prompt) == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_a_session_with_the_cache_on_equals_one_with_the_cache_off(arch: str) -> None:
    prompt = tokens(5, 3 * CHUNK + 10)
    expected = cold(open_session(arch=arch, cache_bytes=0), prompt)
    session = open_session(arch=arch)

    session.begin(prompt, use_cache=True)

    assert finish(session, prompt) == expected


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("pattern", ["zero", "nan", "noise"])
def test_unused_memory_never_matters(arch: str, pattern: str) -> None:
    prompt = tokens(6, 2 * CHUNK + 90)
    expected = cold(shared_engine(arch).open_session(), prompt)
    session = open_session(arch=arch, poison=pattern)
    warm_up(session, tokens(7, 1000))

    fresh = cold(session, prompt)
    warm_up(session, prompt)
    cached = session.begin(prompt, use_cache=True)

    assert fresh == expected
    assert cached == 2 * CHUNK
    assert finish(session, prompt) == expected


@pytest.mark.parametrize("length", [127, 128, 129, 255, 256, 257])
def test_a_ring_restored_around_its_window_equals_a_cold_one(length: int) -> None:
    prompt = tokens(8, length + 70)
    session = open_session(arch="sliding", chunk=64)
    expected = cold(session, prompt)
    warm_up(session, prompt[:length])

    cached = session.begin(prompt, use_cache=True)

    assert cached == (length - 1) // 64 * 64
    assert finish(session, prompt) == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_a_chain_of_prompts_equals_the_same_prompts_cold(arch: str) -> None:
    a = tokens(10, 4 * CHUNK - 30)
    b = tokens(11, CHUNK - 10)
    c = a[: 2 * CHUNK + 40] + tokens(12, 40)
    session = open_session(arch=arch)
    expected = [cold(session, prompt) for prompt in (a, b, c, a)]

    found, cached = [], []
    for prompt in (a, b, c, a):
        cached.append(session.begin(prompt, use_cache=True))
        found.append(finish(session, prompt))
        session.commit()

    assert cached == [0, 0, 2 * CHUNK, 3 * CHUNK]
    assert found == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_turn_ends_restore_exactly_against_the_same_split(arch: str) -> None:
    prompt = tokens(13, 300)
    prompt[39] = prompt[100] = prompt[170] = 500
    prompt = [500 if i in {39, 100, 170} else (t if t != 500 else 1) for i, t in enumerate(prompt)]
    session = TorchEngine(options(arch=arch)).open_session(turn_token=500)
    expected = cold(session, prompt)
    warm_up(session, prompt)
    branch = [*prompt[:101], 5, 6, 7]
    branch_cold = cold(session, branch)

    cached = session.begin(prompt, use_cache=True)
    found = finish(session, prompt)
    branch_cached = session.begin(branch, use_cache=True)
    branch_found = finish(session, branch)

    assert session.schedule.boundaries(prompt, 0, 300) == (40, 101, 128, 171, 256)
    assert (cached, branch_cached) == (256, 101)
    assert found == expected
    assert branch_found == branch_cold


def test_a_decode_with_sampling_after_a_restore_equals_the_cold_one() -> None:
    prompt = tokens(14, 2 * CHUNK + 30)
    sampler = Sampling(temperature_ppm=800_000, top_k=40, top_p_ppm=900_000, seed=9, repetition_ppm=1_200_000)
    session = open_session()
    session.begin(prompt, use_cache=False)
    expected = finish(session, prompt, sampler)
    warm_up(session, prompt)

    session.begin(prompt, use_cache=True)

    assert finish(session, prompt, sampler) == expected


@pytest.mark.parametrize("arch", ARCHS)
def test_a_second_turn_after_a_restore_equals_the_cold_one(arch: str) -> None:
    prompt, more = tokens(15, 2 * CHUNK + 70), tokens(16, 150)
    session = open_session(arch=arch)

    def two_turns(*, use_cache: bool) -> tuple[list[int], dict[str, str]]:
        session.begin(prompt, use_cache)
        session.prefill(len(prompt))
        session.decode(5)
        session.extend(more)
        return session.decode(5), parts(session)

    expected = two_turns(use_cache=False)
    warm_up(session, prompt)

    assert two_turns(use_cache=True) == expected


def test_prefill_in_one_call_or_cut_by_cut_makes_the_same_calls() -> None:
    prompt = tokens(17, 3 * CHUNK + 5)
    session = shared_engine().open_session()
    expected = cold(session, prompt)

    session.begin(prompt, use_cache=False)
    for cut in session.boundaries():
        session.prefill(cut)

    assert finish(session, prompt) == expected


def test_two_threads_run_to_the_end_and_restore_exactly() -> None:
    prompt = tokens(18, 2 * CHUNK + 30)
    session = open_session(threads=2)
    expected = cold(session, prompt)
    warm_up(session, prompt)

    session.begin(prompt, use_cache=True)

    assert finish(session, prompt) == expected
    assert session.engine.identity()["setting.threads"] == 2


def test_every_planted_bit_in_a_cached_part_is_seen_right_after_the_restore() -> None:
    prompt = tokens(19, 2 * CHUNK + 10)
    engine = TorchEngine(options())
    session = engine.open_session()
    warm_up(session, prompt)
    key = engine.cache.key(session.turn, prompt, 2 * CHUNK).hex
    session.begin(prompt, use_cache=True)
    right = parts(session)

    for part in session.layout("prefix").parts():
        engine.cache.corrupt(key, part.name, 3, 0x20)
        session.begin(prompt, use_cache=True)
        wrong = [name for name, value in parts(session).items() if value != right[name]]
        engine.cache.corrupt(key, part.name, 3, 0x20)
        assert wrong == [part.name]


def test_a_temperature_of_one_and_all_candidates_is_plain_sampling() -> None:
    prompt = tokens(20, 100)
    session = shared_engine().open_session()

    runs = []
    for seed in (1, 1, 2):
        session.begin(prompt, use_cache=False)
        session.prefill(100)
        runs.append(session.decode(12, Sampling(temperature_ppm=PPM, seed=seed)))

    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
