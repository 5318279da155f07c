"""The overhead benchmark says met or missed only where all its blocks say so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

import pytest

from benchmarks.bench_overhead import BLOCKS, Pair, Spent, judged, processor_seconds


def pairs(added: float, *, share: float = 1.0) -> Sequence[Pair]:
    """Three pairs with the harness's addition in percent, on so much of a processor; one of them was disturbed."""
    plain = Spent(wall=1 / share, processor=1.0)
    looked = Spent(wall=(1 + added / 100) / share, processor=1 + added / 100)
    return [(plain, looked), (plain, looked), (plain, Spent(wall=9.0 / share, processor=9.0))]


@pytest.mark.parametrize(
    ("medians", "share", "verdict"),
    [
        ([1, 2, 3, 3, 4, 9], 1.0, "met"),
        ([1, 2, 3, 3, 4, 9], 0.5, "met"),
        ([1, 2, 3, 3, 4, 11], 1.0, "cannot tell"),
        ([11, 12, 13, 13, 14, 15], 1.0, "missed"),
        ([11, 12, 13, 13, 14, 15], 0.5, "void"),
        ([1, 2, 3, 3, 4], 1.0, "cannot tell"),
        ([11, 12], 1.0, "cannot tell"),
    ],
)
def test_a_goal_is_judged_by_the_whole_interval(medians: Sequence[int], share: float, verdict: str) -> None:
    found = judged("toy", [pairs(one, share=share) for one in medians], 10.0)

    assert found.verdict == verdict
    assert (round(found.least), round(found.greatest)) == (medians[0], medians[-1])


def test_a_disturbed_pair_does_not_move_its_block() -> None:
    found = judged("toy", [pairs(5.0)] * BLOCKS, 10.0)

    assert found.added == pytest.approx(5.0)
    assert found.by_wall == pytest.approx(5.0)
    assert found.milliseconds == pytest.approx(1000)


def test_the_time_of_threads_that_have_ended_counts() -> None:
    def work() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    before = processor_seconds(os.getpid())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert processor_seconds(os.getpid()) - before >= 0.05
