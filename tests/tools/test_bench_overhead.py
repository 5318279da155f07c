"""The overhead benchmark says met or missed only where all its blocks say so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bench_overhead import BLOCKS, SUBJECTS, Pair, Spent, judged, measured, processor_seconds, reply
from harness.engines.host import EngineHost
from harness.model.target import Target


def pairs(beside: float, *, after: float = 0.0, share: float = 1.0) -> Sequence[Pair]:
    """Three pairs with what the harness adds in percent, on so much of a processor; one of them was disturbed."""
    own = 1 + after / 100
    plain = Spent(wall=1.25 / share, processor=1.25, adapter=1 / share)
    looked = Spent(wall=own * (1 + beside / 100) / share, processor=own * (1 + beside / 100), adapter=own / share)
    return [(plain, looked), (plain, looked), (plain, Spent(wall=9 / share, processor=9.0, adapter=5 / share))]


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
    assert (round(found.added.least), round(found.added.greatest)) == (medians[0], medians[-1])


def test_a_disturbed_pair_does_not_move_its_block() -> None:
    found = judged("toy", [pairs(5.0)] * BLOCKS, 10.0)

    assert found.added.median == pytest.approx(5.0)
    assert found.after.median == pytest.approx(0.0)
    assert found.milliseconds == pytest.approx(1000)


@pytest.mark.parametrize(
    ("afters", "added"),
    [
        ([1, 2, 3, 3, 4, 5], 8.15),
        ([-1, 2, 3, 3, 4, 5], 5.0),
        ([0, 0, 0, 0, 0, 0], 5.0),
        ([-9, -8, -8, -8, -7, -6], 5.0),
    ],
)
def test_a_slower_adapter_counts_where_every_block_shows_it(afters: Sequence[int], added: float) -> None:
    found = judged("toy", [pairs(5.0, after=one) for one in afters], 10.0)

    assert found.added.median == pytest.approx(added)
    assert (round(found.after.least), round(found.after.greatest)) == (afters[0], afters[-1])


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


@pytest.mark.parametrize("looks", [False, True])
def test_the_adapters_own_time_lies_within_its_call(tmp_path: Path, looks: bool) -> None:
    subject = replace(SUBJECTS[0], prompt=64, decode=4)
    target = Target(name="tiny", adapter="torch", device="cpu", options={**subject.options, "threads": 1})
    with EngineHost(target, tmp_path) as host:
        host.start()
        session = host.open_engine({}).open_session({})
        assert host.pid is not None

        spent = measured(lambda: reply(host, session, subject, looks=looks), (os.getpid(), host.pid))

    assert 0 < spent.adapter < spent.wall
    assert 0 < spent.bare < spent.processor
    assert spent.beside > 0
