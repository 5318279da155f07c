"""False alarms: what a user may legitimately do otherwise must not make a cell fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engines.spool import SpoolBudget
from harness.model.evidence import PartTable, Point, Turn
from tests.variations.running import Runs, Seen, insist, scenario_plan, small_plan, torch_runs

pytestmark = pytest.mark.usefixtures("forked")

A = [{"seed": 10, "length": {"chunks": 2, "tokens": 300}}]
B = [{"seed": 11, "length": {"chunks": 2, "tokens": 700}}]
FIRST = {"run": {"prompt": "A", "cache": True, "decode": 8, "as": "first"}}
AGAIN = {"run": {"prompt": "A", "cache": True, "decode": 8, "as": "again"}}
AR = {"route": "ar"}
HYBRID = {"arch": "hybrid"} | AR


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with torch_runs(tmp_path_factory.mktemp("variations")) as up:
        yield up


@pytest.mark.parametrize("route", ["ar", "mtp"])
@pytest.mark.parametrize("arch", ["hybrid", "attention", "recurrent", "sliding", "ple"])
def test_architectures_and_routes(arch: str, route: str, runs: Runs) -> None:
    runs.passes(scenario_plan("A01"), {"arch": arch, "route": route})


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        {"threads": 2},
        {"poison": "zero"},
        {"poison": "nan"},
        {"poison": "noise"},
        {"seed": 1},
        {"seed": 77},
        {"k_type": "f16", "v_type": "f16"},
        {"k_type": "bf16", "v_type": "bf16"},
        {"k_type": "f16", "v_type": "bf16"},
        {"recurrent_type": "bf16"},
        {"preset": "small"},
        {"max_seq_len": 4096},
        {"cache_bytes": 1 << 40},
        {"cache_entries": 2},
    ],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()),
)
def test_engine_options(options: dict[str, str | int], runs: Runs) -> None:
    runs.passes(small_plan({"A": A, "B": B}, [FIRST, AGAIN], {"chunks": 2}), **options)


@pytest.mark.parametrize("poison", ["nan", "noise"])
def test_poison_in_a_sliding_window(poison: str, runs: Runs) -> None:
    runs.passes(scenario_plan("A01"), {"arch": "sliding", "route": "ar"}, poison=poison)


@pytest.mark.parametrize("seed", [5, 4_000_000_000])
def test_other_prompts(seed: int, runs: Runs) -> None:
    prompts = {"A": [{**A[0], "seed": seed}], "B": B}

    runs.passes(small_plan(prompts, [FIRST, AGAIN], {"chunks": 2}))


@pytest.mark.parametrize("decode", [1, 40])
def test_decode_counts(decode: int, runs: Runs) -> None:
    plan = small_plan({"A": A, "B": B}, [FIRST, AGAIN], {"chunks": 2}, decode=decode)

    runs.passes(plan)


@pytest.mark.parametrize("plus", [-1, 0, 1, 31, 32, 33, 63, 64, 65])
def test_lengths_around_every_grid(plus: int, runs: Runs) -> None:
    """The chunk is 256 here, a tile has 64 tokens, a pooled index row 32; the last token is always forwarded."""
    prompts = {"A": [{"seed": 10, "length": {"chunks": 2, "plus": plus}}], "B": B}
    boundaries = 2 if plus > 0 else 1

    runs.passes(small_plan(prompts, [FIRST, AGAIN], {"chunks": boundaries}))


def test_scenarios_in_another_order_on_one_child(runs: Runs) -> None:
    for name, coords in (("A02", AR), ("B01", HYBRID), ("A01", HYBRID), ("B01", {"arch": "attention"} | AR)):
        runs.passes(scenario_plan(name), coords)


def test_a_prompt_captured_again_and_again(runs: Runs) -> None:
    more = [{"run": {"prompt": "A", "cache": True, "decode": 8, "as": f"more{number}"}} for number in range(3)]

    runs.passes(small_plan({"A": A, "B": B}, [FIRST, *more, AGAIN], {"chunks": 2}))


def test_another_cut_policy_with_the_same_split(runs: Runs) -> None:
    """Turns are cut after a token that these prompts do not have: another policy, the same cuts."""
    first, again = ({"run": {**step["run"], "options": {"turn_token": 5}, "session": "cut"}} for step in (FIRST, AGAIN))

    runs.passes(small_plan({"A": A, "B": B}, [first, again], {"chunks": 2}))


def test_a_chunk_that_is_named_for_the_session(runs: Runs) -> None:
    first, again = (
        {"run": {**step["run"], "options": {"chunk": {"chunks": 1}}, "session": "own"}} for step in (FIRST, AGAIN)
    )

    runs.passes(small_plan({"A": A, "B": B}, [first, again], {"chunks": 2}))


def test_several_sessions_open(runs: Runs) -> None:
    others = [
        {"run": {"prompt": "B", "cache": True, "decode": 4, "session": f"s{number}", "as": f"b{number}"}}
        for number in range(3)
    ]

    runs.passes(small_plan({"A": A, "B": B}, [others[0], FIRST, *others[1:], AGAIN], {"chunks": 2}))


def test_restored_into_a_session_that_did_something_else(runs: Runs) -> None:
    dirt = {"run": {"prompt": "B", "decode": 20, "as": "dirt", "sampler": {"temperature_ppm": 900000, "seed": 3}}}

    runs.passes(small_plan({"A": A, "B": B}, [FIRST, dirt, AGAIN], {"chunks": 2}))


def test_turns_that_are_committed_in_reversed_order(runs: Runs) -> None:
    first = {"run": {"prompt": "A", "cache": True, "until": {"chunks": 1}, "session": "one", "as": "a"}}
    second = {"run": {"prompt": "B", "cache": True, "until": {"chunks": 1}, "session": "two", "as": "b"}}
    ends = [{"resume": {"session": "two", "as": "b_end"}}, {"resume": {"session": "one", "as": "a_end"}}]

    runs.passes(small_plan({"A": A, "B": B}, [first, second, *ends, AGAIN], {"chunks": 2}))


def test_one_turn_abandoned_before_another_is_committed(runs: Runs) -> None:
    lost = {"run": {"prompt": "A", "cache": True, "end": "abandon", "as": "lost"}}

    runs.passes(small_plan({"A": A, "B": B}, [lost, FIRST, AGAIN], {"chunks": 2}))


def test_other_engines_open_in_the_same_child(runs: Runs) -> None:
    others = [
        runs.up.host.open_engine({"chunk": 256, "max_seq_len": 512, "arch": arch}) for arch in ("hybrid", "sliding")
    ]
    try:
        runs.passes(scenario_plan("A01"), HYBRID)
    finally:
        for other in others:
            other.close()


def test_reference_bytes_that_are_not_kept_are_made_again(runs: Runs) -> None:
    """Without a spool a control's difference costs another run of its reference; nothing else changes."""
    host = runs.up.host
    before, host.options = host.options, replace(host.options, spool=SpoolBudget(memory=0, disk=0))
    try:
        runs.passes(scenario_plan("A01"), HYBRID)
    finally:
        host.options = before


