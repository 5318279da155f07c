"""Hosts, plans and runs of the toy engine, for tests. Importing it puts the fakes on the import path."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from harness.deriving.product import expand_procedure
from harness.engines.host import EngineHost, HostOptions
from harness.engines.process import Limits
from harness.model.evidence import Evidence, Header
from harness.model.scenario import Plan
from harness.model.target import Target, TargetFacts
from harness.running.recording import Progress
from harness.running.run import OpenRun, run_plan
from harness.wire import canonical
from harness.wire.evidence_doc import EvidenceWriter, read_evidence_file

FAKES = Path(__file__).parent
if str(FAKES) not in sys.path:
    sys.path.append(str(FAKES))

CHUNK = 64
QUICK = Limits(start_s=60, open_s=30, call_s=30)


def toy_target(device: str = "best", **options: str | int | bool) -> Target:
    return Target(name="toy", adapter="toy", device=device, options=options)


@contextmanager
def toy_host(folder: Path, target: Target | None = None, options: HostOptions | None = None) -> Iterator[EngineHost]:
    with EngineHost(target or toy_target(), folder, options or HostOptions(limits=QUICK)) as host:
        yield host


def toy_procedure(
    arms: Sequence[object],
    checks: Sequence[object],
    *,
    requires: Sequence[str] = ("parts", "logits", "boundaries", "prefix_cache"),
    engine: Mapping[str, object] | None = None,
    axes: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """A procedure with prompts A (two chunks and a bit) and B (A with its fourth token changed)."""
    return {
        "observability": "parts",
        "requires": list(requires),
        "families": ["kv", "recurrent"],
        "chunk": CHUNK,
        "engine": dict(engine or {}),
        "axes": dict(axes or {}),
        "prompts": {
            "A": [{"seed": 1, "length": {"chunks": 2, "tokens": 20}}],
            "B": [{"seed": 1, "length": {"chunks": 2, "tokens": 20}, "change_at": 3}],
            "more": [{"seed": 5, "length": {"tokens": 70}}],
        },
        "arms": list(arms),
        "checks": list(checks),
    }


COLD: dict[str, object] = {
    "id": "cold",
    "role": "reference",
    "steps": [{"run": {"prompt": "A", "decode": 4, "as": "a"}}],
}
WARM: dict[str, object] = {
    "id": "warm",
    "role": "candidate",
    "steps": [
        {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "first"}},
        {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "again"}},
    ],
}
FLIPPED: dict[str, object] = {
    "id": "flipped",
    "role": "control",
    "requires": ["corrupt", "store"],
    "steps": [
        {"run": {"prompt": "A", "cache": True, "as": "first"}},
        {"corrupt": {"where": "store", "boundary": {"chunks": 1}, "part": "kv", "byte": 37, "mask": 8, "as": "flip"}},
        {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "again"}},
    ],
}
EXACT: dict[str, object] = {
    "id": "again-exact",
    "exact": {"candidate": "warm.again", "reference": "cold.a", "witness": "copied"},
}
SEEN: dict[str, object] = {
    "id": "flip-seen",
    "seen": {"candidate": "flipped.again", "reference": "cold.a", "part": "kv"},
}


def toy_plan(procedure: Mapping[str, object]) -> Plan:
    return expand_procedure("Z99", procedure, [1])


def run_toy(
    host: EngineHost,
    plan: Plan,
    folder: Path,
    *,
    progress: Progress | None = None,
    facts: TargetFacts | None = None,
    last: bool = False,
) -> Evidence:
    """Run a plan and read back what was written; with ``last`` the child ends before the record does."""
    found = facts or host.start()
    path = folder / "evidence.jsonl"
    run = OpenRun(host, EvidenceWriter(path, header(plan, found)), folder=folder, progress=progress)
    run_plan(plan, run, last=lambda: last)
    return read_evidence_file(path)


def header(plan: Plan, facts: TargetFacts) -> Header:
    procedure = dict(plan.scenario.procedure)
    target = {**asdict(facts), "adapter": "toy", "group": "harness.engines", "name": "toy"}
    return Header(
        run_id="0" * 32,
        created="2026-01-01T00:00:00Z",
        suite=plan.suite,
        scales=plan.scales,
        selected=plan.selected,
        scenario_id=plan.scenario.id,
        procedure=procedure,
        procedure_digest=plan.scenario.procedure_digest,
        target={name: list(value) if isinstance(value, tuple) else value for name, value in target.items()},
        environment={"machine": canonical.digest("machine"), "facts": {}},
        source={"tree": "clean", "commit": "", "harness_version": "0", "path_sets": []},
    )
