"""Engines with one planted fault each: the comparison of parts must see it, and name the part.

They also show that every step of a snapshot, a restore and the cache can be replaced alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.torch_engine import (
    EngineOptions,
    SessionCache,
    SessionOptions,
    Snapshot,
    Snapshotter,
    StateLayout,
    TorchEngine,
    TorchSession,
)
from harness.torch_engine.cache_types import CachePlan, Entry, Turn
from harness.torch_engine.keys import Tokens
from harness.torch_engine.metadata import Metadata
from harness.torch_engine.snapshot import Pair
from tests.torch_engine.support import CHUNK, cold, finish, options, parts, tokens, warm_up

A = tokens(1, 3 * CHUNK + 40)
B = A[:CHUNK] + tokens(2, 2 * CHUNK)


def wrong_parts(engine: TorchEngine, *before: list[int]) -> list[str]:
    """Parts that differ between a cold run and a restored one right after the restore, before the suffix.

    Args:
        engine: the engine in question.
        before: prompts that fill its cache first.
    """
    session, reference = engine.open_session(), TorchEngine(options()).open_session()
    for prompt in (*before, A):
        warm_up(session, prompt)
    session.begin(B, use_cache=False)
    session.prefill(len(B))
    cached = session.begin(A, use_cache=True)
    reference.begin(A, use_cache=False)
    for cut in reference.boundaries():
        if cut <= cached:
            reference.prefill(cut)
    expected, found = parts(reference), parts(session)
    return [name for name in expected if expected[name] != found[name]]


class _Without(Snapshotter):
    """Leaves one part out of the copy back."""

    part = ""

    def fixed_pairs(self, snapshot: Snapshot, layout: StateLayout) -> list[Pair]:
        pairs = super().fixed_pairs(snapshot, layout)
        return [pair for pair, part in zip(pairs, layout.fixed, strict=True) if part.name != self.part]


class RecurrentKeptBack(_Without):
    part = "layer0.recurrent"


class ConvKeptBack(_Without):
    part = "layer2.conv"


class PooledRowsMissing(Snapshotter):
    """Restores no pooled index row of one layer."""

    def row_pairs(self, snapshot: Snapshot, layout: StateLayout) -> list[Pair]:
        pooled = layout.part("layer1.index_pooled").tensor.data_ptr()
        end = pooled + layout.part("layer1.index_pooled").tensor.nbytes
        return [p for p in super().row_pairs(snapshot, layout) if not pooled <= p[0].data_ptr() < end]


class OneRowTooFew(Snapshotter):
    """Forgets the last row of the last stream."""

    def row_pairs(self, snapshot: Snapshot, layout: StateLayout) -> list[Pair]:
        pairs = super().row_pairs(snapshot, layout)
        live, stored = pairs[-1]
        return [*pairs[:-1], (live[:-1], stored[:-1])]


class NothingCopied(Snapshotter):
    """Reports a restore that did not happen."""

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return sum(link.nbytes for link in chain)


def engine_of(snapshotter: type[Snapshotter]) -> TorchEngine:
    """An engine with other copy primitives."""

    class Faulty(TorchEngine):
        snapshotter_class = snapshotter

    return Faulty(options())


def test_a_right_engine_has_no_wrong_part() -> None:
    assert wrong_parts(TorchEngine(options())) == []
    assert wrong_parts(TorchEngine(options()), B) == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (RecurrentKeptBack, ["layer0.recurrent"]),
        (ConvKeptBack, ["layer2.conv"]),
        (PooledRowsMissing, ["layer1.index_pooled"]),
        (OneRowTooFew, ["layer3.index_pooled"]),
    ],
)
def test_a_fault_of_the_restore_is_seen_in_exactly_its_part(fault: type[Snapshotter], expected: list[str]) -> None:
    assert wrong_parts(engine_of(fault)) == expected


def test_a_restore_that_does_nothing_is_seen_in_every_part_that_differs() -> None:
    wrong = wrong_parts(engine_of(NothingCopied))

    assert {"layer0.recurrent", "layer0.conv", "layer1.k", "layer3.index_raw"} <= set(wrong)


def test_a_parent_of_another_branch_is_seen_in_the_rows() -> None:
    class OtherBranch(SessionCache):
        def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:
            others = (e for e in self._published.values() if e.key.boundary == boundary - CHUNK)
            return next(others, None) or super().find_parent(turn, prompt, boundary, layout)

    class Faulty(TorchEngine):
        cache_class = OtherBranch

    wrong = wrong_parts(Faulty(options()), B)

    assert "layer1.k" in wrong
    assert "layer0.recurrent" not in wrong


def test_uncommitted_snapshots_made_visible_are_seen_by_the_plan() -> None:
    class Early(SessionCache):
        def capture(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout, meta: bytes) -> str:
            answer = super().capture(turn, prompt, boundary, layout, meta)
            self.commit(turn)
            return answer

    class Faulty(TorchEngine):
        cache_class = Early

    def plan(engine: TorchEngine) -> CachePlan:
        session = engine.open_session()
        session.begin(A, use_cache=True)
        session.prefill(len(A))
        return engine.cache.plan(session.turn, A)

    assert plan(TorchEngine(options())).boundary == 0
    assert plan(Faulty(options())).boundary == 3 * CHUNK


def test_a_domain_that_ignores_a_field_lets_sessions_share() -> None:
    class Blind(TorchEngine):
        def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
            return super().session_identity(options) | {"namespace": ""}

    def cached(engine: TorchEngine) -> int:
        warm_up(engine.open_session(namespace="a"), A)
        return engine.open_session(namespace="b").begin(A, use_cache=True)

    assert cached(TorchEngine(options())) == 0
    assert cached(Blind(options())) == 3 * CHUNK


def test_evicting_a_parent_is_seen_as_a_missing_link() -> None:
    class Careless(SessionCache):
        def victim(self) -> Entry | None:
            return min(self._published.values(), key=lambda entry: entry.key.boundary, default=None)

    class Faulty(TorchEngine):
        cache_class = Careless

    engine = Faulty(options())
    session = engine.open_session()
    warm_up(session, A)

    engine.cache.evict_lru()

    with pytest.raises(Exception, match="no longer present"):
        session.begin(A, use_cache=True)


def test_wrong_metadata_is_refused_at_the_restore() -> None:
    class Shifted(TorchSession):
        def metadata(self) -> bytes:
            right = Metadata(
                position=self.position + 1,
                logits_valid=False,
                sampler_valid=False,
                decoded=0,
                layers=self.buffers.lengths(),
            )
            return right.encode()

    class Faulty(TorchEngine):
        session_class = Shifted

    session = Faulty(options()).open_session()
    warm_up(session, A)

    with pytest.raises(Exception, match="metadata position"):
        session.begin(A, use_cache=True)


def test_decoding_washes_a_small_fault_out_of_the_tokens_but_not_out_of_the_parts() -> None:
    engine = TorchEngine(EngineOptions(chunk=CHUNK, max_seq_len=1024))
    session = engine.open_session()
    expected = cold(session, A)
    warm_up(session, A)
    key = engine.cache.key(session.turn, A, 3 * CHUNK).hex
    engine.cache.corrupt(key, "layer0.recurrent", 0, 1)

    session.begin(A, use_cache=True)
    found = finish(session, A)

    assert found.ids == expected.ids
    assert found.after_prefill != expected.after_prefill
