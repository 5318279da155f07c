"""The street in order: scenario -> plan -> run -> evidence -> certificate. The only file that knows all stages."""

from __future__ import annotations

import getpass
import socket
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.deriving.bodies import body_of
from harness.deriving.product import expand
from harness.deriving.validity import require_asked, require_sensible
from harness.errors import (
    InvalidDocumentError,
    InvalidScenarioError,
    NothingToDoError,
    StatecertError,
    StorageError,
    UsageError,
)
from harness.model.campaign import CampaignRecords
from harness.model.evidence import Evidence, Header, Observation
from harness.model.scenario import Plan, Scenario
from harness.model.target import Environment, Source, Target, TargetFacts
from harness.wire import canonical, resources
from harness.wire.evidence_doc import EvidenceWriter
from harness.wire.observed import read_observed
from harness.wire.privacy import told
from harness.wire.scenario_doc import parse_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.certifying.issue import Candidate
    from harness.engines.host import EngineHost
    from harness.running.source import Stamps

ADHOC: Final = "adhoc"
"""Name of the suite when a caller gives a scale."""
SCALED: Final = ("default", "more")
"""Suites in which scenarios run scaled down; a scenario is in one of them at most."""
NOTHING_RAN: Final = "nothing_ran"
"""Why a run is a draft in which no cell began."""
FILES_CHANGED: Final = "files_changed"
"""Why a run is a draft that began on other files of harness or engine than lie there when it is filed."""
NOT_FILED: Final = "not_filed"
"""Why a run is a draft that could have been certified, had its folder taken it."""


_MARK: Final = b"schema: statecert/scenario/v1"
"""What a scenario file says of itself; other YAML files may lie beside it."""


def available_scenarios(folder: Path | None = None) -> dict[str, Scenario]:
    """Scenarios by id: those of a folder, or the ones that travel with the package.

    Raises:
        InvalidScenarioError: A file does not fit its schema, or two files share an id.
    """
    texts = _texts(folder)
    found: dict[str, Scenario] = {}
    for where, text in texts:
        scenario = parse_scenario(text, where)
        if scenario.id in found:
            raise InvalidScenarioError(f"found the id {scenario.id} twice; ids are unique in a folder", where=where)
        found[scenario.id] = scenario
    return dict(sorted(found.items()))


def shipped_scenarios(ids: Collection[str]) -> dict[str, Scenario]:
    """Scenarios of the package with these ids, by id: the other files are not read; an id that has none is left out.

    Raises:
        InvalidScenarioError: A file does not fit its schema.
    """
    return {one.id: one for one in (parse_scenario(text, where) for where, text in _shipped(ids))}


