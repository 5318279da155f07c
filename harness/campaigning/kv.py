"""The matrix of K/V element types: fresh processes, each of which measures every page in its exact and its lossy forms.

The parent starts the processes one after another, takes their records and files them; it measures nothing. What is
planned, and what follows from the records, is `harness.deriving.kv`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, Final

from harness.campaigning.campaign import Campaign, Tell, Write, conduct, require_able
from harness.deriving.kv import KV, LIMITS, derive_cells, plan_groups
from harness.deriving.kv_entries import TYPES, derive_entries
from harness.engines import registry
from harness.engines.pages import Paged
from harness.errors import NothingToDoError, ProtocolError, UsageError
from harness.model.campaign import CampaignRecords
from harness.model.values import Sha256
from harness.pipeline import Bench

if TYPE_CHECKING:
    from harness.engines.host import EngineHost

MODELS: Final[Mapping[str, Mapping[str, str]]] = {
    "scheduled": {"preset": "deep", "arch": "attention"},
    "wide": {"preset": "deep", "arch": "sliding"},
}
"""Twelve layers in one cache, so that both numbers of bins run; and two caches of fewer than ten layers each."""
CODED: Final = ("f32", "f16", "q8_0", "q4_0")
PREFIXES: Final = (4000, 19_000)
PAGE_MUTANTS: Final = "harness.page_mutants"
"""Entry-point group of adapters whose pages have one planted fault."""
_LONGEST: Final = 3600
_RECORDS: Final = frozenset({"kv_page", "kv_round", "kv_memory", "kv_walk", "kv_probe", "kv_oracle"})


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
    path: str = "compiled"


def procedure_of(asked: Asked) -> Mapping[str, object]:
    """Return what is going to be done.

    Raises:
        UsageError: A type or a model that is none, a scale below 1, or too few rounds to say anything.
    """
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
        "versions": [1, 2],
        "processes": asked.processes,
        "rounds": asked.rounds,
        "warmups": 1,
        "steps": asked.steps,
        "path": asked.path,
        "version": 2,
        "limits": dict(LIMITS),
    }


def run_kv(bench: Bench, asked: Asked, tell: Tell | None = None) -> Campaign:
    """Run the campaign on a target that is up, and write its two files into the run folder.

    Raises:
        UsageError: See :func:`procedure_of`.
        NothingToDoError: The device is absent, or the adapter has no pages.
        ProtocolError: A process ended without telling all that it was asked for.
    """
    procedure = procedure_of(asked)
    require_able(bench, ())
    adapter, group = bench.target.adapter, bench.target.group
    if not isinstance(registry.load(adapter, group), Paged):
        raise NothingToDoError(f"{adapter} does not offer its K/V rows as pages")
    groups = len(plan_groups(procedure))

    def work(write: Write) -> Sequence[EngineHost]:
        bench.host.open_engine({}).close()  # so that there is a child whose digests were tried
        for process in range(asked.processes):
            job = _job(adapter, group, {"device": _device(bench)}, procedure, process=process, probes=process == 0)
            pages = 0
            for record in child(job):
                write(record)
                if record["type"] == "kv_page" and tell is not None:
                    pages += 1
                    tell(f"process {process}, pages of {groups}", pages)
        return [bench.host]

    return conduct(bench, KV, procedure, work)


def probe(adapter: str, group: str, device: str, path: str = "compiled") -> Sequence[Mapping[str, object]]:
    """Try the probes alone on an adapter, and return the rows of the entries that are made of them."""
    procedure = procedure_of(Asked(path=path))
    records = list(child(_job(adapter, group, {"device": device}, procedure, process=-1, probes=True)))
    apart = {"type": "kv_oracle", "process": 0, "inside": 0, "ns": 1}  # the timed one belongs to a matrix
    return [row for row in derive_entries(records, [], [apart]) if row["entry"] != "H08"]


def child(job: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Do a job in a fresh process; its records, as they come.

    Raises:
        ProtocolError: It failed, took longer than an hour, or told something else than records.
    """
    command = [sys.executable, "-m", "harness.campaigning.kv_child"]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as asked:
        asked.write(json.dumps(job))
        asked.seek(0)
        with subprocess.Popen(command, stdin=asked, stdout=subprocess.PIPE, stderr=said, text=True) as running:
            late = Timer(_LONGEST, running.kill)
            late.start()
            try:
                for line in running.stdout or ():
                    yield _record(line)
            except BaseException:
                running.kill()
                raise
            finally:
                late.cancel()
        if running.returncode:
            said.seek(0)
            last = (said.read().strip().splitlines() or ["nothing"])[-1]
            raise ProtocolError(f"a process of the matrix ended with {running.returncode}: {last}")


