"""Going on without a restore of rows: live state, a resident prefix, a pinned prefix."""

from __future__ import annotations

import pytest

from harness.torch_engine import TorchEngine, TorchSession
from harness.torch_engine.errors import BudgetError, MetadataError, OptionError, UnsupportedError
from harness.torch_engine.metadata import decode_metadata
from tests.torch_engine.support import ARCHS, CHUNK, cold, finish, options, parts, shared_engine, tokens, warm_up

A = tokens(1, 3 * CHUNK + 40)
A2 = A[: 2 * CHUNK + 30] + tokens(2, CHUNK)
B = tokens(3, CHUNK + 9)
ROUTES = [{"route": "ar"}, {"route": "mtp", "draft_force": "partial"}]
IDS = ["ar", "mtp"]


def counted(session: TorchSession, *names: str) -> list[int]:
    """Some of the cache's counters."""
    found = session.cache.counters()
    return [found[name] for name in names]


# -- live --------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [*ROUTES, {"owed": True}], ids=[*IDS, "owed"])
def test_a_live_turn_equals_an_extension_and_copies_nothing(changes: dict[str, object]) -> None:
    engine = TorchEngine(options())
    session, other = engine.open_session(live=True, **changes), engine.open_session(**changes)
    warm_up(session, B)
    other.begin(B, use_cache=False)
    other.prefill(len(B))
    said = session.decode(6)
    assert other.decode(6) == said
    more = tokens(4, CHUNK + 3)

    cached = session.begin([*B, *said, *more], use_cache=True)
    session.prefill(len(B) + 6 + len(more))
    other.extend(more)

    assert cached == len(B) + 6
    assert parts(session) == parts(other)
    assert session.decode(5) == other.decode(5)
    assert counted(session, "live_hits", "restores", "restored_bytes") == [1, 0, 0]


def test_a_live_turn_captures_nothing_and_drops_what_is_pending() -> None:
    session = TorchEngine(options()).open_session(live=True)
    warm_up(session, B)
    before = counted(session, "captures", "entries")

    session.begin(B + tokens(4, 3 * CHUNK), use_cache=True)
    session.prefill(len(B) + 3 * CHUNK)
    published = session.commit()

    assert published == 0
    assert counted(session, "captures", "entries") == before


@pytest.mark.parametrize(
    "prompt",
    [B, B[:-1], [*B[:-1], (B[-1] + 1) % 512, 7, 8], [(B[0] + 1) % 512, *B[1:], 7, 8]],
    ids=["equal", "shorter", "diverging at the end", "diverging at the start"],
)
def test_only_a_strict_extension_is_live(prompt: list[int]) -> None:
    session = TorchEngine(options()).open_session(live=True)
    expected = cold(session, prompt)
    warm_up(session, B)

    session.begin(prompt, use_cache=True)

    assert counted(session, "live_hits") == [0]
    assert finish(session, prompt) == expected


@pytest.mark.parametrize("end", ["abandon", "reset", "restore", "open", "other"])
def test_a_turn_that_did_not_end_well_or_was_replaced_is_not_live(end: str) -> None:
    session = TorchEngine(options(cache_bytes=1)).open_session(live=True)
    longer = B + tokens(4, 20)
    handle = session.snapshot()
    session.begin(B, use_cache=True)
    session.prefill(len(B))
    session.commit()
    if end == "abandon":
        session.abandon()
    elif end == "reset":
        session.reset()
    elif end == "restore":
        session.restore(handle)
    elif end == "open":
        session.begin(longer, use_cache=True)
        longer = [*longer, 5]
    else:
        warm_up(session, A)

    cached = session.begin(longer, use_cache=True)

    assert cached == 0


def test_a_deeper_snapshot_is_preferred_to_the_live_state() -> None:
    engine = TorchEngine(options())
    session = engine.open_session(live=True)
    warm_up(engine.open_session(), A)
    warm_up(session, A[: CHUNK + 5])

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert counted(session, "live_hits", "restores") == [0, 2]


def test_live_and_snapshot_of_one_length_prefer_live() -> None:
    engine = TorchEngine(options())
    session = engine.open_session(live=True)
    warm_up(engine.open_session(), A)
    warm_up(session, A[: 2 * CHUNK])

    cached = session.begin(A[: 2 * CHUNK + 50], use_cache=True)

    assert cached == 2 * CHUNK
    assert counted(session, "live_hits") == [1]


# -- resident ----------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", ROUTES, ids=IDS)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_resident_prefix_past_the_budget_equals_a_cold_run(arch: str, changes: dict[str, object]) -> None:
    session = TorchEngine(options(arch=arch, cache_bytes=1)).open_session(resident=True, **changes)
    prompt = A[: 3 * CHUNK + 3] + tokens(7, 60)
    expected = cold(session, prompt)
    warm_up(session, A)
    session.decode(5)

    cached = session.begin(prompt, use_cache=True)
    found = finish(session, prompt)

    assert cached == 3 * CHUNK
    assert found == expected
    assert counted(session, "entries", "resident_hits") == [0, 1]
    moved = counted(session, "resident_bytes")[0]
    assert moved == sum(part.nbytes for part in session.layout("prefix").fixed)


def test_a_resident_prefix_serves_again_and_again() -> None:
    session = TorchEngine(options(cache_bytes=1, poison="nan")).open_session(resident=True)
    expected = cold(session, A)
    warm_up(session, A)

    for _ in range(2):
        assert session.begin(A, use_cache=True) == 3 * CHUNK
        assert finish(session, A) == expected


