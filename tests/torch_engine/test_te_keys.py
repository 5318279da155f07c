"""Keys and cuts are pure functions of tokens and identity."""

from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.torch_engine import SessionOptions, TorchEngine
from harness.torch_engine.keys import (
    CacheKey,
    Schedule,
    encode_domain,
    prefix_fingerprint,
    prefix_fingerprints,
)
from tests.torch_engine.support import options, tokens

CHUNKS = Schedule(chunk=128)
TURNS = Schedule(chunk=128, turn_token=7)


def test_a_fingerprint_is_the_first_eight_bytes_of_sha256_over_u32_tokens() -> None:
    prompt = [1, 2, 500]

    found = prefix_fingerprint(prompt)

    digest = hashlib.sha256(struct.pack("<3I", *prompt)).digest()
    assert found == int.from_bytes(digest[:8], "little")


@settings(deadline=None)
@given(st.lists(st.integers(0, 511), max_size=40), st.sets(st.integers(0, 40)))
def test_one_pass_gives_the_same_fingerprints_as_one_by_one(prompt: list[int], cuts: set[int]) -> None:
    inside = sorted(cut for cut in cuts if cut <= len(prompt))

    found = prefix_fingerprints(prompt, inside)

    assert found == [prefix_fingerprint(prompt[:cut]) for cut in inside]


def test_chunk_cuts_exclude_the_lower_and_include_the_upper_limit() -> None:
    prompt = tokens(1, 512)

    cuts = CHUNKS.boundaries(prompt, 128, 384)

    assert cuts == (256, 384)


def test_no_cut_lies_past_the_end_of_the_prompt() -> None:
    prompt = tokens(1, 300)

    cuts = CHUNKS.boundaries(prompt, 0, 10_000)

    assert cuts == (128, 256)


def test_turn_ends_and_chunks_are_united_and_deduplicated() -> None:
    prompt = [1] * 300
    prompt[9] = prompt[10] = prompt[127] = prompt[299] = 7

    cuts = TURNS.boundaries(prompt, 0, 300)

    assert cuts == (10, 11, 128, 256, 300)


def test_turn_ends_respect_both_limits() -> None:
    prompt = [1] * 100
    prompt[9] = prompt[19] = prompt[29] = 7

    cuts = TURNS.boundaries(prompt, 10, 30)

    assert cuts == (20, 30)


@settings(deadline=None)
@given(st.lists(st.sampled_from([1, 7]), max_size=300), st.integers(0, 300), st.integers(0, 400))
def test_cuts_of_a_part_are_the_cuts_of_the_whole_in_that_part(prompt: list[int], after: int, up_to: int) -> None:
    schedule = Schedule(chunk=64, turn_token=7)

    whole = schedule.boundaries(prompt, 0, len(prompt))

    part = schedule.boundaries(prompt, after, up_to)
    assert part == tuple(cut for cut in whole if after < cut <= up_to)


def test_every_identity_field_alone_changes_the_domain() -> None:
    engine = TorchEngine(options())
    fields = engine.session_identity(SessionOptions(chunk=128))

    domains = {encode_domain(fields)}
    for name, value in fields.items():
        domains.add(encode_domain(fields | {name: f"{value}x" if isinstance(value, str) else value + 1}))

    assert len(domains) == len(fields) + 1


@pytest.mark.parametrize(
    "other",
    [
        {"chunk": 256},
        {"namespace": "tenant"},
        {"turns": True, "turn_token": 7},
    ],
)
def test_every_session_choice_has_a_domain_of_its_own(other: dict[str, object]) -> None:
    engine = TorchEngine(options())

    plain, changed = engine.open_session(), engine.open_session(**other)

    assert plain.turn.domain != changed.turn.domain


@pytest.mark.parametrize(
    "other",
    [{"k_type": "f16"}, {"v_type": "bf16"}, {"recurrent_type": "bf16"}, {"seed": 1}, {"threads": 2},
     {"arch": "attention"}, {"preset": "small"}],
)  # fmt: skip
def test_every_engine_choice_that_changes_bits_has_a_domain_of_its_own(other: dict[str, object]) -> None:
    plain = TorchEngine(options()).open_session()

    changed = TorchEngine(options(**other)).open_session()

    assert plain.turn.domain != changed.turn.domain


def test_how_much_room_there_is_is_no_part_of_a_domain() -> None:
    """A server scales it to the memory that is free, so that keys with it would miss after each start."""
    plain = TorchEngine(options()).open_session()

    roomier = TorchEngine(options(max_seq_len=2048)).open_session()

    assert plain.turn.domain == roomier.turn.domain
    assert plain.identity != roomier.identity


def test_the_hex_of_a_key_depends_on_all_of_it() -> None:
    key = CacheKey(domain=b"a", boundary=1, fingerprint=2)

    others = (
        CacheKey(domain=b"b", boundary=1, fingerprint=2),
        CacheKey(domain=b"a", boundary=2, fingerprint=2),
        CacheKey(domain=b"a", boundary=1, fingerprint=3),
    )

    assert len({key.hex, *(other.hex for other in others)}) == 4
