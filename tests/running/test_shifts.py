"""Benches that share plans: each knows which of its plans is its last, so that the end of its child is told in it."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from harness import jobs
from harness.jobs import Ran, run_plans
from harness.model.scenario import Plan
from harness.model.target import Environment
from harness.model.values import Sha256
from harness.pipeline import Bench


class _Host:
    def __init__(self) -> None:
        self.started_ahead = 0

    def interrupt(self) -> None:
        """Nothing runs."""

    def start_ahead(self) -> None:
        """Count it."""
        self.started_ahead += 1


@dataclass(frozen=True)
class _Bench:
    name: str
    host: _Host = field(default_factory=_Host)
    environment: Environment = field(
        default_factory=lambda: Environment(machine=Sha256("0" * 64), facts={"jobs": 2, "cores": 2})
    )


class _Plan(str):
    __slots__ = ()
    timed = False
    restarts = False


class _Timed(str):
    __slots__ = ()
    timed = True
    restarts = True


def _plans(count: int) -> list[Plan]:
    return [cast("Plan", _Plan(f"plan-{number}")) for number in range(count)]


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


def test_plans_that_are_judged_by_times_run_alone_and_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[str] = []
    seen: list[tuple[str, list[str], object, bool]] = []

    def fake(bench: Any, plan: Any, _: object, *, last: Callable[[], bool]) -> tuple[Path, bool]:
        running.append(plan)
        time.sleep(0.01)
        if plan.timed:
            seen.append((plan, list(running), bench.environment.facts["jobs"], last()))
        else:
            assert bench.environment.facts["jobs"] == 2
            last()
        running.remove(plan)
        return Path(plan), False

    monkeypatch.setattr(jobs, "run_one", fake)
    plans = [
        *_plans(3),
        cast("Plan", _Timed("timed-1")),
        cast("Plan", _Plan("plan-9")),
        cast("Plan", _Timed("timed-2")),
    ]
    filed: list[Ran] = []

    assert not run_plans(_benches(2), plans, _nothing, filed.append)

    assert seen == [("timed-1", ["timed-1"], 1, False), ("timed-2", ["timed-2"], 1, False)]
    assert [str(ran.plan) for ran in filed] == ["timed-1", "timed-2", "plan-0", "plan-1", "plan-2", "plan-9"]


def test_the_last_plan_that_is_judged_by_times_ends_the_child_where_nothing_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[bool] = []

    def fake(_: object, plan: Any, __: object, *, last: Callable[[], bool]) -> tuple[Path, bool]:
        told.append(last())
        return Path(plan), False

    monkeypatch.setattr(jobs, "run_one", fake)

    run_plans(_benches(2), [cast("Plan", _Timed(name)) for name in ("one", "two")], _nothing, lambda _: None)

    assert told == [False, True]


class _Restarting(str):
    __slots__ = ()
    timed = False
    restarts = True


def _nothing_to_run(_: object, plan: Any, __: object, *, last: Callable[[], bool]) -> tuple[Path, bool]:
    last()
    return Path(plan), False


def test_a_child_is_started_ahead_until_no_plan_goes_on_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "run_one", _nothing_to_run)
    (bench,) = benches = _benches(1)
    plans = [*_plans(2), cast("Plan", _Restarting("restarting")), *_plans(3)]

    run_plans(benches, plans, _nothing, lambda _: None)

    assert cast("_Host", bench.host).started_ahead == 3


def test_no_child_is_started_ahead_beside_plans_that_are_judged_by_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "run_one", _nothing_to_run)
    (bench,) = benches = _benches(1)

    run_plans(benches, [cast("Plan", _Timed("one")), *_plans(2)], _nothing, lambda _: None)

    assert cast("_Host", bench.host).started_ahead == 0


def test_what_has_run_is_filed_while_the_next_plan_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    filed, filing = threading.Event(), threading.Event()

    def fake(_: object, plan: Any, __: object, *, last: Callable[[], bool]) -> tuple[Path, bool]:
        if plan == "plan-1":
            assert filing.wait(10)
            filed.set()
        last()
        return Path(plan), False

    def file(ran: Ran) -> None:
        if str(ran.plan) == "plan-0":
            filing.set()
            assert filed.wait(10)

    monkeypatch.setattr(jobs, "run_one", fake)

    assert not run_plans(_benches(1), _plans(2), _nothing, file)
