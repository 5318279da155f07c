"""Why no scenario tells a use that refreshes a whole chain from one that refreshes its leaf alone.

Only leaves are evicted, the oldest first. An ancestor is a leaf only after every snapshot above it has gone, and each of
those went as the oldest leaf there was; what refreshed the ancestor last refreshed one of them too, at the same moment.
So the ancestor is the next to go, whether its own age was refreshed or not: both rules evict the same.
"""

from __future__ import annotations

import functools
import random

import pytest

from harness.torch_engine import SessionCache, Turn
from harness.torch_engine.cache_types import Entry
from harness.torch_engine.keys import CacheKey
from tests.torch_engine.support import ToyState, tokens
from tests.torch_engine.test_te_cache import STRIDE, UNIT, turn_of

STEM = tokens(1, 5 * STRIDE)
PROMPTS = [STEM[: cut * STRIDE] + tokens(10 * cut + branch, 300) for cut in range(4) for branch in range(3)]


@functools.cache
def at_cut(prompt: int, cut: int) -> ToyState:
    """The state of a prompt at a cut, made once."""
    state = ToyState()
    state.run(PROMPTS[prompt], cut)
    return state


def used(cache: SessionCache, turn: Turn, prompt: int) -> None:
    """Ask for the deepest prefix of a prompt, and take it."""
    plan = cache.plan(turn, PROMPTS[prompt])
    if plan.key is not None:
        cache.chain(plan.key)


def captured(cache: SessionCache, turn: Turn, prompt: int, upto: int) -> None:
    """Capture at the cuts of a prompt."""
    for cut in cache.boundaries(turn, PROMPTS[prompt], 0, min(upto, len(PROMPTS[prompt]) - 1)):
        state = at_cut(prompt, cut)
        cache.capture(turn, PROMPTS[prompt], cut, state.layout(), state.meta())


class LeafOnly(SessionCache):
    """A use refreshes the age of the snapshot that was asked for, and not of those that it rests on."""

    def chain(self, key: CacheKey) -> list[Entry]:
        before = {entry.key: entry.stamp for entry in self._published.values()}
        links = super().chain(key)
        for link in links[:-1]:
            link.stamp = before[link.key]
        return links


def everything_held(kind: type[SessionCache], seed: int) -> list[set[tuple[int, int]]]:
    """Run a random life of a store; what it holds after each of its events."""
    draw = random.Random(seed)
    cache = kind(byte_budget=draw.randint(3, 12) * UNIT, entry_budget=draw.randint(3, 12))
    turns = [turn_of(cache) for _ in range(3)]
    held = []
    for _ in range(40):
        turn, prompt = draw.choice(turns), draw.randrange(len(PROMPTS))
        match draw.randrange(6):
            case 0 | 1:
                used(cache, turn, prompt)
                captured(cache, turn, prompt, upto=draw.randint(1, 6) * STRIDE)
                cache.commit(turn)
            case 2 | 3:
                used(cache, turn, prompt)
            case 4:
                captured(cache, turn, prompt, upto=10 * STRIDE)
                cache.abandon(turn)
            case _:
                cache.evict_lru()
        held.append({(entry.key.boundary, entry.key.fingerprint) for entry in cache._published.values()})
    return held


@pytest.mark.parametrize("first", [0, 40])
def test_refreshing_the_ancestors_of_what_was_used_changes_no_eviction(first: int) -> None:
    for seed in range(first, first + 40):
        assert everything_held(LeafOnly, seed) == everything_held(SessionCache, seed), seed


class ByInsertion(SessionCache):
    """A use refreshes nothing."""

    def chain(self, key: CacheKey) -> list[Entry]:
        before = {entry.key: entry.stamp for entry in self._published.values()}
        links = super().chain(key)
        for link in links:
            link.stamp = before[link.key]
        return links


def test_the_same_lives_tell_a_use_that_refreshes_nothing() -> None:
    assert any(everything_held(ByInsertion, seed) != everything_held(SessionCache, seed) for seed in range(50))