def test_a_new_child_with_other_hash_threads_and_the_best_device(runs: Runs) -> None:
    """Cells before and after a restart of the child; and a candidate of one against the reference of the other."""
    host, plan = runs.up.host, scenario_plan("A01")
    host.options = replace(host.options, hash_threads=1)
    host.discard()
    old = runs.run(plan, HYBRID)
    host.options = replace(host.options, hash_threads=2)
    host.discard()
    new = runs.run(plan, HYBRID)

    for seen in (old, new, crossed(old, new), crossed(new, old)):
        insist(runs.judged(seen))


def crossed(reference: Seen, rest: Seen) -> Seen:
    """The reference arm of one child, everything else of another."""

    def cold(one: object) -> bool:
        return isinstance(one, (Point, Turn)) and one.arm == "cold_a"

    tables = [one for one in reference.observations if isinstance(one, PartTable)]
    kept = iter([one for one in reference.observations if cold(one)])
    mixed = [next(kept) if cold(one) else one for one in rest.observations]
    return Seen(plan=rest.plan, cell=rest.cell, observations=[*tables, *mixed])


def test_there_are_at_least_twenty_variations(request: pytest.FixtureRequest) -> None:
    mine = [item for item in request.session.items if item.path == Path(__file__)]

    assert len(mine) > 20 or "-k" in sys.argv or len(request.session.items) < 20
