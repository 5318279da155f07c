"""Prompts as recipes: the same token ids on every engine, without a tokenizer.

Ids lie from 8 to 503, so that every vocabulary has them and special tokens below 8 stay out. They come from a
64-bit linear congruential generator that starts at the seed: each id takes one step, then the upper bits.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from harness.errors import InvalidScenarioError
from harness.model.scenario import PromptSegment, PromptSpec
from harness.model.values import Sha256
from harness.wire.sha256 import sha256

FIRST: Final = 8
"""Lowest id."""
COUNT: Final = 496
"""How many ids there are."""

_MOST_SUMMARIES: Final = 256
_SUMMARIES: Final[dict[tuple[object, ...], tuple[int, int, Sha256]]] = {}
_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_MASK: Final = 2**64 - 1


def prompt_summary(specs: Mapping[str, PromptSpec], name: str) -> tuple[int, int, Sha256]:
    """Return how many ids a prompt has, the last of them, and its digest; the last few prompts are remembered.

    Raises:
        InvalidScenarioError: As :func:`prompt_ids`; or the prompt is empty.
    """
    key = name, *((other, *map(_recipe, spec.segments)) for other, spec in specs.items())
    found = _SUMMARIES.get(key)
    if found is None:
        ids = prompt_ids(specs, name)
        if not ids:
            raise InvalidScenarioError("found no token", where=f"prompt {name}")
        found = len(ids), ids[-1], prompt_digest(ids)
        if len(_SUMMARIES) >= _MOST_SUMMARIES:
            _SUMMARIES.clear()
        _SUMMARIES[key] = found
    return found


def _recipe(segment: PromptSegment) -> tuple[object, ...]:
    return segment.tokens, segment.seed, segment.prefix_of, tuple(segment.ids), segment.change_at


def prompt_ids(specs: Mapping[str, PromptSpec], name: str) -> tuple[int, ...]:
    """Return the token ids of a prompt.

    Raises:
        InvalidScenarioError: The prompt, or one that it is a prefix of, is unknown, too short or refers to
            itself.
    """
    return tuple(_ids(specs, name, ()))


def prompt_digest(ids: Sequence[int]) -> Sha256:
    """Return the SHA-256 of token ids as little-endian unsigned 32-bit numbers."""
    words = array("I", ids)
    if sys.byteorder == "big":
        words.byteswap()
    return Sha256(sha256(words.tobytes()).hexdigest())


def _ids(specs: Mapping[str, PromptSpec], name: str, users: tuple[str, ...]) -> list[int]:
    if name in users:
        raise InvalidScenarioError(f"found a circle {' -> '.join((*users, name))}", where=f"prompt {name}")
    if name not in specs:
        raise InvalidScenarioError(
            f"found no prompt of this name; there are {', '.join(specs)}", where=f"prompt {name}"
        )
    ids: list[int] = []
    for segment in specs[name].segments:
        part = _segment(specs, segment, (*users, name))
        if segment.change_at is not None:
            _change(part, segment.change_at, name)
        ids += part
    return ids


def _segment(specs: Mapping[str, PromptSpec], segment: PromptSegment, users: tuple[str, ...]) -> list[int]:
    if segment.ids:
        return list(segment.ids)
    if segment.prefix_of is None:
        return list(_drawn(segment.seed or 0, segment.tokens))
    source = _ids(specs, segment.prefix_of, users)
    if segment.tokens > len(source):
        raise InvalidScenarioError(
            f"takes {segment.tokens} tokens of {segment.prefix_of}, which has {len(source)}",
            where=f"prompt {users[-1]}",
        )
    return source[: segment.tokens]


def _change(ids: list[int], index: int, name: str) -> None:
    if not 0 <= index < len(ids):
        raise InvalidScenarioError(
            f"changes the id at {index} of a segment of {len(ids)} tokens", where=f"prompt {name}"
        )
    ids[index] = FIRST + (ids[index] - FIRST + 1) % COUNT


@lru_cache(maxsize=64)
def _drawn(seed: int, count: int) -> tuple[int, ...]:
    state = seed & _MASK
    ids = []
    for _ in range(count):
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        ids.append(FIRST + (state >> 33) % COUNT)
    return tuple(ids)
