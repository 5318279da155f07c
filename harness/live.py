"""Runs that are fed cell by cell, as pytest does it: one bench, one open evidence file per scenario.

A scenario's evidence is closed, judged and filed when its last selected cell has run, or at the end of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.deriving.judge import judge_cell
from harness.errors import StatecertError, UsageError
from harness.model.decision import CellDecision
from harness.model.evidence import CellEvent, Difference, Header, Observation, PartTable, Trust
from harness.model.scenario import CellPlan, Plan
from harness.model.target import Target
from harness.model.values import CellId, Outcome
from harness.pipeline import Bench, bench, evidence_path, file_evidence, new_run_folder
from harness.reporting.units import counted
from harness.running.run import INTERRUPTED, OpenRun
from harness.wire.evidence_doc import EvidenceWriter

_MOST_NAMED: Final = 12
"""Scenarios that a line names; of more it has the count."""
ACCELERATOR: Final = "accelerator"
"""Device name that stands for the first one that is not the CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellVerdict:
    """What one cell came to, with the differences that were located."""

    outcome: str
    reason: str
    decision: CellDecision
    differences: tuple[Difference, ...]

    def text(self) -> str:
        """Failed checks, worst first, each with the place of its first difference."""
        lines = [f"{self.decision.id}: {self.outcome}" + (f" ({self.reason})" if self.reason else "")]
        for check in self.decision.checks:
            if check.outcome is Outcome.PASS:
                continue
            lines.append(f"  {check.id} [{check.code}] {check.outcome}: {check.reason}")
            if check.limit != "" or check.observed != "":
                lines.append(f"    found {check.observed} {check.unit}, limit {check.limit} {check.unit}".rstrip())
            lines.extend(
                f"    {one.phase}: {one.part} row {one.row} element {one.element}: {one.candidate_value} "
                f"instead of {one.reference_value}; {one.differing_elements} elements differ ({one.shape})"
                for one in self.differences
                if one.check == check.id
            )
        return "\n".join(lines)


@dataclass(kw_only=True)
class _Open:
    """A scenario whose evidence is being written."""

    plan: Plan
    header: Header
    run: OpenRun
    path: Path
    seen: list[Observation]
    left: list[str]


