"""Mutants: engines with one planted fault each, run one after another, each against the check that must stop it.

One child process serves them all: a mutant is loaded into it by its entry point, its engines are closed, the next one
is loaded. After the mutants of a cell the clean engine runs the same cell in the same child and must pass: so the check
does not fail by itself, and no fault has outlived its mutant. A mutant that ends the child has lost its chance: a crash
is not a stop, and the next one gets a new child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final, Protocol, TypeVar

from harness.deriving.decide import unjudged
from harness.deriving.judge import judge
from harness.engines import registry
from harness.engines.forking import Template, can_fork
from harness.engines.host import EngineHost, HostOptions
from harness.errors import EngineError, NothingToDoError, UsageError
from harness.model.decision import CellDecision, CheckResult
from harness.model.evidence import Crash, Evidence
from harness.model.scenario import CellPlan, Plan, Scenario
from harness.model.target import Environment, Source, Target, TargetFacts
from harness.model.values import Outcome
from harness.pipeline import SCALED, Bench, make_plans, private_names, read_bytes, run_one
from harness.wire.evidence_doc import read_evidence

_FACT: Final = "mutant."
_CONTROLS: Final = "CTRL."
_HARNESS: Final = frozenset({"REPEAT.COLD@1", "RUN.FINISHED@1"})
_REFUSED: Final = "refused"
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a mutant says of itself: its fault, and the check that must fail."""

    id: str
    fault: str
    scenario: str
    cell: Mapping[str, str]
    """Labels of axes besides the scale."""
    check: str
    part: str
    """Name or family of the first part that must differ; empty: the check is not about parts."""
    phase: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One mutant after its run."""

    expected: Expected
    cell: str
    """Id of the cell; empty: it did not come to a run."""
    found: str
    """What the check found: part and phase, or the reason of its failure."""
    why_not: str
    """Why the mutant counts as not stopped; empty: it was stopped."""

    @property
    def stopped(self) -> bool:
        """Whether the named check failed where it had to."""
        return not self.why_not


class ManyHost(EngineHost):
    """A host whose one child serves one target after another."""

    def __init__(self, target: Target, folder: Path, options: HostOptions) -> None:
        super().__init__(target, folder, options)
        self._digested: dict[str, Sequence[Sequence[object]]] = {}

    def digested(self, declared: Mapping[str, Sequence[str]]) -> Sequence[Sequence[object]]:
        """Let the child digest path sets, the first time that it is asked for these: mutants share their files."""
        key = repr(sorted(declared.items()))
        if key not in self._digested:
            self._digested[key] = super().digested(declared)
        return self._digested[key]

    def become(self, target: Target) -> TargetFacts:
        """Load another adapter into the child, and say who its engine is.

        Raises:
            UsageError: The adapter or the device is unknown.
            EngineError: The adapter cannot be loaded or opened.
        """
        self.target = target
        self._first, self._models = None, {}
        registry.find(target.adapter, target.group)
        if self.alive:
            self._load_adapter()
            self._choose_device()
        return self.start()


@dataclass(kw_only=True)
class Workshop:
    """One child, and what was probed once for all mutants."""

    host: ManyHost
    device: str
    preset: str
    options: Mapping[str, str | int | bool]
    """Of the engines, beside the preset."""
    engine: str
    folder: Path
    environment: Environment
    source: Source
    facts: dict[tuple[str, str], TargetFacts] = field(default_factory=dict)
    """By group and name."""
    runs: int = 0

    def alone(self) -> Workshop:
        """Return this workshop for work that is judged by times, while no other one is at work."""
        return replace(self, environment=self.environment.alone(), folder=self.folder / "alone", runs=0)

    def target(self, name: str, group: str) -> Target:
        """Return the target of a mutant or of the clean engine."""
        options = {**self.options, "preset": self.preset}
        return Target(name=name, adapter=name, device=self.device, options=options, group=group)

    def become(self, name: str, group: str) -> Bench:
        """Bring an engine into the child.

        Raises:
            UsageError: It is unknown.
            EngineError: It does not start.
        """
        target = self.target(name, group)
        self.facts[group, name] = self.host.become(target)
        self.runs += 1
        return Bench(
            target=target,
            host=self.host,
            facts=self.facts[group, name],
            environment=self.environment,
            source=self.source,
            folder=(folder := self.folder / f"{self.runs:04}-{name}"),
            scratch=folder,
            names=private_names(),
        )


@contextmanager
def workshops(
    folder: Path,
    count: int,
    *,
    engine: str,
    device: str,
    preset: str,
    options: Mapping[str, str | int | bool] | None = None,
    forked: bool = False,
) -> Iterator[list[Workshop]]:
    """Start children with the clean engine in them, probe machine and source once, and end the children afterwards.

    Args:
        folder: Takes logs and runs.
        count: Of children.
        engine: The clean engine.
        device: Of the engines.
        preset: Of the model.
        options: Of the engines, beside the preset.
        forked: Fork the children of one process that has imported the engine, where that can be done.

    Raises:
        UsageError: Engine or device is unknown.
        EngineError: The engine does not start.
    """
    from harness.running.probe import probe_environment
    from harness.running.source import source_of

    more = dict(options or {})
    target = Target(name=engine, adapter=engine, device=device, options={**more, "preset": preset})
    with ExitStack() as stack:
        treated = HostOptions(beside=count)
        if forked and can_fork(device):
            template = stack.enter_context(Template(engine, registry.ENGINES, folder / "template.log", beside=count))
            treated = replace(treated, spawn=template.spawn)
        hosts = [stack.enter_context(ManyHost(target, folder / f"child-{n}", treated)) for n in range(1, count + 1)]
        facts = _started(hosts[0])
        environment, source = probe_environment(count), source_of(hosts[0].declared_path_sets)
        yield [
            Workshop(
                host=host,
                device=device,
                preset=preset,
                options=more,
                engine=engine,
                folder=folder / f"child-{n}",
                environment=environment,
                source=source,
                facts={(registry.ENGINES, engine): facts},
            )
            for n, host in enumerate(hosts, start=1)
        ]


def _started(host: ManyHost) -> TargetFacts:
    facts = host.start()
    if host.absent:
        raise UsageError(f"no device for mutants: {host.absent}")
    return facts


def chosen(words: Sequence[str], preset: str = "tiny", engine: str = "torch") -> list[str]:
    """Return the ids that the words mean: whole ids, or kinds like ``K07``; all, without words.

    A mutant whose entry point asks for an extra is one of the preset (real weights) or of the engine of that name, and
    of no other.

    Args:
        words: Ids and kinds.
        preset: Model preset of the clean engine.
        engine: The clean engine.

    Raises:
        NothingToDoError: A word means no mutant of the preset, or none is installed.
    """
    weights = {name: registry.extras(name, registry.MUTANTS) for name in registry.names(registry.MUTANTS)}
    asked = {extra for extras in weights.values() for extra in extras}
    own = {preset, engine} & asked
    known = [name for name, extras in weights.items() if (own & set(extras) if own else not extras)]
    for word in words:
        needed = weights.get(word, ())
        if needed and word not in known:
            if needed[0] in registry.names():
                raise NothingToDoError(f"mutant {word!r} is one of another engine: --target {needed[0]}")
            raise NothingToDoError(f"mutant {word!r} needs real weights: --target transformers --preset {needed[0]}")
    for word in words:
        if not any(_means(word, name) for name in known):
            near = get_close_matches(word, known, n=3)
            meant = f" (did you mean {' or '.join(near)}?)" if near else ""
            where = "`statecert mutants --count`; those of a scenario: `statecert mutants --scenario ID`"
            raise NothingToDoError(f"no mutant {word!r}{meant}; ids and kinds: {where}")
    found = [name for name in known if not words or any(_means(word, name) for word in words)]
    if not found:
        raise NothingToDoError("no mutant is installed")
    return found


def _means(word: str, name: str) -> bool:
    return word == name or word == name.partition(".")[0]


def expectations(shop: Workshop, names: Sequence[str]) -> list[Expected]:
    """Ask every mutant what it is.

    Raises:
        UsageError: One does not say which check must stop it.
        EngineError: One does not start.
    """
    return [expected_of(name, shop.become(name, registry.MUTANTS).facts.identity) for name in names]


def expected_of(name: str, facts: Mapping[str, str | int | bool]) -> Expected:
    """Return what a mutant says of itself in the facts of its identity.

    Raises:
        UsageError: It does not say which check must stop it.
    """
    told = {key.removeprefix(_FACT): str(fact) for key, fact in facts.items() if key.startswith(_FACT)}
    missing = sorted({"fault", "scenario", "check"} - set(told))
    if missing:
        raise UsageError(f"mutant {name} does not say what must stop it: its identity lacks mutant.{missing[0]}")
    labels = [pair.partition("=") for pair in told.get("cell", "").split(",") if pair]
    return Expected(
        id=name,
        fault=told["fault"],
        scenario=told["scenario"],
        cell={axis: label for axis, _, label in labels},
        check=told["check"],
        part=told.get("part", ""),
        phase=told.get("phase", ""),
        reason=told.get("reason", ""),
    )


def cell_of(expected: Expected, scenarios: Mapping[str, Scenario]) -> Plan:
    """Return the plan with the one cell that must stop a mutant.

    Raises:
        UsageError: There is no such scenario, cell or check, or more than one cell.
    """
    scenario = scenarios.get(expected.scenario)
    if scenario is None:
        raise UsageError(f"mutant {expected.id}: there is no scenario {expected.scenario}")
    suite = scaled_suite(scenario)
    whole = make_plans([(scenario, [])], suite)[0]
    fitting = [cell for cell in whole.cells if not cell.excluded and _fits(cell, expected.cell)]
    if len(fitting) != 1:
        labels = ",".join(f"{axis}={label}" for axis, label in expected.cell.items())
        raise UsageError(f"mutant {expected.id}: {len(fitting)} cells of {scenario.id} fit [{labels}]; expected one")
    if all(check.id != expected.check for check in fitting[0].checks):
        raise UsageError(f"mutant {expected.id}: {fitting[0].id} has no check {expected.check}")
    return make_plans([(scenario, [fitting[0].id])], suite)[0]


def scaled_suite(scenario: Scenario) -> str:
    """Return the suite in which a scenario runs scaled down; its first one where it has no such suite."""
    return next((suite for suite in SCALED if suite in scenario.suites), next(iter(scenario.suites), SCALED[0]))


def _fits(cell: CellPlan, labels: Mapping[str, str]) -> bool:
    return all(str(cell.coords.get(axis)) == label for axis, label in labels.items())


class Teller(Protocol):
    """Is told what is run, and what it came to."""

    def cell_begin(self, cell: str) -> None:
        """A run begins."""

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """A run ended."""


class Serial:
    """Tells one display from several threads.

    Args:
        display: Is called by one thread at a time.
    """

    def __init__(self, display: Teller) -> None:
        self._display = display
        self._lock = Lock()

    def cell_begin(self, cell: str) -> None:
        """A run begins."""
        with self._lock:
            self._display.cell_begin(cell)

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """A run ended."""
        with self._lock:
            self._display.cell_end(cell, outcome, reason)


def runs_of(wanted: Sequence[Expected], scenarios: Mapping[str, Scenario]) -> list[list[tuple[Expected, Plan]]]:
    """Return mutants with their cells, those of one cell together.

    Raises:
        UsageError: A mutant names a cell or a check that does not exist.
    """
    by_cell: dict[str, list[tuple[Expected, Plan]]] = {}
    for expected in wanted:
        plan = cell_of(expected, scenarios)
        by_cell.setdefault(plan.selected[0], []).append((expected, plan))
    return sorted(by_cell.values(), key=len, reverse=True)


def try_all(shops: Sequence[Workshop], runs: Sequence[Sequence[tuple[Expected, Plan]]], display: Teller) -> list[Tried]:
    """Run every mutant against its cell, and after those of a cell the clean engine in the same child.

    Args:
        shops: Where they run, side by side.
        runs: Of :func:`runs_of`.
        display: Shows each run.

    Raises:
        StatecertError: The harness could not go on.
    """
    done = side_by_side(shops, runs, lambda shop, group: _try_group(shop, group, display))
    return sorted((one for group in done for one in group), key=lambda one: one.expected.id)


def side_by_side(
    shops: Sequence[Workshop], tasks: Sequence[_Task], work: Callable[[Workshop, _Task], _Result]
) -> list[_Result]:
    """Do every task in whichever workshop is free; results in the order of the tasks.

    What is raised, Ctrl-C too, ends the work after the tasks that are under way.
    """
    free: SimpleQueue[Workshop] = SimpleQueue()
    for shop in shops:
        free.put(shop)

    def one(task: _Task) -> _Result:
        shop = free.get()
        try:
            return work(shop, task)
        finally:
            free.put(shop)

    pool = ThreadPoolExecutor(len(shops))
    try:
        futures = [pool.submit(one, task) for task in tasks]
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


def _try_group(shop: Workshop, group: Sequence[tuple[Expected, Plan]], display: Teller) -> list[Tried]:
    tried = [_shown(shop, expected, plan, display) for expected, plan in group]
    cell = f"{shop.engine} {group[0][1].selected[0]}"
    display.cell_begin(cell)
    unsound = why_unsound(shop, group[0][1])
    display.cell_end(cell, "error" if unsound else "pass", unsound)
    return [replace(one, why_not=unsound) if unsound else one for one in tried]


def _shown(shop: Workshop, expected: Expected, plan: Plan, display: Teller) -> Tried:
    display.cell_begin(expected.id)
    tried = try_one(shop, expected, plan)
    display.cell_end(expected.id, "stopped" if tried.stopped else "survived", tried.why_not)
    return tried


def try_one(shop: Workshop, expected: Expected, plan: Plan) -> Tried:
    """Run one mutant against its cell."""
    try:
        evidence, decision = run_cell(shop, expected.id, registry.MUTANTS, plan)
    except EngineError as error:
        return Tried(expected=expected, cell=plan.selected[0], found="", why_not=f"did not start: {error}")
    return judged(expected, decision, evidence)


def why_unsound(shop: Workshop, plan: Plan) -> str:
    """Run the clean engine against a cell; return why a failure in that cell means nothing, or nothing."""
    _, decision = run_cell(shop, shop.engine, registry.ENGINES, plan)
    if decision.outcome is Outcome.PASS:
        return ""
    worst = next((check for check in decision.checks if check.outcome is not Outcome.PASS), None)
    word = f"{worst.id}: {worst.reason}" if worst is not None else decision.reason
    return f"the clean engine does not pass the cell: {decision.outcome} ({word})"


def run_cell(shop: Workshop, name: str, group: str, plan: Plan) -> tuple[Evidence, CellDecision]:
    """Run the selected cell of a plan on an engine, and judge its evidence.

    Raises:
        EngineError: The engine does not start.
        StatecertError: The harness could not go on, or was interrupted.
    """
    path, interrupted = run_one(shop.become(name, group), plan)
    if interrupted:
        raise KeyboardInterrupt
    evidence = read_evidence(read_bytes(path), path.name)
    decision = judge(evidence, path.name).decision
    cell = next((cell for cell in decision.cells if cell.id == plan.selected[0]), None)
    if cell is None or decision.reasons:
        planned = next(cell for cell in plan.cells if cell.id == plan.selected[0])
        return evidence, unjudged(planned, Outcome.ERROR, ", ".join(decision.reasons) or "not_judged")
    return evidence, cell


def judged(expected: Expected, decision: CellDecision, evidence: Evidence) -> Tried:
    """Tell whether a decision stops a mutant."""
    result = next((check for check in decision.checks if check.id == expected.check), None)
    return Tried(
        expected=expected,
        cell=decision.id,
        found=found_of(result) if result is not None else decision.reason,
        why_not=_why_not(expected, result, decision, evidence),
    )


def found_of(result: CheckResult) -> str:
    """Return what a check found, in short."""
    if result.outcome is Outcome.PASS:
        return str(Outcome.PASS)
    part, phase = result.detail.get("part", ""), result.detail.get("phase", "")
    if part:
        return f"{part} {phase}".strip()
    return result.reason


def crash_in(evidence: Evidence) -> str:
    """Return how an engine of the run broke down; empty: none did."""
    crash = next((one for one in evidence.observations if isinstance(one, Crash)), None)
    return f"{crash.kind} in {crash.arm}.{crash.label}" if crash is not None else ""


def _why_not(expected: Expected, result: CheckResult | None, decision: CellDecision, evidence: Evidence) -> str:
    crash = crash_in(evidence)
    if crash:
        return f"a crash does not count: {crash}"
    if result is None:
        return f"the cell was not judged: {decision.outcome} ({decision.reason})"
    if result.outcome is not Outcome.FAIL:
        return f"the check says {result.outcome}" + (f" ({result.reason})" if result.reason else "")
    if expected.reason and result.reason != expected.reason:
        return f"failed for another reason: {result.reason}; expected {expected.reason}"
    if result.reason == _REFUSED != expected.reason:
        return "a refusal does not count"
    part, family = result.detail.get("part", ""), result.detail.get("family", "")
    if expected.part and expected.part not in (part, family):
        return f"found at {part or result.reason}; expected {expected.part}"
    phase = result.detail.get("phase", "")
    if expected.phase and phase != expected.phase:
        return f"found in phase {phase or 'none'}; expected {expected.phase}"
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cross:
    """One mutant against one scenario."""

    mutant: str
    scenario: str
    word: str
    """``stopped``, ``survived``, ``refused``, ``crash`` or ``error``."""
    by: str
    """Cell and check that stopped it, or what else happened."""


def claims(wanted: Sequence[Expected], scenarios: Mapping[str, Scenario]) -> list[tuple[Expected, Scenario]]:
    """Return mutants with the scenarios that list them among the faults that they must stop."""
    return [(one, scenario) for one in wanted for scenario in scenarios.values() if one.id in scenario.faults]


def cross(shop: Workshop, expected: Expected, scenario: Scenario) -> Cross:
    """Run a mutant against the cells of a scenario, until one of them stops it.

    A refusal counts only where the fault itself is that the engine refuses.

    Raises:
        StatecertError: The harness could not go on.
    """
    suite = scaled_suite(scenario)
    whole = make_plans([(scenario, [])], suite)[0]
    best = Cross(mutant=expected.id, scenario=scenario.id, word="survived", by="")
    for cell in whole.cells:
        if cell.excluded:
            continue
        plan = make_plans([(scenario, [cell.id])], suite)[0]
        evidence, decision = run_cell(shop, expected.id, registry.MUTANTS, plan)
        word, by = _crossed(decision, evidence, refuses=expected.reason == _REFUSED)
        if word == "stopped":
            return replace(best, word=word, by=by)
        if best.word == "survived":
            best = replace(best, word=word, by=by)
    return best


def _crossed(decision: CellDecision, evidence: Evidence, *, refuses: bool) -> tuple[str, str]:
    asked = [one for one in decision.checks if not one.code.startswith(_CONTROLS) and one.code not in _HARNESS]
    failed = [one for one in asked if one.outcome is Outcome.FAIL]
    strong = next((one for one in failed if refuses or one.reason != _REFUSED), None)
    if crash := crash_in(evidence):
        return "crash", f"{decision.id} {crash}"
    if strong is not None:
        return "stopped", f"{decision.id} {strong.id}: {found_of(strong)}"
    if failed:
        return "refused", f"{decision.id} {failed[0].id}"
    if decision.outcome is Outcome.PASS:
        return "survived", ""
    worst = next((one for one in decision.checks if one.outcome is not Outcome.PASS), None)
    return "error", f"{decision.id} {worst.id}: {worst.reason}" if worst else f"{decision.id} {decision.reason}"
