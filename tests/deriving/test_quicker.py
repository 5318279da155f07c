"""The check ``quicker``: a verdict needs the whole interval on one side; what makes samples unfit is never a verdict."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import comb
from typing import Any

import pytest

from harness.deriving.checks.quicker import rank_of
from harness.errors import InvalidScenarioError
from harness.model.evidence import Turn
from harness.model.values import Outcome, Phase
from tests.fakes.evidence import Recorded, recorded
from tests.fakes.timed import COLD, TIMED, another_engine_behind_the_restart, timed, timed_scenario, with_times

Change = Callable[[Recorded], Recorded]


def test_warm_turns_that_take_less_time_in_every_pair_pass() -> None:
    result = timed().result("quick")

    assert (result.outcome, result.code, result.unit) == (Outcome.PASS, "LAT.PAIRED@1", "ns")
    assert result.detail["pairs"] == 6
    assert result.detail["processes"] == 2
    assert result.detail["reference_first"] == 3
    assert (result.detail["low_ns"], result.detail["high_ns"]) == (-812_000, -802_000)
    assert (result.observed, result.limit) == (-802_000, -100_600)


def at(label: str, **changes: Any) -> Change:
    return lambda found: found.with_turn("timed", label, **changes)


def all_warm(took: int) -> Change:
    def change(found: Recorded) -> Recorded:
        for number in range(1, 7):
            found = found.with_turn("timed", f"w{number}", prefill_ns=took)
        return found

    return change


def facts(**more: int) -> Change:
    return lambda found: found.with_header(environment={"machine": "c3" * 32, "facts": {"os": "linux", **more}})


@pytest.mark.parametrize(
    ("change", "outcome", "reason"),
    [
        (all_warm(5_000_000), Outcome.FAIL, "slower"),
        (all_warm(950_000), Outcome.INCONCLUSIVE, "interval_too_wide"),
        (at("w3", prefill_ns=5_000_000), Outcome.INCONCLUSIVE, "interval_too_wide"),
        (all_warm(0), Outcome.INCONCLUSIVE, "implausible_gain"),
        (at("w3", cached=0, prefilled=66, restored_bytes=0), Outcome.FAIL, "nothing_reused"),
        (at("c3", cached=64, prefilled=2), Outcome.ERROR, "reference_reused"),
        (facts(jobs=2), Outcome.ERROR, "not_alone"),
        (facts(load_1min_milli=2001, cores_usable=2), Outcome.ERROR, "machine_busy"),
        (facts(load_1min_milli=2000, cores_usable=2, jobs=1), Outcome.PASS, ""),
    ],
)
def test_one_change_gives_one_answer(change: Change, outcome: Outcome, reason: str) -> None:
    result = change(timed()).result("quick")

    assert (result.outcome, result.reason) == (outcome, reason)


def test_a_reference_that_moved_between_the_processes_is_no_ground() -> None:
    found = timed()
    for number in (4, 5, 6):
        found = found.with_turn("timed", f"c{number}", prefill_ns=3_000_000)

    result = found.result("quick")

    assert (result.outcome, result.reason) == (Outcome.INCONCLUSIVE, "reference_moved")


def test_one_process_is_no_ground() -> None:
    result = timed(process=lambda _: 1).result("quick")

    assert (result.outcome, result.reason) == (Outcome.INCONCLUSIVE, "one_process")


@pytest.mark.parametrize("process", [2, 0])
def test_a_pair_in_two_processes_is_no_pair(process: int) -> None:
    result = timed().with_turn("timed", "w2", process=process).result("quick")

    assert (result.outcome, result.reason) == (Outcome.INCONCLUSIVE, "pair_in_two_processes")


def test_times_that_are_all_the_same_are_no_times() -> None:
    result = with_times(timed(), 990_000, *COLD).result("quick")

    assert (result.outcome, result.reason) == (Outcome.INCONCLUSIVE, "constant_times")


def test_a_turn_longer_than_its_run_is_an_error() -> None:
    result = with_times(timed(), 60_000_000_000, "c3").result("quick")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "longer_than_its_run")


def test_a_turn_that_is_not_there_is_no_pass() -> None:
    assert timed().without(lambda one: isinstance(one, Turn)).result("quick").outcome is Outcome.ERROR


@pytest.mark.parametrize("pairs", range(2, 60))
def test_the_rank_bounds_the_median_with_95_percent_and_the_next_one_would_not(pairs: int) -> None:
    rank = rank_of(pairs)

    def outside(held: int) -> int:
        return 2 * sum(comb(pairs, number) for number in range(held))

    assert outside(rank) * 20 <= 2**pairs
    assert rank == pairs // 2 or outside(rank + 1) * 20 > 2**pairs


def test_six_pairs_take_the_whole_range_and_ten_the_second_to_the_ninth() -> None:
    assert [rank_of(pairs) for pairs in (5, 6, 10, 12)] == [0, 1, 2, 3]


def swapped(text: bytes) -> bytes:
    return text.replace(b"[timed.w1, timed.w2,", b"[timed.w2, timed.w1,")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swapped, "one after the other"),
        (lambda text: text.replace(b"[timed.w1, timed.w2,", b"[timed.w2, timed.w2,"), "non-unique|unique|one after"),
        (lambda text: text.replace(b"timed.w6]", b"cold.a]"), "other arms|one after the other"),
        (lambda text: text.replace(b", timed.w6]", b"]"), "at least|each pair"),
    ],
)
def test_pairs_that_are_none_are_refused(change: Callable[[bytes], bytes], said: str) -> None:
    text = change(TIMED)
    assert text != TIMED

    with pytest.raises(InvalidScenarioError, match=said):
        timed_scenario(text)


def test_a_perfect_engine_whose_times_are_equal_shows_nothing() -> None:
    result = recorded(timed_scenario(TIMED)).result("quick")

    assert result.outcome is not Outcome.PASS


def test_the_scenario_is_not_changed_by_reading() -> None:
    assert copy.deepcopy(timed_scenario(TIMED)) == timed_scenario(TIMED)


def test_a_session_of_the_same_name_behind_a_restart_may_list_other_parts() -> None:
    changed = another_engine_behind_the_restart(timed())

    assert changed.result("inventory").outcome is Outcome.PASS
    assert changed.result("inventory").detail == timed().result("inventory").detail


def test_one_of_the_same_process_may_not() -> None:
    changed = timed().with_rows("timed", "c4", Phase.END, lambda rows: [row for row in rows if row.name != "layer1.v"])

    assert changed.result("inventory").reason == "parts_come_and_go"
