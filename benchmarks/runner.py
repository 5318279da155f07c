"""One way to measure: everything in one process, in turn, as ratios to a named reference.

Cases run A B C A B C after a warm-up round, so that a slow minute of the machine hits all of them.
The ratio of a case is the median of its per-round ratios; absolute times are information only.
A goal is met by that median. The load before and after and the thread settings are recorded.

Other work on the machine is seen by the processor time that a case got in its wall time. Where it was
little, the ratio of two cases of one thread is that of their processor times, and the table says so.
Threads that did not get their processors say nothing by either time: such a group is measured again,
a few times, and the attempt that was disturbed least counts; a goal that it misses is void, not missed.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

LEAST_PROCESSOR_SHARE = 0.95
ATTEMPTS = 3
"""Times that a group is measured while other work disturbs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A demand on the ratio of one case to the reference."""

    case: str
    time_at_most: float = 0.0
    """Time of the case divided by that of the reference; 0: no such demand."""
    speed_at_least: float = 0.0
    """Time of the reference divided by that of the case; 0: no such demand."""
    gb_per_core_at_least: float = 0.0
    """Bytes of the group by the least processor time of a round, in GB/s; 0: no such demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one case took. Times are seconds of one call."""

    case: str
    median_s: float
    min_s: float
    max_s: float
    gb_per_s: float
    """Bytes of the group by the median time; 0 where the group has no size."""
    time_ratio: float
    """Median over the rounds of: time of this case by time of the reference."""
    processor_share: float
    """Median over the rounds of: processor time by (wall time and threads), of the case or the reference."""
    verdict: str
    """``met``, ``missed``, ``void`` or nothing where there is no goal."""
    gb_per_core: float = 0.0
    """Bytes of the group by the least processor time that a round took; 0 where the group has no size."""
    wins_below_gb_per_s: float = 0.0
    """Computed: bandwidth of a storage below which reading fewer bytes and decoding is quicker; 0: not asked."""
    by: str = "wall"
    """Which time the ratio is of: ``wall`` or ``processor``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cases over the same work, one of them the reference."""

    title: str
    cases: Mapping[str, Callable[[], object]]
    reference: str
    size: int = 0
    """Bytes that each call goes through; 0 where that has no meaning."""
    goals: Sequence[Goal] = ()
    kept: Mapping[str, float] = field(default_factory=dict)
    """Of a case that decodes: stored bytes by decoded bytes."""
    threads: Mapping[str, int] = field(default_factory=dict)
    """Threads of a case; 1 where it is not named."""
    helped: Collection[str] = ()
    """Cases of one thread beside which another one works for a part of the time: only their wall time tells, and it
    tells only while the reference has its processor."""
    check: Callable[[Mapping[str, object]], None] | None = None
    """Gets every result of the warm-up and raises if a case computes something wrong."""


def run_group(group: Group, *, repeats: int) -> list[Row]:
    """Warm up, check the results, measure in turn, and judge; again where other work made a goal void."""
    results = {name: call() for name, call in group.cases.items()}
    if group.check is not None:
        group.check(results)
    del results
    best = _measured(group, repeats)
    for _ in range(ATTEMPTS - 1):
        if not any(row.verdict == "void" for row in best):
            break
        best = max(best, _measured(group, repeats), key=_least_disturbed)
    return best


def _least_disturbed(rows: Sequence[Row]) -> tuple[bool, float]:
    """Sort attempts: without a void goal first, then by the processor time that the worst case got."""
    return all(row.verdict != "void" for row in rows), min(row.processor_share for row in rows)


def _measured(group: Group, repeats: int) -> list[Row]:
    wall: dict[str, list[float]] = {name: [] for name in group.cases}
    processor: dict[str, list[float]] = {name: [] for name in group.cases}
    for _ in range(repeats):
        for name, call in group.cases.items():
            began, used = time.perf_counter(), processor_seconds()
            call()
            processor[name].append(processor_seconds() - used)
            wall[name].append(time.perf_counter() - began)
    return [_row(group, name, wall, processor) for name in group.cases]


def processor_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _share(group: Group, name: str, wall: Sequence[float], processor: Sequence[float]) -> float:
    threads = group.threads.get(name, 1)
    return statistics.median(used / (took * threads) for used, took in zip(processor, wall, strict=True))


def _ratio(times: Mapping[str, Sequence[float]], name: str, reference: str) -> float:
    pairs = zip(times[name], times[reference], strict=True)
    return statistics.median(mine / max(other, 1e-9) for mine, other in pairs)


def _row(group: Group, name: str, wall: Mapping[str, Sequence[float]], processor: Mapping[str, Sequence[float]]) -> Row:
    times = wall[name]
    looked_at = {group.reference} if name in group.helped else {name, group.reference}
    share = min(_share(group, one, wall[one], processor[one]) for one in looked_at)
    threads = 2 if name in group.helped else max(group.threads.get(one, 1) for one in {name, group.reference})
    by = "processor" if share < LEAST_PROCESSOR_SHARE and threads == 1 else "wall"
    ratio = _ratio(wall if by == "wall" else processor, name, group.reference)
    median = statistics.median(times)
    rate = group.size / max(min(processor[name]), 1e-9) / 1e9
    return Row(
        case=name,
        median_s=median,
        min_s=min(times),
        max_s=max(times),
        gb_per_s=group.size / median / 1e9,
        time_ratio=ratio,
        processor_share=share,
        verdict=_verdict(group, name, ratio, rate, share if threads > 1 else 1.0),
        gb_per_core=rate,
        wins_below_gb_per_s=(1 - group.kept[name]) * rate if name in group.kept else 0.0,
        by=by,
    )


def _verdict(group: Group, name: str, ratio: float, rate: float, share: float) -> str:
    goals = [goal for goal in group.goals if goal.case == name]
    if not goals:
        return ""
    met = all(
        (not goal.time_at_most or ratio <= goal.time_at_most)
        and (not goal.speed_at_least or 1 / ratio >= goal.speed_at_least)
        and (not goal.gb_per_core_at_least or rate >= goal.gb_per_core_at_least)
        for goal in goals
    )
    if met:
        return "met"
    return "void" if share < LEAST_PROCESSOR_SHARE else "missed"


def _goal_text(group: Group, name: str) -> str:
    texts = []
    for goal in group.goals:
        if goal.case == name and goal.time_at_most:
            texts.append(f"time <= {goal.time_at_most:g}x")
        if goal.case == name and goal.speed_at_least:
            texts.append(f"speed >= {goal.speed_at_least:g}x")
        if goal.case == name and goal.gb_per_core_at_least:
            texts.append(f">= {goal.gb_per_core_at_least:g} GB/s")
    return ", ".join(texts)


def print_group(group: Group, rows: Sequence[Row]) -> None:
    """Print one table."""
    print(f"\n{group.title}  (reference: {group.reference})")
    heads = ("case", "median ms", "min", "max", "GB/s", "a core", "time x", "speed x", "of", "goal", "verdict")
    print("{:34}{:>11}{:>10}{:>10}{:>8}{:>8}{:>8}{:>9}  {:10}{:16}{}".format(*heads))
    for row in rows:
        times = (1e3 * value for value in (row.median_s, row.min_s, row.max_s))
        numbers = "{:>11.3f}{:>10.3f}{:>10.3f}".format(*times)
        ratios = f"{row.gb_per_s:>8.2f}{row.gb_per_core:>8.2f}{row.time_ratio:>8.3f}{1 / row.time_ratio:>9.3f}"
        print(f"{row.case:34}{numbers}{ratios}  {row.by:10}{_goal_text(group, row.case):16}{row.verdict}")
    for row in rows:
        if row.case in group.kept:
            share = f"{100 * group.kept[row.case]:.1f} % of the bytes"
            print(
                f"  {row.case}: {share}; wins below {row.wins_below_gb_per_s:.2f} GB/s of storage (computed, one core)"
            )


def machine_facts() -> dict[str, object]:
    """Return what a reader needs to judge the figures; no names of hosts or people."""
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "thread_variables": {name: os.environ.get(name, "") for name in variables},
    }


@cache
def with_byte_code(**more: str) -> Mapping[str, str]:
    """The environment for commands that are timed: modules are compiled once, as an installation has them.

    Their byte code lies in a folder that goes when this process ends, wherever the caller's environment would have
    it, or not have it; the warm-up round fills it.

    Args:
        more: Variables that are set besides.
    """
    folder = tempfile.mkdtemp(prefix="bench-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder, **more}


def load() -> list[float]:
    """Return the load averages over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


class MakeGroups(Protocol):
    """Makes the groups of one benchmark."""

    def __call__(self, *, quick: bool) -> Sequence[Group]:
        """Return the groups; ``quick`` asks for small sizes."""
        ...


def main(groups: MakeGroups, arguments: Sequence[str] | None = None) -> int:
    """Run groups, print tables, optionally write JSON; 1 if a goal was missed.

    Args:
        groups: Makes the groups.
        arguments: Command line without the program; that of the process by default.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    options = parser.parse_args(arguments)
    before = load()
    tables: list[dict[str, object]] = []
    missed = False
    for group in groups(quick=options.quick):
        rows = run_group(group, repeats=options.repeats)
        print_group(group, rows)
        missed = missed or any(row.verdict == "missed" for row in rows)
        tables.append({"title": group.title, "rows": [asdict(row) for row in rows]})
    machine, after = machine_facts(), load()
    print(f"\nload before {before}, after {after}; {machine}")
    record = {"machine": machine, "load": [before, after], "groups": tables}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    return 1 if missed else 0
