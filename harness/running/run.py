"""Runs a plan: cells in order, references first, an engine for every arm, and everything seen written at once.

What breaks is an observation: a crash, a hang, missing memory or an engine's own error ends its arm; the child is
replaced and the run goes on. Only the harness's own errors end a run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.deriving.support import capabilities_missing, for_target
from harness.engines.host import EngineHost
from harness.engines.process import nothing
from harness.engines.spool import remove
from harness.model.evidence import CellEvent
from harness.model.scenario import CellPlan, Plan
from harness.model.values import ArmRole
from harness.running.again import run_again
from harness.running.arms import CellState
from harness.running.clock import Clock, RealClock
from harness.running.comparing import Comparisons
from harness.running.locating import Locator
from harness.running.recording import Progress, Recorder, Writer
from harness.running.walking import run_arm, write_lost, write_trust

ABSENT: Final = "device_absent"
FEWER_DEVICES: Final = "fewer_devices"
"""Reason of a cell whose device is not there."""
INTERRUPTED: Final = "interrupted"
"""Reason of a cell that did not begin before the run was broken off."""


class OpenRun:
    """One evidence file that is being written: cells are run one by one, then it is closed.

    Args:
        host: A started host of the target. It is left running, so that several plans can share a child.
        writer: The evidence file, with its header written.
        folder: Run folder; the spool of reference bytes lies in it while a cell runs.
        clock: Where times come from.
        progress: Is told every observation.
    """

    def __init__(
        self,
        host: EngineHost,
        writer: Writer,
        *,
        folder: Path,
        clock: Clock | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._host = host
        self._recorder = Recorder(writer, clock or RealClock(), progress)
        self._folder = folder
        self._last: CellState | None = None

    def run(self, cell: CellPlan) -> None:
        """Run one cell; what breaks is written down.

        Observations are written while the child works on what it is asked next; where the cell is judged by times, so
        that nothing may go on beside the child, when the cell ends.

        Raises:
            StatecertError: The harness could not go on.
        """
        host = self._host
        host.meanwhile = nothing if cell.timed else self._recorder.flush
        try:
            self._run(cell, host)
        finally:
            host.meanwhile = nothing
        self._recorder.flush()

    def _run(self, cell: CellPlan, host: EngineHost) -> None:
        missing = capabilities_missing(cell, host.capabilities, host.observability, host.told)
        if self._host.absent:
            self.leave_out(cell, ABSENT)
        elif cell.devices > self._host.alike:
            self.leave_out(cell, FEWER_DEVICES)
        elif missing:
            _event(self._recorder, cell, "not_supported", missing[0])
        else:
            self._last = _cell_state(cell, self._host, self._recorder, self._folder)
            _run_cell(cell, self._last)

    def leave_out(self, cell: CellPlan, reason: str) -> None:
        """Write down that a cell is not run, and why."""
        _event(self._recorder, cell, "not_run", reason)

    def close(self, *, interrupted: bool = False, last: bool = False) -> bool:
        """Write what was done for trust, and the end record.

        A child that is gone by now is the last cell's crash; so is one that does not end in good order, where it is
        asked to.

        Args:
            interrupted: The run was broken off.
            last: Nothing more is asked of the child: it ends before the record does.

        Returns:
            Whether a child was lost since the last cell.
        """
        if last:
            self._host.discard()
            interrupted = interrupted or self._host.interrupted  # nobody has seen whether it leaves in good order
        lost = self._last is not None and write_lost(self._last)
        self._host.settle()
        write_trust(self._host, self._recorder)
        self._recorder.close(interrupted=interrupted)
        return lost

    def abandon(self) -> None:
        """Let go of the file without an end record: it counts as cut off."""
        self._recorder.abandon()


def never() -> bool:
    """Say that more is to come."""
    return False


def run_plan(plan: Plan, run: OpenRun, *, last: Callable[[], bool] = never) -> bool:
    """Run the selected cells of a plan and close the evidence file.

    Ctrl-C ends the run in good order: cells that did not begin are ``not_run``, and the end record says that the run
    was interrupted. After any other error that is not an engine's the file is left without an end record.

    Args:
        plan: What to run.
        run: The open evidence file.
        last: Asked when all cells are done: see :meth:`OpenRun.close`.

    Returns:
        Whether it was interrupted.

    Raises:
        StatecertError: The harness could not go on.
    """
    waiting = iter([cell for cell in plan.cells if cell.id in set(plan.selected) and not cell.excluded])
    interrupted = False
    try:
        try:
            for cell in waiting:
                run.run(cell)
        except KeyboardInterrupt:
            interrupted = True
            for cell in waiting:
                run.leave_out(cell, INTERRUPTED)
        run.close(interrupted=interrupted, last=interrupted or last())
    except BaseException:
        run.abandon()
        raise
    return interrupted


def _cell_state(cell: CellPlan, host: EngineHost, recorder: Recorder, folder: Path) -> CellState:
    plan = for_target(cell, host.capabilities, host.told)
    comparisons = Comparisons(plan)
    locator = Locator(plan.id, comparisons, recorder)
    return CellState(plan=plan, host=host, folder=folder, recorder=recorder, comparisons=comparisons, locator=locator)


def _run_cell(cell: CellPlan, state: CellState) -> None:
    spool = state.folder / "spool"
    try:
        state.host.open_spool(spool)
        ended = _run_arms(state)
    finally:
        try:
            state.host.close_spool()
        finally:
            remove(spool)
    write_lost(state)
    _event(state.recorder, cell, *ended, words=state.words if ended[1] else "")


def _run_arms(state: CellState) -> tuple[str, str]:
    """Run all arms of a cell, references first and twice; return the event that the cell ends with, and why."""
    for arm in sorted(state.plan.arms, key=lambda arm: arm.role is not ArmRole.REFERENCE):
        for rep in range(2 if arm.role is ArmRole.REFERENCE else 1):
            lacking = run_arm(state, arm, rep)
            if lacking:
                return "not_supported", lacking
        for missing in state.locator.take_missing():
            run_again(state, missing)
    return "end", ""


def _event(recorder: Recorder, cell: CellPlan, event: str, reason: str = "", *, words: str = "") -> None:
    recorder.write(CellEvent(cell=cell.id, event=event, reason=reason, words=words, t_ns=recorder.now()))
