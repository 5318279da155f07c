"""Route mtp: the draft head's own state, and speculative decoding that changes no token and no target state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.torch_engine import Greedy, Sampling, TorchEngine, TorchSession
from harness.torch_engine.errors import IdentityError, OptionError, SessionStateError
from harness.torch_engine.loading import draft_digest
from harness.torch_engine.metadata import KIND_CODES, decode_metadata
from harness.torch_engine.models.config import TILE, model_config
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.viewing import shown
from tests.torch_engine.support import (
    ARCHS,
    CHUNK,
    cold,
    digest,
    finish,
    options,
    parts,
    shared_engine,
    tokens,
    warm_up,
)

PROMPT = tokens(1, CHUNK + 37)
FORCES = ("", "reject", "accept", "partial")
SAMPLER = Sampling(temperature_ppm=900_000, top_k=30, seed=5, repetition_ppm=1_300_000, repetition_window=6)
DRAFT_PARTS = {
    "draft.selection",
    "draft.carry",
    "draft.seed",
    "draft.policy",
    "draft.pending",
    "draft.k",
    "draft.v",
    "draft.index_raw",
    "draft.index_pooled",
}
GOLDEN = {
    ("tiny", "hybrid"): "de084f8c8808b0705bb1e79415926670d48669a9c31f37e6f9a6f2275647b215",
    ("tiny", "sliding"): "de084f8c8808b0705bb1e79415926670d48669a9c31f37e6f9a6f2275647b215",
    ("small", "hybrid"): "61fcf1f3931b417cd405bff8d74eac289be12801f9bd9931a06552d4916301a2",
    ("deep", "attention"): "de084f8c8808b0705bb1e79415926670d48669a9c31f37e6f9a6f2275647b215",
}


def opened(arch: str = "hybrid", **changes: object) -> TorchSession:
    """A session of route mtp on the shared engine."""
    return shared_engine(arch).open_session(route="mtp", **changes)


def begun(session: TorchSession, prompt: list[int] = PROMPT) -> TorchSession:
    """The session with a prompt forwarded, without the cache."""
    session.begin(prompt, use_cache=False)
    session.prefill(len(prompt))
    return session


def target_parts(session: TorchSession) -> dict[str, str]:
    """Digests of what both routes have; part 0 without the head's entries."""
    meta = decode_metadata(session.metadata())
    found = {name: value for name, value in parts(session).items() if not name.startswith("draft.")}
    own = meta.layers[: len(session.buffers.layers)]
    return found | {"metadata": repr((meta.position, meta.decoded, meta.logits_valid, meta.sampler_valid, own))}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_weights_of_the_draft_head_have_the_committed_digest(name: tuple[str, str]) -> None:
    found = draft_digest(model_config(*name))

    assert found == GOLDEN[name]


def test_the_parts_of_the_head_are_of_one_family_and_one_position_behind() -> None:
    session = begun(opened())

    found = {part.name: part for part in session.layout("session").parts() if part.family == "draft"}

    assert set(found) == DRAFT_PARTS
    assert {found[f"draft.{name}"].shape[0] for name in ("k", "v", "index_raw")} == {len(PROMPT) - 1}
    assert found["draft.index_pooled"].shape[0] == (len(PROMPT) - 1) // 32
    session.layout("session").validate()