def _record(line: str) -> Mapping[str, object]:
    record: Mapping[str, object] = json.loads(line)
    if record.get("type") not in _RECORDS:
        raise ProtocolError(f"a process of the matrix told {record.get('type')!r}")
    return record


def _job(
    adapter: str, group: str, options: Mapping[str, str], procedure: Mapping[str, object], *, process: int, probes: bool
) -> Mapping[str, object]:
    return {
        "adapter": adapter, "group": group, "options": options, "procedure": procedure, "process": process,
        "probes": probes,
    }  # fmt: skip


def _device(bench: Bench) -> str:
    """The kind of device that the target's engine said it is on."""
    return str(bench.facts.device.get("type", "cpu"))


def caught(mutant: str, device: str) -> Mapping[str, str]:
    """Try the probes, or measure the smallest matrix, on pages with one planted fault.

    Returns:
        The mutant, the entry and the probe that it names, whether that one failed, and every probe that did.

    Raises:
        UsageError: There is no such mutant, or it does not say what must stop it.
        ProtocolError: Its process ended otherwise.
    """
    told = getattr(registry.load(mutant, PAGE_MUTANTS), "caught_by", None)
    if told is None:
        raise UsageError(f"{mutant} does not say which probe must stop it")
    if told.model:
        failed = {told.entry: small_matrix(mutant, PAGE_MUTANTS, device, told.model)}
    else:
        failed = {str(row["entry"]): _texts(row["failed"]) for row in probe(mutant, PAGE_MUTANTS, device)}
    return {
        "mutant": mutant,
        "entry": told.entry,
        "probe": told.probe,
        "stopped": "yes" if told.probe in failed.get(told.entry, []) else "no",
        "failed": "; ".join(f"{entry} {name}" for entry, names in failed.items() for name in names),
    }


def small_matrix(adapter: str, group: str, device: str, model: str) -> list[str]:
    """Measure the smallest matrix of a model on an adapter, in two fresh processes, and return what its cell says.

    Raises:
        ProtocolError: A process ended without telling all that it was asked for.
    """
    procedure, options = small_procedure(model), {"device": device}
    jobs = [_job(adapter, group, options, procedure, process=process, probes=False) for process in range(2)]
    return reasons_of(procedure, [record for job in jobs for record in child(job)])


def small_procedure(model: str) -> Mapping[str, object]:
    """Return the smallest matrix that is judged: one page of ten tokens, in LCG2."""
    asked = procedure_of(Asked(scale=400, pairs=("f16",), models=(model,), steps=2, path="numpy"))
    return {**asked, "prefixes": [PREFIXES[0] // 400], "versions": [2]}


def reasons_of(procedure: Mapping[str, object], records: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the reasons that the one cell of a small matrix gives."""
    header = {"type": "header", "procedure": procedure}
    found = CampaignRecords(records=[header, *records], sha256=Sha256("0" * 64), bytes=0)
    [cell] = derive_cells(found, "records")
    return _texts(cell["reasons"])


def _texts(names: object) -> list[str]:
    return [str(name) for name in names] if isinstance(names, list) else []