class LiveRuns:
    """The runs of one session.

    Args:
        adapter: Engine.
        preset: Model preset.
        device: A device name, or ``accelerator``: the first device that is not the CPU.
        out: Where the run folder goes.
        jobs: How many sessions like this one work side by side; the record says so.
    """

    def __init__(self, *, adapter: str, preset: str, device: str, out: Path, jobs: int = 1) -> None:
        self._asked = (adapter, preset, device)
        self._out = out
        self._jobs = jobs
        self._stack = ExitStack()
        self._bench: Bench | None = None
        self._open: dict[str, _Open] = {}
        self._done: _Open | None = None
        """A scenario whose cells have all run; closed when the next one begins, since the last one ends the child."""
        self.lost = False
        """Whether a child was lost after its last cell was judged."""
        self._written: list[str] = []
        self._nothing_ran: list[str] = []
        """Scenarios of which no cell ran: their evidence says why, and one line tells them all; no draft is made."""
        self._verdicts: dict[tuple[str, str], CellVerdict] = {}
        self._procedures: dict[str, str] = {}
        """Digest of the procedure of each scenario that ran."""

    def run_cell(self, plan: Plan, cell: CellPlan) -> CellVerdict:
        """Run one cell and judge it from what was seen; of one that ran already, the first verdict stands.

        Raises:
            UsageError: Another scenario of this id ran in this session.
            StatecertError: The harness could not go on.
        """
        known = self._procedures.setdefault(plan.scenario.id, str(plan.scenario.procedure_digest))
        if known != plan.scenario.procedure_digest:
            raise UsageError(f"two scenarios are called {plan.scenario.id}; give one of them another id")
        asked = str(plan.scenario.id), str(cell.id)
        if asked not in self._verdicts:
            self._verdicts[asked] = self._run(plan, cell)
        return self._verdicts[asked]

    def _run(self, plan: Plan, cell: CellPlan) -> CellVerdict:
        live = self._opened(plan)
        begin = len(live.seen)
        live.run.run(cell)
        live.left.remove(cell.id)
        verdict = self._verdict(live, cell, live.seen[begin:])
        if not live.left:
            self._done = self._open.pop(plan.scenario.id)
        return verdict

    def close(self) -> list[str]:
        """Close what is open, end the child; return lines that say what was written."""
        self._close_done(last=not self._open)
        while self._open:
            live = self._open.pop(next(iter(self._open)))
            by_id = {cell.id: cell for cell in live.plan.cells}
            for name in live.left:
                live.run.leave_out(by_id[CellId(name)], INTERRUPTED)
            self._close(live, last=not self._open)
        self._stack.close()
        if self._bench is not None:
            self._written.insert(0, f"run folder {self._bench.folder}")
            if self._nothing_ran:
                files = counted(len(self._nothing_ran), "file")
                more = len(self._nothing_ran) - _MOST_NAMED
                names = ", ".join(self._nothing_ran[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
                self._written.append(f"nothing ran, so only evidence was written ({files}): {names}")
        return self._written

    def _opened(self, plan: Plan) -> _Open:
        self._close_done(last=False)
        if plan.scenario.id not in self._open:
            bench = self._started()
            path = evidence_path(bench, plan)
            header = bench.header(plan)
            seen: list[Observation] = []
            run = OpenRun(
                bench.host,
                EvidenceWriter(path, header, names=bench.names),
                folder=bench.scratch,
                progress=seen.append,
            )
            self._open[plan.scenario.id] = _Open(
                plan=plan, header=header, run=run, path=path, seen=seen, left=[str(name) for name in plan.selected]
            )
        return self._open[plan.scenario.id]

    def _started(self) -> Bench:
        if self._bench is None:
            adapter, preset, device = self._asked
            folder = new_run_folder(self._out)
            target = Target(
                name=f"{adapter}-{device}", adapter=adapter, device=self._device(folder), options={"preset": preset}
            )
            self._bench = self._stack.enter_context(bench(target, folder, jobs=self._jobs))
        return self._bench

    def _device(self, folder: Path) -> str:
        adapter, _, device = self._asked
        if device != ACCELERATOR:
            return device
        from harness.engines.host import EngineHost

        with EngineHost(Target(name=adapter, adapter=adapter), folder) as host:
            host.ensure()
            others = [(name, reason) for name, reason in host.devices if name != "cpu"]
        there = [name for name, reason in others if not reason]
        if there or others:
            return there[0] if there else others[0][0]
        raise UsageError(f"{adapter} knows no device but the CPU; give one with --statecert-device")

    def _verdict(self, live: _Open, cell: CellPlan, seen: list[Observation]) -> CellVerdict:
        tables = {table.root: table for table in live.seen if isinstance(table, PartTable)}
        mine = [one for one in seen if not isinstance(one, (PartTable, Trust))]
        _, decision, _ = judge_cell(live.header, cell, mine, tables, interrupted=False)
        return CellVerdict(
            outcome=decision.outcome,
            reason=self._told(decision, mine),
            decision=decision,
            differences=tuple(one for one in mine if isinstance(one, Difference)),
        )

    def _told(self, decision: CellDecision, seen: Sequence[Observation]) -> str:
        """The reason, with the adapter's own words where a device is absent or something is not supported."""
        words = next((one.words for one in seen if isinstance(one, CellEvent) and one.words), "")
        if words:
            return f"{decision.reason}: {words}"
        absent = self._bench.host.absent if self._bench is not None else ""
        return f"{decision.reason}: {absent}" if decision.outcome is Outcome.NOT_RUN and absent else decision.reason

    def _close_done(self, *, last: bool) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._close(done, last=last)

    def _close(self, live: _Open, *, last: bool) -> None:
        assert self._bench is not None  # noqa: S101 - an open run has a bench
        if live.run.close(interrupted=bool(live.left), last=last):
            self.lost = True
            self._written.append(f"{live.plan.scenario.id}: the child was lost after the last cell; see its evidence")
        if not any(isinstance(one, CellEvent) and one.event == "begin" for one in live.seen):
            self._nothing_ran.append(live.plan.scenario.id)
            return
        try:
            finished = file_evidence(self._bench, live.plan, live.path, self._bench.folder / "certificates")
        except StatecertError as problem:
            self._written.append(f"{live.plan.scenario.id}: {problem}")
            return
        if finished.problem is not None:
            self._written.append(f"{live.plan.scenario.id}: {finished.problem}")
        what = f"draft ({finished.draft})" if finished.draft else "certificate"
        named = next((path for path in finished.paths if path.suffix == ".json" and "ledger" not in path.parts), None)
        self._written.append(f"{live.plan.scenario.id}: {what} {named or live.path}")
