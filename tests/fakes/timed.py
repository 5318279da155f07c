"""Evidence of interleaved pairs: cold turns of a millisecond, warm ones of a fifth of it, two processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from harness.deriving.product import expand
from harness.model.evidence import Observation, Point, Turn
from harness.model.scenario import Scenario
from tests.fakes.evidence import Recorded, recorded, scenario

_ORDER = "cwwccwwccwwc"
_NUMBERS = "112233445566"


def _steps() -> str:
    found = ["        - {run: {prompt: A, cache: true, session: first, as: first}}"]
    for place, (kind, number) in enumerate(zip(_ORDER, _NUMBERS, strict=True)):
        if place == 6:
            found += ["        - {restart: {as: anew}}"]
            found += ["        - {run: {prompt: A, cache: true, session: first, as: second}}"]
        cache_on = "cache: true, " if kind == "w" else ""
        found.append(f"        - {{run: {{prompt: A, {cache_on}decode: 2, session: it, as: {kind}{number}}}}}")
    return "\n".join(found)


def _refs(kind: str) -> str:
    return ", ".join(f"timed.{kind}{number}" for number in range(1, 7))


TIMED = f"""
schema: statecert/scenario/v1
id: T61
title: Pairs of turns
why: The smallest run with a verdict on a time.
suites: {{default: [16]}}
procedure:
  observability: parts
  requires: [parts, logits, boundaries, prefix_cache]
  families: [kv, recurrent]
  chunk: 64
  engine: {{arch: hybrid}}
  axes: {{}}
  prompts:
    A: [{{seed: 1, length: {{chunks: 1, plus: 2}}}}]
    wrong: [{{seed: 1, length: {{chunks: 1, plus: 2}}, change_at: 1}}]
  arms:
    - id: cold
      role: reference
      steps: [{{run: {{prompt: A, decode: 2, as: a}}}}]
    - id: timed
      role: candidate
      steps:
{_steps()}
    - id: other
      role: control
      steps: [{{run: {{prompt: wrong, decode: 2, as: a}}}}]
  checks:
    - {{id: warm, exact: {{candidate: timed.w1, reference: cold.a, witness: copied}}}}
    - id: quick
      quicker:
        candidates: [{_refs("w")}]
        references: [{_refs("c")}]
        margin_ppm: 100000
        steady_ppm: 500000
        gain_at_most: 100
    - {{id: other-seen, seen: {{candidate: other.a, reference: cold.a}}}}
""".encode()


@cache
def timed_scenario(text: bytes = TIMED) -> Scenario:
    """Return the scenario, with its pairs looked at."""
    found = scenario(text)
    expand(found, (16,), suite="default")
    return found


def timed(process: Callable[[int], int] = lambda number: 1 if number <= 3 else 2) -> Recorded:
    """Return a run in which every warm turn takes a fifth of a millisecond.

    Args:
        process: Number of a pair to that of the process in which it ran.
    """
    found = recorded(timed_scenario())
    return replace(found, observations=tuple(_with_times(one, process) for one in found.observations))


def _with_times(one: Observation, process: Callable[[int], int]) -> Observation:
    if not isinstance(one, Turn) or one.arm != "timed" or not one.label[1:].isdigit():
        return one
    number = int(one.label[1:])
    took = {"c": 990_000 + 2_000 * number, "w": 190_000}[one.label[0]]
    return timed_turn(replace(one, process=process(number)), took)


def timed_turn(turn: Turn, took: int, begin_ns: int = 10_000) -> Turn:
    """Return a turn that took so long, and its first token after that."""
    first = begin_ns + took + turn.commit_ns if turn.decoded else 0
    return replace(turn, begin_ns=begin_ns, prefill_ns=took, first_token_ns=first)


def with_times(found: Recorded, took: int, *labels: str, begin_ns: int = 10_000) -> Recorded:
    """Change what some turns took."""
    changed = [
        timed_turn(one, took, begin_ns) if isinstance(one, Turn) and one.arm == "timed" and one.label in labels else one
        for one in found.observations
    ]
    return replace(found, observations=tuple(changed))


WARM = ("w1", "w2", "w3", "w4", "w5", "w6")
COLD = ("c1", "c2", "c3", "c4", "c5", "c6")


def another_engine_behind_the_restart(found: Recorded) -> Recorded:
    """Every look behind the restart lacks a part that all looks before it have, as one of another architecture does."""
    behind = [one for one in found.observations if isinstance(one, Point) and _is_behind(one)]
    for point in behind:
        found = found.with_rows(
            point.arm,
            point.label,
            point.phase,
            lambda rows: [row for row in rows if row.name != "layer1.v"],
            position=point.position,
        )
    return found


def _is_behind(point: Point) -> bool:
    return point.arm == "timed" and (point.label == "second" or point.label[1:] in ("4", "5", "6"))