@pytest.mark.parametrize("event", ["reset", "other", "restore", "uncommitted", "abandoned", "shorter"])
def test_a_resident_prefix_goes_with_the_rows(event: str) -> None:
    session = TorchEngine(options(cache_bytes=1)).open_session(resident=True)
    handle = session.snapshot()
    session.begin(A, use_cache=True)
    session.prefill(len(A))
    if event not in ("uncommitted", "abandoned"):
        session.commit()
    if event == "abandoned":
        session.abandon()
    elif event == "reset":
        session.reset()
    elif event == "other":
        warm_up(session, B)
    elif event == "restore":
        session.restore(handle)

    cached = session.begin(
        A[: 3 * CHUNK] if event == "shorter" else A2 if event == "uncommitted" else A, use_cache=True
    )

    assert cached == 0


def test_a_snapshot_and_a_resident_prefix_of_one_length_prefer_the_resident_one() -> None:
    session = TorchEngine(options()).open_session(resident=True)
    warm_up(session, A)

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert counted(session, "resident_hits", "restores") == [1, 0]


def test_a_live_turn_keeps_the_resident_prefix() -> None:
    session = TorchEngine(options(cache_bytes=1)).open_session(resident=True, live=True)
    expected = cold(session, A)
    warm_up(session, A)
    session.begin(A + tokens(8, 20), use_cache=True)
    session.prefill(len(A) + 20)
    session.commit()

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert finish(session, A) == expected
    assert counted(session, "live_hits", "resident_hits") == [1, 1]


def test_a_restored_prefix_becomes_resident_too() -> None:
    engine = TorchEngine(options())
    session = engine.open_session(resident=True)
    expected = cold(session, A)
    warm_up(engine.open_session(), A)
    warm_up(session, A)
    engine.cache.clear()

    cached = session.begin(A, use_cache=True)

    assert cached == 3 * CHUNK
    assert finish(session, A) == expected


def test_a_cache_without_budget_keeps_nothing_resident() -> None:
    session = TorchEngine(options(cache_entries=0)).open_session(resident=True, live=True)
    warm_up(session, A)

    cached = session.begin(A, use_cache=True)

    assert cached == 0
    assert session.continuing.resident is None


# -- pinned ------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", ROUTES, ids=IDS)
@pytest.mark.parametrize("arch", ["hybrid", "sliding"])
def test_a_reset_returns_to_the_pin(arch: str, changes: dict[str, object]) -> None:
    session = shared_engine(arch).open_session(pin=100, **changes)
    session.begin(B, use_cache=False)
    session.prefill(100)
    session.reset()
    at_pin = parts(session)

    session.begin(A, use_cache=False)
    session.prefill(len(A))
    session.decode(3)
    session.reset()

    assert session.position == 100
    assert session.history() == B[:100]
    assert decode_metadata(session.metadata()).pinned == 100
    assert parts(session) == at_pin


def test_the_pin_is_a_cut_and_what_follows_it_equals_a_run_that_is_cut_there() -> None:
    session, reference = shared_engine().open_session(pin=100), shared_engine().open_session(pin=100)
    expected = cold(reference, B)
    session.begin(B, use_cache=False)
    cuts = session.boundaries()
    session.prefill(100)
    session.reset()

    session.extend(B[100:])

    assert cuts == (100, CHUNK)
    assert session.decode(4) == expected.ids
    assert {k: v for k, v in parts(session).items() if k != "metadata"} == {
        k: v for k, v in expected.after_decode.items() if k != "metadata"
    }


def test_the_pin_travels_with_a_handle_and_outlives_its_session() -> None:
    session, other = shared_engine().open_session(pin=100), shared_engine().open_session(pin=100, namespace="fork")
    session.begin(B, use_cache=False)
    session.prefill(len(B))
    session.decode(3)
    handle = session.snapshot()
    session.reset()
    at_pin = parts(session)
    session.close()

    other.restore(handle)
    other.reset()

    assert parts(other) == at_pin
    other.engine.drop(handle)


def test_a_handle_without_a_pin_takes_the_pin_away() -> None:
    session = shared_engine().open_session(pin=100)
    empty = session.snapshot()
    session.begin(B, use_cache=False)
    session.prefill(100)

    session.restore(empty)
    session.reset()

    assert session.position == 0
    session.engine.drop(empty)


def test_rows_alone_may_be_pinned_below_the_position_and_come_as_bytes() -> None:
    engine = TorchEngine(options(arch="attention"))
    session, other = engine.open_session(), engine.open_session()
    session.begin(B, use_cache=False)
    session.prefill(len(B))
    session.pin(70)
    data = {p.name: p.valid().contiguous().flatten().numpy().tobytes() for p in session.layout().parts()}

    other.adopt(session.metadata(), data, B)
    whole = parts(other) == parts(session)
    for each in (session, other):
        each.reset()

    assert whole
    assert other.position == 70
    assert parts(other) == parts(session)


def test_what_is_overwritten_in_place_is_pinned_where_it_stands() -> None:
    session = shared_engine().open_session()
    session.begin(B, use_cache=False)
    session.prefill(len(B))

    with pytest.raises(UnsupportedError, match="all 137"):
        session.pin(70)
    with pytest.raises(OptionError, match=r"1\.\.137"):
        session.pin(138)


def test_a_pin_needs_room_and_a_lost_one_is_seen() -> None:
    session = TorchEngine(options(snapshot_bytes=100)).open_session()
    session.begin(B, use_cache=False)
    session.prefill(len(B))

    with pytest.raises(BudgetError):
        session.pin(len(B))

    pinned = shared_engine().open_session(pin=100)
    pinned.begin(B, use_cache=False)
    pinned.prefill(len(B))
    handle = pinned.snapshot()
    assert handle.saved is not None
    object.__setattr__(handle.saved, "pin", None)
    with pytest.raises(MetadataError, match="pin of the handle"):
        pinned.restore(handle)
    pinned.engine.drop(handle)
