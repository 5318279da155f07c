"""Where mutants run: children that serve one engine after another, and what is probed once for all of them.

A mutant is loaded into a child by its entry point, its engines are closed, the next one is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from harness.deriving.decide import unjudged
from harness.deriving.judge import judge
from harness.engines import registry
from harness.engines.forking import Template, can_fork
from harness.engines.host import EngineHost, HostOptions
from harness.errors import UsageError
from harness.model.decision import CellDecision
from harness.model.evidence import Evidence
from harness.model.scenario import Plan
from harness.model.target import Environment, Source, Target, TargetFacts
from harness.model.values import Outcome
from harness.mutation.expecting import Expected, expected_of
from harness.pipeline import Bench, private_names, read_bytes, run_one
from harness.wire.evidence_doc import read_evidence

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


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
        if self._child is not None and self.alive:
            self._load = self._loaded(self._child)
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


def expectations(shop: Workshop, names: Sequence[str]) -> list[Expected]:
    """Ask every mutant what it is.

    Raises:
        UsageError: One does not say which check must stop it.
        EngineError: One does not start.
    """
    return [expected_of(name, shop.become(name, registry.MUTANTS).facts.identity) for name in names]
