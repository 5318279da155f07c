"""Kills a process at random points of a publish and looks at what it left.

``python -m tests.torch_engine_store.kill_rounds --rounds 200`` is the campaign; a test runs 20.
A round: a child, forked from a launcher, opens the folder, stores chains of links as fast as it can and says each one that
it has stored; after a random time it is killed. Then the folder must open, every link that was said
to be stored must load exactly, every other one that is offered too, and nothing temporary is left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.torch_engine.keys import CacheKey
from harness.torch_engine.store import DiskStore, Record, Section, SectionKind
from tests.torch_engine_store.store_samples import BUILD, stream

ROOT = Path(__file__).parents[2]
MODULE = "tests.torch_engine_store.kill_rounds"
BUDGET = 1 << 28
DEPTH = 4
ROW_BYTES = 1 << 12
ROWS = 128
"""Rows of a link: half a megabyte, so that most of a round is spent inside a publish."""
LINKS_CHECKED = 12


def link(tree: int, depth: int) -> Record:
    """A link of a tree; depth 1 is the root."""

    def key(at: int) -> CacheKey:
        return CacheKey(domain=b"kill", boundary=at * ROWS, fingerprint=tree << 8 | at)

    sections = (
        Section(name="state", kind=SectionKind.FIXED, row_bytes=1 << 16),
        Section(name="k", kind=SectionKind.ROWS, row_bytes=ROW_BYTES, start=(depth - 1) * ROWS, stop=depth * ROWS),
    )
    return Record(
        key=key(depth),
        parent=key(depth - 1) if depth > 1 else None,
        position=depth * ROWS,
        meta=b"",
        sections=sections,
    )


def content(of: Record) -> list[bytes]:
    """Bytes that no other link has."""
    return [stream(f"{of.key.fingerprint}/{section.name}", 4096) * (section.nbytes // 4096) for section in of.sections]


def open_folder(folder: Path) -> DiskStore:
    return DiskStore.open(folder, build=BUILD, budget_bytes=BUDGET)


def say(text: str) -> None:
    """Write a line with one call, so that a kill cannot cut it."""
    os.write(1, f"{text}\n".encode())


def store_forever(folder: Path, tree: int) -> None:
    """The child: says ``ready`` and its id, then each link once it is stored."""
    with open_folder(folder) as store:
        say(f"ready {os.getpid()}")
        while True:
            for depth in range(1, DEPTH + 1):
                record = link(tree, depth)
                if store.put(record, content(record)) == "stored":
                    say(f"{tree} {depth}")
            tree += 1


def launch(folder: Path) -> None:
    """The launcher: a child for every line it reads, whose end it reports. It has loaded all modules."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            store_forever(folder, int(line))
        os.waitpid(child, 0)
        say("dead")


@contextmanager
def launcher(folder: Path) -> Iterator[Launcher]:
    """A running launcher."""
    command = [sys.executable, "-m", MODULE, "--launch", str(folder)]
    pipes = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipes, stdout=pipes, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Launcher(to=process.stdin, of=process.stdout)
        process.stdin.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """The two ends of a launcher."""

    to: IO[str]
    of: IO[str]

    def one_round(self, tree: int, wait_s: float) -> list[tuple[int, int]]:
        """Have a child started, kill it; the links that it said it had stored."""
        print(tree, file=self.to, flush=True)
        word, pid = self.of.readline().split()
        assert word == "ready"
        time.sleep(wait_s)
        os.kill(int(pid), signal.SIGKILL)
        lines: list[list[str]] = []
        for line in iter(self.of.readline, "dead\n"):
            assert line, "the launcher ended"
            lines.append(line.split())
        return [(int(first), int(second)) for first, second in lines]


def check(folder: Path, stored: list[tuple[int, int]], chooser: random.Random) -> Counter[str]:
    """Reopen and compare; what was found.

    Raises:
        AssertionError: a link was lost, torn or left half done.
    """
    temporaries = len(list(folder.glob("*.tmp")))
    with open_folder(folder) as store:
        for tree, depth in stored:
            if store.find(link(tree, depth).key) is None:
                raise AssertionError(f"tree {tree} depth {depth} was stored and is gone")
        rows = store.entries()
        counters = store.counters()
        known = {link(t, d).key.hex: link(t, d) for t, d in {(t, d) for t, _ in [*stored, (0, 0)] for d in range(1, 5)}}
        chosen = chooser.sample(rows, min(LINKS_CHECKED, len(rows))) + rows[-2:]
        for row in chosen:
            record = known.get(str(row["key"])) or _find(store, str(row["key"]))
            loaded = store.load(record.key)
            if [bytes(view) for view in loaded.payload] != content(record):
                raise AssertionError(f"{row['name']} was served torn")
        if list(folder.glob("*.tmp")) or counters["quarantined"]:
            raise AssertionError("something half done is left, or a whole link was quarantined")
    return Counter(killed_inside_a_publish=int(temporaries > 0), links=len(rows), rounds=1)


def _find(store: DiskStore, key_hex: str) -> Record:
    """A link by its key's digits; it was stored by the killed child but not said any more."""
    for tree in range(1 << 12):
        for depth in range(1, DEPTH + 1):
            if link(tree, depth).key.hex == key_hex:
                found = store.find(link(tree, depth).key)
                if found is not None:
                    return found
    raise AssertionError(f"{key_hex}: no such link was ever stored")


def run_rounds(folder: Path, *, rounds: int, seed: int, longest_s: float = 0.04) -> Counter[str]:
    """Kill ``rounds`` children one after the other over the same folder."""
    chooser = random.Random(seed)
    total: Counter[str] = Counter()
    stored: list[tuple[int, int]] = []
    with launcher(folder) as running:
        for _ in range(rounds):
            tree = max((tree for tree, _ in stored), default=0) + 2
            stored += running.one_round(tree, chooser.uniform(0, longest_s))
            found = check(folder, stored, chooser)
            total["links"] = found.pop("links")
            total += found
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch is not None:
        launch(options.launch)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = run_rounds(Path(folder), rounds=options.rounds, seed=options.seed)
    print(", ".join(f"{name} {number}" for name, number in sorted(found.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
