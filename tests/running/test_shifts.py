"""Benches that share plans: each knows which of its plans is its last, so that the end of its child is told in it."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from harness import jobs
from harness.jobs import Ran, run_plans
from harness.model.scenario import Plan
from harness.pipeline import Bench


class _Host:
    def interrupt(self) -> None:
        """Nothing runs."""


class _Bench:
    def __init__(self, name: str) -> None:
        self.name = name
        self.host = _Host()


def _plans(count: int) -> list[Plan]:
    return [cast("Plan", f"plan-{number}") for number in range(count)]


def _benches(count: int) -> list[Bench]:
    return [cast("Bench", _Bench(f"bench-{number}")) for number in range(count)]


def _nothing(_: object) -> None:
    """Show nothing."""


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("benches", "plans"), [(2, 1), (2, 2), (2, 9), (3, 4), (3, 20)])
def test_a_bench_has_its_last_plan_exactly_when_none_is_left_for_it(
    monkeypatch: pytest.MonkeyPatch, seed: int, benches: int, plans: int
) -> None:
    draw = random.Random(seed)
    pauses = [draw.choice([0, 0, 0.001, 0.003]) for _ in range(2 * plans)]
    told: dict[str, list[bool]] = defaultdict(list)

    def fake(bench: Any, plan: Any, _: object, *, last: Callable[[], bool]) -> tuple[Path, bool]:
        number = int(plan.rpartition("-")[2])
        time.sleep(pauses[2 * number])
        told[bench.name].append(last())
        time.sleep(pauses[2 * number + 1])
        return Path(plan), False

    monkeypatch.setattr(jobs, "run_one", fake)
    filed: list[Ran] = []

    interrupted = run_plans(_benches(benches), _plans(plans), _nothing, filed.append)

    assert not interrupted
    assert [ran.plan for ran in filed] == _plans(plans)
    assert sum(map(len, told.values())) == plans
    for answers in told.values():
        assert answers == [False] * (len(answers) - 1) + [True]


def test_a_plan_that_was_taken_and_not_begun_is_not_filed_when_the_harness_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fake(_: object, plan: Any, __: object, *, last: Callable[[], bool]) -> tuple[Path, bool]:
        last()
        if plan == "plan-0":
            raise OSError("no space")
        time.sleep(0.05)
        return Path(plan), False

    monkeypatch.setattr(jobs, "run_one", fake)
    filed: list[Ran] = []

    with pytest.raises(OSError, match="no space"):
        run_plans(_benches(2), _plans(6), _nothing, filed.append)

    assert [str(ran.plan) for ran in filed] in ([], ["plan-1"])