def test_part_0_has_an_entry_of_the_head_and_one_of_the_drafter() -> None:
    session = begun(opened())
    session.decode(7)

    head, drafter = decode_metadata(session.metadata()).layers[-2:]

    rows = len(PROMPT) + 6
    assert head == (KIND_CODES["draft"], rows, rows, rows // 32)
    assert drafter[0] == KIND_CODES["drafter"]
    assert drafter[1:] == (1, 6, 1)


def test_the_seed_is_the_best_token_of_the_pending_logits() -> None:
    session = opened()
    session.begin(PROMPT, use_cache=False)

    session.prefill(CHUNK)
    before = int(session.layout().part("draft.seed").tensor)
    session.prefill(len(PROMPT))

    assert before == -1
    assert int(session.layout().part("draft.seed").tensor) == session.decode(1)[0]


@pytest.mark.parametrize("force", FORCES)
@pytest.mark.parametrize("arch", ARCHS)
def test_tokens_and_target_state_equal_plain_decoding(arch: str, force: str) -> None:
    sampler: Sampler = Greedy() if force in ("", "partial") else SAMPLER
    plain = begun(shared_engine(arch).open_session())
    expected = plain.decode(19, sampler)
    session = begun(opened(arch, draft_force=force))

    found = session.decode(19, sampler)

    assert found == expected
    assert target_parts(session) == target_parts(plain)


@pytest.mark.parametrize("force", FORCES)
def test_how_calls_divide_the_tokens_changes_nothing(force: str) -> None:
    whole = begun(opened(draft_force=force))
    expected = whole.decode(23, SAMPLER)
    divided = begun(opened(draft_force=force))

    found = [token for count in (1, 4, 2, 7, 3, 6) for token in divided.decode(count, SAMPLER)]

    assert found == expected
    assert parts(divided) == parts(whole)


def test_rows_of_the_head_do_not_depend_on_what_was_drafted() -> None:
    found = []
    for force in FORCES:
        session = begun(opened(draft_force=force))
        session.decode(20)
        found.append({name: parts(session)[name] for name in ("draft.k", "draft.index_pooled", "draft.carry")})

    assert all(other == found[0] for other in found)


@pytest.mark.parametrize(
    ("force", "expected"),
    [
        ("reject", {"draft_accepted": 0, "draft_rejected": 2 + 11, "draft_proposed": 2 + 11 + 1, "rollbacks": 12}),
        ("accept", {"draft_accepted": 9, "draft_rejected": 0, "draft_proposed": 2 + 3 + 4 + 4, "rollbacks": 0}),
    ],
)
def test_forced_modes_are_counted(force: str, expected: dict[str, int]) -> None:
    session = begun(TorchEngine(options()).open_session(route="mtp", draft_force=force))

    session.decode(13)

    counters = session.cache.counters()
    assert {name: counters[name] for name in expected} == expected


def test_partial_acceptance_accepts_rejects_and_rolls_back() -> None:
    session = begun(TorchEngine(options()).open_session(route="mtp", draft_force="partial"))

    session.decode(24)

    counters = session.cache.counters()
    assert min(counters[name] for name in ("draft_accepted", "draft_rejected", "rollbacks")) > 1


def test_the_depth_grows_with_right_drafts_and_shrinks_with_wrong_ones() -> None:
    right, wrong = begun(opened(draft_force="accept", draft_depth=5)), begun(opened(draft_force="reject"))

    right.decode(24)
    wrong.decode(6)

    assert decode_metadata(right.metadata()).layers[-1][1] == 5
    assert decode_metadata(wrong.metadata()).layers[-1][1] == 1


@pytest.mark.parametrize("arch", ARCHS)
def test_a_prefix_restored_from_the_cache_equals_a_cold_run(arch: str) -> None:
    prompt = tokens(3, 2 * CHUNK + 21)
    engine = TorchEngine(options(arch=arch))
    session = engine.open_session(route="mtp", draft_force="partial")
    expected = cold(session, prompt)
    warm_up(session, prompt)

    cached = session.begin(prompt, use_cache=True)
    found = finish(session, prompt)

    assert cached == 2 * CHUNK
    assert found == expected


def test_the_draft_parts_at_a_boundary_equal_those_of_a_cold_run() -> None:
    prompt = tokens(4, 3 * CHUNK)
    engine = TorchEngine(options())
    session, reference = engine.open_session(route="mtp"), engine.open_session(route="mtp")
    warm_up(session, prompt)
    session.decode(9)
    reference.begin(prompt, use_cache=False)
    reference.prefill(2 * CHUNK)

    session.begin(prompt, use_cache=True)

    assert parts(session) == parts(reference)


def test_two_routes_share_no_snapshot() -> None:
    engine = TorchEngine(options())
    prompt = tokens(4, 2 * CHUNK)
    plain, drafting = engine.open_session(), engine.open_session(route="mtp")
    warm_up(plain, prompt)

    cached = drafting.begin(prompt, use_cache=True)

    assert cached == 0
    with pytest.raises(IdentityError):
        drafting.restore(plain.snapshot())


@pytest.mark.parametrize("force", FORCES)
@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_a_handle_taken_between_tokens_brings_everything_back(after: int, force: str) -> None:
    session = begun(opened(draft_force=force))
    session.decode(after, SAMPLER)
    saved, handle = parts(session), session.snapshot()
    expected = session.decode(9, SAMPLER)
    end = parts(session)
    other = begun(opened(draft_force=force, namespace="fork"), tokens(9, 200))
    other.decode(5)

    other.restore(handle)

    assert parts(other) == saved
    assert other.decode(9, SAMPLER) == expected
    assert parts(other) == end
    session.engine.drop(handle)


def test_another_turn_after_drafting_equals_plain_decoding() -> None:
    plain, session = begun(shared_engine().open_session()), begun(opened(draft_force="accept"))
    for each in (plain, session):
        each.decode(6)
        each.extend(tokens(7, 90))

    assert session.decode(5) == plain.decode(5)
    assert target_parts(session) == target_parts(plain)


def test_the_choice_of_blocks_is_renewed_when_a_tile_begins_and_rolled_back_with_a_draft() -> None:
    prompt = tokens(5, 4 * TILE)
    session = begun(opened(draft_force="reject"), prompt)
    choice = session.layout().part("draft.selection").tensor
    before = choice.tolist()

    session.decode(1)
    within = choice.tolist()
    session.decode(3)

    assert before == within
    assert choice.tolist() != before


@pytest.mark.parametrize("step", [0, 1, 2])
def test_an_error_inside_a_verify_leaves_the_state_as_before_it(step: int) -> None:
    session = begun(opened(draft_force="accept"))
    session.decode(1, SAMPLER)
    expected, before = begun(opened(draft_force="accept")).decode(9, SAMPLER), begun(opened(draft_force="accept"))

    def fail(_: TorchSession, at: int) -> None:
        if at == step:
            raise RuntimeError("lost")

    assert session.speculator is not None
    session.speculator.on_verify = fail
    with pytest.raises(RuntimeError, match="lost"):
        session.decode(8, SAMPLER)
    session.speculator.on_verify = None

    done = session.decoded
    assert before.decode(done, SAMPLER) == expected[:done]
    assert parts(session) == parts(before)
    assert session.decode(9 - done, SAMPLER) == expected[done:]


@pytest.mark.parametrize("call", ["snapshot", "restore", "reset", "decode", "begin", "extend"])
def test_calls_inside_a_verify_are_refused_and_change_nothing(call: str) -> None:
    session, plain = begun(opened(draft_force="accept")), begun(opened(draft_force="accept"))
    handle = session.snapshot()
    refused: list[str] = []
    calls: dict[str, Callable[[], object]] = {
        "snapshot": session.snapshot,
        "restore": lambda: session.restore(handle),
        "reset": session.reset,
        "decode": lambda: session.decode(1),
        "begin": lambda: session.begin(PROMPT, use_cache=False),
        "extend": lambda: session.extend([1, 2]),
    }

    def inside(_: TorchSession, at: int) -> None:
        with pytest.raises(SessionStateError) as refusal:
            calls[call]()
        refused.append(f"{at} {refusal.value.code}")

    assert session.speculator is not None
    session.speculator.on_verify = inside
    found = session.decode(6)
    session.speculator.on_verify = None

    assert "0 state" in refused
    assert "2 state" in refused
    assert found == plain.decode(6)
    assert parts(session) == parts(plain)
    session.engine.drop(handle)


@pytest.mark.parametrize("route", ["ar", "mtp"])
@pytest.mark.parametrize("ask", ["snapshot", "restore", "export", "begin", "extend", "decode", "reset", "pin"])
def test_what_is_asked_in_the_middle_of_a_call_is_refused_and_changes_nothing(ask: str, route: str) -> None:
    engine = shared_engine()
    plain, session = (engine.open_session(route=route, resident=True) for _ in range(2))
    handle = begun(plain).snapshot()
    asked: Callable[[], object] = {
        "snapshot": session.snapshot,
        "restore": lambda: session.restore(handle),
        "export": lambda: engine.imager.size(session),
        "begin": lambda: session.begin(PROMPT, use_cache=True),
        "extend": lambda: session.extend([9, 10]),
        "decode": lambda: session.decode(1),
        "reset": session.reset,
        "pin": lambda: session.pin(64),
    }[ask]
    refused: list[str] = []

    def inside(busy: TorchSession) -> None:
        with pytest.raises(SessionStateError):
            asked()
        refused.append(busy.doing)

    session.on_progress = inside
    found = begun(session).decode(5)

    assert set(refused) == {"prefill", "decode" if route == "ar" else "verify"}
    assert found == plain.decode(5)
    assert parts(session) == parts(plain)
    engine.drop(handle)


def test_a_hook_that_raises_ends_a_verify_as_if_it_had_not_begun() -> None:
    plain, session = begun(opened(draft_force="accept")), begun(opened(draft_force="accept"))
    session.on_progress = saved

    with pytest.raises(SessionStateError, match="verify"):
        session.decode(5)
    after = parts(session)
    session.on_progress = None

    assert after == parts(plain)
    assert session.decode(5) == plain.decode(5)
    assert parts(session) == parts(plain)


def test_a_hook_that_raises_ends_a_prefill_with_a_reset_session() -> None:
    fresh, session = opened(), opened()
    session.on_progress = saved

    with pytest.raises(SessionStateError, match="prefill"):
        begun(session)

    assert parts(session) == parts(fresh)


def saved(session: TorchSession) -> None:
    """Ask for a snapshot and let its refusal end the call."""
    session.snapshot()


def test_the_view_of_the_target_is_what_plain_decoding_shows() -> None:
    plain = begun(shared_engine().open_session())
    session = begun(opened(draft_force="partial", view="target"))
    for each in (plain, session):
        each.decode(8)

    (expected_meta, expected), (meta, found) = shown(plain), shown(session)

    assert meta == expected_meta
    assert [(p.name, p.shape, digest(p.valid())) for p in found] == [
        (p.name, p.shape, digest(p.valid())) for p in expected
    ]
    assert len(shown(begun(opened()))[1]) == len(found) + len(DRAFT_PARTS)


def test_a_head_that_does_not_stand_one_behind_is_not_saved() -> None:
    session = begun(opened())
    assert session.buffers.draft is not None
    session.buffers.draft.truncate(5)

    with pytest.raises(SessionStateError, match="draft head at 164"):
        session.snapshot()


def test_drafts_stop_at_the_end_of_the_buffers() -> None:
    prompt = tokens(6, 250)
    engine = TorchEngine(options(max_seq_len=256, poison="nan"))
    plain, session = begun(engine.open_session(), prompt), begun(engine.open_session(route="mtp"), prompt)

    assert session.decode(6) == plain.decode(6)
    assert session.position == 256
    assert target_parts(session) == target_parts(plain)


@pytest.mark.parametrize("poison", ["nan", "noise"])
def test_memory_behind_the_rows_of_the_head_does_not_matter(poison: str) -> None:
    expected = begun(opened(draft_force="partial"))
    expected.decode(12)
    session = begun(TorchEngine(options(poison=poison)).open_session(route="mtp", draft_force="partial"))

    session.decode(12)

    assert parts(session) == parts(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"view": "draft_"},
        {"draft_depth": 0},
        {"draft_depth": 9},
        {"draft_force": "often"},
        {"route": "ar", "draft_force": "reject"},
    ],
)
def test_options_of_the_drafter_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="draft_"):
        shared_engine().open_session(**({"route": "mtp"} | wrong))
