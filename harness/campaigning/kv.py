"""The matrix of K/V element types: fresh processes, each of which measures every page in its exact and its lossy forms.

The parent starts the processes one after another, takes their records and files them; it measures nothing. What is
planned is `harness.deriving.kv_plan`, what follows from the records `harness.deriving.kv`. A campaign that is broken
off keeps the pages that it measured, and goes on from them (`kv_resuming`). What pages with a planted fault come to is
in `kv_mutants`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, Final

from harness.campaigning.campaign import Campaign, Tell, Write, conduct, require_able
from harness.campaigning.kv_probes import KERNELS, Paths, refusal_of_paths
from harness.campaigning.kv_resuming import NOTHING, Kept
from harness.deriving.kv_entries import TYPES
from harness.deriving.kv_plan import CODECS, CODED, KV, LIMITS, MODELS, VERSION, Group, plan_groups
from harness.engines import registry
from harness.engines.pages import Paged, PageRefusedError
from harness.errors import EngineError, NothingToDoError, ProtocolError, UsageError
from harness.pipeline import Bench

if TYPE_CHECKING:
    from harness.engines.host import EngineHost

PREFIXES: Final = (4000, 19_000)
ENCODERS: Final = ("compiled", "numpy", "oracle")
RESTORERS: Final = (*ENCODERS, "torch", *KERNELS)
"""Declared paths. ``torch`` and ``triton`` decode on the device of the rows."""
_LONGEST: Final = 3600
"""Seconds in which a process must tell something."""
_RECORDS: Final = frozenset({"kv_page", "kv_round", "kv_memory", "kv_walk", "kv_probe", "kv_oracle"})


class Pace:
    """How much is measured, and how long the rest may take if a token goes on costing what it cost so far.

    Args:
        groups: Pages of each process.
        processes: How many.
        done: Pages that were measured before, by process.
    """

    def __init__(self, groups: Sequence[Group], processes: int, done: Mapping[int, Collection[str]]) -> None:
        self._tokens = {group.id: group.prefix for group in groups}
        self._all = sum(self._tokens.values()) * processes
        before = [name for pages in done.values() for name in pages]
        self.pages, self._before = len(before), sum(self._tokens[name] for name in before)
        self._now = 0
        self._began = self._at = 0.0

    def note(self, record: Mapping[str, object], at: float) -> None:
        """Take a record into account: time begins with the last probe or, without one, with the first record.

        Args:
            record: Of any type.
            at: Seconds, on a clock that does not go back.
        """
        if record["type"] == "kv_probe" or not self._began:
            self._began = at
        if record["type"] == "kv_page":
            self.pages, self._now, self._at = self.pages + 1, self._now + self._tokens[str(record["group"])], at

    def left(self) -> str:
        """Return how long the rest may take, like ``about 12 min left, ``; empty where nothing is left or known."""
        rest, spent = self._all - self._before - self._now, self._at - self._began
        if not rest or not self._now or spent <= 0:
            return ""
        seconds = spent * rest / self._now
        return f"about {seconds / 60:.0f} min left, " if seconds >= 90 else f"about {seconds:.0f} s left, "


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a caller chose."""

    scale: int = 16
    """Divides the prefixes of 4,000 and 19,000 tokens."""
    pairs: Sequence[str] = CODED
    """Element types of K and of V."""
    models: Sequence[str] = tuple(MODELS)
    processes: int = 2
    rounds: int = 5
    steps: int = 32
    versions: Sequence[int] = CODECS
    """Of the segments."""
    path: str = "compiled"
    """Encodes."""
    restore: str = ""
    """Decodes into the resident rows; empty: ``path`` on a processor, ``torch`` on any other device."""

    def restored_on(self, device: str) -> str:
        """The path that decodes on a kind of device."""
        return self.restore or (self.path if device == "cpu" else "torch")