def _shipped(ids: Collection[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Files of the package; their names begin with their ids."""
    for name in resources.resource_names("scenarios"):
        identity = name.rpartition("/")[2].partition("-")[0]
        if name.endswith(".yaml") and (ids is None or identity in ids):
            yield f"scenarios/{name}", resources.resource_text("scenarios", name)


def _texts(folder: Path | None) -> Iterator[tuple[str, bytes]]:
    if folder is None:
        yield from _shipped()
        return
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; --scenarios wants a folder of YAML files")
    for path in sorted(folder.rglob("*.yaml")):
        yield str(path), read_bytes(path)


def own_scenarios(folder: Path) -> int:
    """How many scenario files of a folder do not travel with the package, byte for byte; 0 if there is no folder."""
    if not folder.is_dir():
        return 0
    shipped = {text for _, text in _texts(None)}
    texts = (read_bytes(path) for path in folder.rglob("*.yaml"))
    return sum(_MARK in text and text not in shipped for text in texts)


def read_scenario(path: Path) -> Scenario:
    """One scenario file.

    Raises:
        UsageError: The file is not there.
        InvalidScenarioError: It does not fit its schema.
    """
    if not path.is_file():
        raise UsageError(f"no scenario file {path}")
    return parse_scenario(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Contents of a file.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as problem:
        raise StorageError(f"cannot read {path}: {problem.strerror}") from problem


def make_plans(chosen: Sequence[tuple[Scenario, Sequence[str]]], suite: str, scale: int | None = None) -> list[Plan]:
    """Plans of the chosen scenarios that belong to a suite, or at one given scale.

    Args:
        chosen: Scenarios, each with the ids of the cells that were named; none: all.
        suite: Name of a suite.
        scale: A scale that replaces the suite's.

    Raises:
        UsageError: No scenario of these knows the suite, or a cell does not exist.
        InvalidScenarioError: Something in one would never be asked, or could fail nothing.
    """
    plans = []
    for scenario, cells in chosen:
        require_asked(scenario, f"{scenario.where or scenario.id}#/procedure")
        scales = [scale] if scale is not None else scenario.suites.get(suite, ())
        if scales:
            name = suite if scale is None else ADHOC
            plan = expand(scenario, scales, suite=name, selected=cells or None)
            for cell in plan.cells:
                require_sensible(cell, f"{scenario.where or scenario.id}#/procedure")
            plans.append(plan)
    if not plans:
        known = sorted({name for scenario, _ in chosen for name in scenario.suites})
        raise UsageError(f"no scenario here belongs to suite {suite!r}; suites are: {', '.join(known)}")
    return plans


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """One scenario that was run, judged and filed."""

    plan: Plan
    evidence: Path
    body: Mapping[str, object]
    """Certificate body, also where it became only a draft."""
    paths: Sequence[Path]
    """What was written: certificate and evidence, or a draft."""
    draft: str
    """Why this is a draft and no certificate; empty: it is a certificate."""
    problem: StatecertError | None = None
    """What kept a certificate from being filed: its folder refused it, or cannot be trusted; None: nothing did."""


@dataclass(kw_only=True)
class Bench:
    """A target that is up: its host, and what was probed once at the start of the run."""

    target: Target
    host: EngineHost
    facts: TargetFacts
    environment: Environment
    source: Source
    folder: Path
    """Run folder; takes evidence and drafts."""
    scratch: Path
    """Takes spool and disks while a cell runs; no two benches share one."""
    names: tuple[str, ...] = field(default_factory=tuple)
    """Names of this host and user, which no record may hold."""
    stamps: Stamps = field(default_factory=dict)
    """When the files that this run rests on were changed last; none: nobody asks."""

    def header(self, plan: Plan) -> Header:
        """First record of the evidence of a plan."""
        return Header(
            run_id=uuid.uuid4().hex,
            created=utc_now(),
            suite=plan.suite,
            scales=plan.scales,
            selected=plan.selected,
            scenario_id=plan.scenario.id,
            procedure=plan.scenario.procedure,
            procedure_digest=plan.scenario.procedure_digest,
            target={
                **plain(self.facts),
                "adapter": self.target.adapter,
                "group": self.target.group,
                **({"options": told(self.target.options, self.names)} if self.target.options else {}),
            },
            environment=plain(self.environment),
            source=plain(self.source),
        )


@contextmanager
def bench(target: Target, folder: Path, *, jobs: int = 1, forked: bool = False) -> Iterator[Bench]:
    """Start a target's child, probe engine, machine and source once, and end the child afterwards.

    Args:
        target: What to start.
        folder: Run folder.
        jobs: How many benches of the run work at a time, this one among them; the record says so.
        forked: Fork all children but the first of one process that has imported the engine, where that can be done;
            the record says so, and no certificate rests on it.

    Raises:
        UsageError: Adapter or device is unknown.
        EngineError: The engine does not start.
    """
    from harness.engines.forking import Template, can_fork
    from harness.engines.host import EngineHost, HostOptions
    from harness.running.probe import probe_environment
    from harness.running.source import source_of, stamps_of

    folder.mkdir(parents=True, exist_ok=True)
    threads = max(1, HostOptions().hash_threads // jobs)
    options = HostOptions(hash_threads=threads, beside=jobs)
    with ExitStack() as last, EngineHost(target, folder, options) as host:  # a template outlives its children
        facts = host.start()
        forked = forked and can_fork(host.device)
        if forked:
            made = Template(target.adapter, target.group, folder / "template.log", beside=jobs)
            host.spawn_by(last.enter_context(made).spawn)
        stamps = stamps_of(host.declared_path_sets)
        yield Bench(
            target=target,
            stamps=stamps,
            host=host,
            facts=facts,
            environment=probe_environment(jobs, forked=forked),
            source=source_of(host.declared_path_sets),
            folder=folder,
            scratch=folder,
            names=private_names(),
        )


def run_one(
    bench: Bench,
    plan: Plan,
    progress: Callable[[Observation], None] | None = None,
    *,
    last: Callable[[], bool] | None = None,
) -> tuple[Path, bool]:
    """Run one plan; returns its evidence file and whether the run was interrupted.

    Args:
        bench: Where.
        plan: What.
        progress: Is told every observation.
        last: Asked when all cells are done, whether nothing more is run on this bench: its child ends then, and how it
            ended belongs to this evidence.

    Raises:
        StatecertError: The harness could not go on; the evidence file is cut off and says so.
    """
    from harness.running.run import OpenRun, never, run_plan

    path = evidence_path(bench, plan)
    writer = EvidenceWriter(path, bench.header(plan), names=bench.names)
    run = OpenRun(bench.host, writer, folder=bench.scratch, progress=progress)
    interrupted = run_plan(plan, run, last=last or never)
    return path, interrupted


def evidence_path(bench: Bench, plan: Plan) -> Path:
    """Where the evidence of a plan is written while it runs."""
    folder = bench.folder / "evidence"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{plan.scenario.id}-{bench.facts.engine}-{bench.facts.model}.jsonl"


def file_evidence(bench: Bench, plan: Plan, evidence: Path, certificates: Path) -> Finished:
    """Judge an evidence file and file it: as a certificate where it may be one, else as a draft with the reason.

    A folder of certificates that refuses one, or cannot be trusted, costs the certificate and not what was measured:
    that becomes a draft, and the problem is told with it.

    Raises:
        InvalidDocumentError: The evidence contradicts itself.
        StorageError: The draft could not be written.
    """
    from harness.certifying.issue import Candidate, draft

    found = Candidate(read_bytes(evidence))
    body, drafts = found.body, bench.folder / "drafts"
    problem: StatecertError | None = None
    try:
        paths, reason = _filed(found, certificates, drafts, moved=_moved(bench))
    except (StatecertError, OSError) as refused:
        problem = refused if isinstance(refused, StatecertError) else _refused(certificates, refused)
        paths, reason = draft(found, drafts, NOT_FILED), NOT_FILED
    return Finished(plan=plan, evidence=evidence, body=body, paths=paths, draft=reason, problem=problem)


def _moved(bench: Bench) -> str:
    """Why a run of this bench is a draft whatever it has shown: what it runs on may have been imported since."""
    from harness.running.source import changed_since

    changed = changed_since(bench.source, bench.host.declared_path_sets, bench.stamps)
    return FILES_CHANGED if changed else ""


def _refused(folder: Path, error: OSError) -> StorageError:
    return StorageError(f"{error.filename or folder}: {error.strerror or error}")


def file_observed(path: Path, certificates: Path, drafts: Path, now: str = "") -> tuple[Sequence[Path], str]:
    """File what a run or a campaign wrote: as a certificate where it may be one, else as a draft.

    Args:
        path: The file of observations.
        certificates: Folder of certificates.
        drafts: Folder of drafts.
        now: Time of a ledger event; the end of the run, if not given.

    Returns:
        What was written, and why it is a draft; empty: it is a certificate.

    Raises:
        InvalidDocumentError: The observations contradict themselves.
        StorageError: Something could not be written.
    """
    from harness.certifying.issue import Candidate

    return _filed(Candidate(read_bytes(path)), certificates, drafts, now)


def _filed(
    found: Candidate, certificates: Path, drafts: Path, now: str = "", *, moved: str = ""
) -> tuple[Sequence[Path], str]:
    from harness.certifying.issue import alone, draft, issue, why_draft

    reason = why_draft(found) or moved
    if not reason:
        with alone(certificates):
            reason = why_draft(found, certificates)
            if not reason:
                return issue(found, certificates, now), ""
    return draft(found, drafts, reason), reason


def judge(path: Path) -> tuple[Evidence | CampaignRecords, dict[str, object]]:
    """Observations of a file, and the body that follows from them.

    Raises:
        InvalidDocumentError: The evidence is cut off, changed, or contradicts itself.
    """
    evidence = read_observed(read_bytes(path), path.name)
    if evidence.end is None:
        raise InvalidDocumentError(
            "found no end record: the run was cut off, so nothing can be judged", where=path.name
        )
    return evidence, body_of(evidence)


def new_run_folder(out: Path) -> Path:
    """A new folder ``<out>/<utc>-<id>``."""
    folder = out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"
    try:
        folder.mkdir(parents=True)
    except OSError as problem:
        raise StorageError(f"cannot make {folder}: {problem.strerror}; choose another with --out") from problem
    return folder


def require_some(finished: Sequence[Finished]) -> None:
    """Raise if nothing was run."""
    if not finished:
        raise NothingToDoError("no scenario was run")


def utc_now() -> str:
    """RFC 3339 UTC, whole seconds."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def private_names() -> tuple[str, ...]:
    """Names of this host and user, so that a writer can refuse records that hold them."""
    names = {socket.gethostname()}
    with suppress(OSError, KeyError):
        names.add(getpass.getuser())
    return tuple(sorted(name for name in names if len(name) > 3 and name not in {"localhost", "root"}))


def plain(noun: object) -> dict[str, object]:
    """A noun as a mapping of plain values."""
    return {key: _plain_value(value) for key, value in asdict(noun).items()}  # type: ignore[call-overload]


def _plain_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_value(item) for item in value]
    return str(value) if isinstance(value, str) else value


def rejudge(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Derive every certificate of a folder again from its evidence; tells whether the body is the same, byte for byte.

    Args:
        folder: A certificates folder.

    Raises:
        InvalidDocumentError: A certificate or its evidence cannot be read, or the evidence is not there.
    """
    from harness.certifying.store import certificate_path, read_store
    from harness.certifying.store import read_evidence as evidence_bytes
    from harness.deriving.fields import text_at

    for certificate in read_store(folder).certificates.values():
        sha256 = text_at(certificate.body, "run", "evidence", "sha256")
        body = body_of(read_observed(evidence_bytes(folder, sha256), f"{sha256}.jsonl"))
        yield folder / certificate_path(certificate), canonical.canonical(body) == canonical.canonical(certificate.body)