def procedure_of(asked: Asked, device: str = "cpu") -> Mapping[str, object]:
    """Return what is going to be done.

    Raises:
        UsageError: A type, a model or a path that is none, a scale below 1, or too few rounds to say anything.
    """
    restore = asked.restored_on(device)
    if asked.path not in ENCODERS or restore not in RESTORERS or (restore in KERNELS and 1 in asked.versions):
        raise UsageError(
            f"found paths {asked.path} and {restore}; encoding: {', '.join(ENCODERS)}, restoring: "
            f"{', '.join(RESTORERS)}, triton for version 2 alone"
        )
    strange = sorted({*asked.pairs} - {*CODED}) + sorted({*asked.models} - {*MODELS})
    if strange or asked.scale < 1 or not asked.pairs or not asked.models:
        raise UsageError(f"found {strange or asked.scale}; types are {', '.join(CODED)}, models {', '.join(MODELS)}")
    if asked.processes < 2 or asked.processes * asked.rounds < LIMITS["pairs"]:
        raise UsageError(
            f"found {asked.processes} processes of {asked.rounds} rounds; at least 2, and 10 rounds in all"
        )
    return {
        "models": {name: dict(MODELS[name]) for name in asked.models},
        "prefixes": [prefix // asked.scale for prefix in PREFIXES],
        "scale": asked.scale,
        "types": list(TYPES),
        "coded": list(asked.pairs),
        "versions": sorted({*asked.versions}),
        "processes": asked.processes,
        "rounds": asked.rounds,
        "warmups": 1,
        "steps": asked.steps,
        "path": asked.path,
        "restore": restore,
        "version": VERSION,
        "limits": dict(LIMITS),
    }


def whole_of(procedure: Mapping[str, object]) -> int:
    """Return how many pages all processes measure together."""
    return len(plan_groups(procedure)) * processes_of(procedure)


def processes_of(procedure: Mapping[str, object]) -> int:
    """Return how many fresh processes measure."""
    return int(str(procedure["processes"]))


def run_kv(bench: Bench, asked: Asked | Kept, tell: Tell | None = None) -> Campaign:
    """Run the campaign on a target that is up, and write its two files into the run folder.

    Args:
        bench: The target.
        asked: What to do; or what another run kept when it was broken off, which goes on.
        tell: Is told each page.

    Raises:
        UsageError: See :func:`procedure_of`; or another target, source or machine than what was kept is of.
        NothingToDoError: The device is absent, or the adapter has no pages.
        ProtocolError: A process ended without telling all that it was asked for; with words about what is kept.
        KeyboardInterrupt: With the same words.
    """
    adapter, group = bench.target.adapter, bench.target.group
    require_able(bench, ())
    device = _device(bench)
    kept = asked if isinstance(asked, Kept) else NOTHING
    procedure = kept.procedure if isinstance(asked, Kept) else procedure_of(asked, device)
    _require_pages(adapter, group, device, procedure)
    kept.require_same(bench)

    def work(write: Write) -> Sequence[EngineHost]:
        bench.host.open_engine({}).close()  # so that there is a child whose digests were tried
        bench.host.discard()  # it is not needed any more, and has hours in which to be lost
        pace = Pace(plan_groups(procedure), processes_of(procedure), kept.done)
        for record in kept.carried():
            write(record)
        try:
            for process in kept.open_processes(procedure):
                probes, done = process == 0 and not kept.probed, sorted(kept.done.get(process, ()))
                for record in child(job(adapter, group, device, procedure, process=process, probes=probes, done=done)):
                    write(record)
                    pace.note(record, time.monotonic())
                    if record["type"] == "kv_page" and tell is not None:
                        tell(f"{pace.left()}process {process}, {record['group']}", pace.pages)
        except (KeyboardInterrupt, EngineError) as error:
            kept_here = f"{pace.pages} of {whole_of(procedure)} pages are kept"
            said = f"{error}; " if str(error) else ""
            words = f"{said}{kept_here}; `statecert kv --resume {bench.folder / 'kv.jsonl'}` goes on"
            raise (
                KeyboardInterrupt(words) if isinstance(error, KeyboardInterrupt) else ProtocolError(words)
            ) from error
        return [bench.host]

    return conduct(bench, KV, procedure, work)


def _require_pages(adapter: str, group: str, device: str, procedure: Mapping[str, object]) -> None:
    """Do nothing if an adapter offers its rows as pages, and the declared paths run there.

    Raises:
        NothingToDoError: It does not.
        UsageError: A path does not run on this machine and device.
    """
    found = registry.load(adapter, group)
    if not isinstance(found, Paged):
        raise NothingToDoError(f"{adapter} does not offer its K/V rows as pages")
    try:
        pages = found.open_pages({"device": device})
    except PageRefusedError as error:
        raise NothingToDoError(str(error)) from error
    refused = refusal_of_paths(pages, Paths(str(procedure["path"]), str(procedure["restore"])))
    if refused:
        raise UsageError(refused)


def child(asked: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Do a job in a fresh process; its records, as they come.

    Raises:
        ProtocolError: It failed, told nothing for an hour, or told something else than records.
    """
    command = [sys.executable, "-m", "harness.campaigning.kv_child"]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as given:
        given.write(json.dumps(asked))
        given.seek(0)
        with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=said, text=True) as running:
            late = _late(running)
            try:
                for line in running.stdout or ():
                    late.cancel()
                    yield _record(line)
                    late = _late(running)
            except BaseException:
                running.kill()
                raise
            finally:
                late.cancel()
        if running.returncode:
            said.seek(0)
            last = (said.read().strip().splitlines() or ["nothing"])[-1]
            raise ProtocolError(f"a process of the matrix ended with {running.returncode}: {last}")


def _late(running: subprocess.Popen[str]) -> Timer:
    """What ends a process that tells nothing."""
    timer = Timer(_LONGEST, running.kill)
    timer.daemon = True
    timer.start()
    return timer


def _record(line: str) -> Mapping[str, object]:
    record: Mapping[str, object] = json.loads(line)
    if record.get("type") not in _RECORDS:
        raise ProtocolError(f"a process of the matrix told {record.get('type')!r}")
    return record


def job(
    adapter: str, group: str, device: str, procedure: Mapping[str, object], *, process: int, probes: bool,
    done: Sequence[str] = (),
) -> Mapping[str, object]:  # fmt: skip
    """Return what a process is asked for: a procedure, which number it has, and the pages that are done already."""
    return {
        "adapter": adapter, "group": group, "options": {"device": device}, "procedure": procedure, "process": process,
        "probes": probes, "done": list(done),
    }  # fmt: skip


def _device(bench: Bench) -> str:
    """The kind of device that the target's engine said it is on."""
    return str(bench.facts.device.get("type", "cpu"))
