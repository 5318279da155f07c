"""Walks one arm, once: opens its engine, runs its steps, and turns what breaks into observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.engines.host import EngineHost
from harness.errors import EngineError, RefusedError
from harness.model.evidence import Crash
from harness.model.scenario import Arm, Step, StepKind
from harness.model.values import Capability, RefusalCode
from harness.running.arms import ArmRun, CellState, write_refusal
from harness.running.crashes import crash_detail, crash_kind, lost_child
from harness.running.disks import Disks
from harness.running.recording import Recorder
from harness.running.steps import RUNNERS

OPTIONS: Final = "engine_options"
"""Reason of a cell whose engine options the target does not know."""
LONGEST_WORDS: Final = 300
"""Letters of an engine's own words that a record keeps."""
_WHOLE: Final[Mapping[StepKind, str]] = {
    StepKind.RECORD: Capability.ROLLBACK,
    StepKind.ROLLBACK: Capability.ROLLBACK,
    StepKind.ENCODE: Capability.ARCHIVE,
    StepKind.BRING: Capability.ARCHIVE,
    StepKind.RESTART: OPTIONS,
    StepKind.ALTER: "forge_image",
}
"""Steps whose refusal with ``unsupported`` says that this model has no such thing, and how that is called; unless they
may be refused."""


def run_arm(state: CellState, arm: Arm, rep: int) -> str:
    """Run an arm to its end, or to the step that ends it.

    Args:
        state: Of the cell.
        arm: What to run.
        rep: Which of its runs this is.

    Returns:
        Why the target does not support the cell, as a reason code; empty: it does. A target that refuses, with
        ``unsupported``, the engine options of the cell or those of this arm alone does not; options that it refuses
        after it was opened with the same ones are an observation of the arm's first step instead.
    """
    disks = Disks(state.folder / "disk" / f"{arm.id}-{rep}")
    try:
        return _run_arm(state, arm, rep, disks)
    finally:
        disks.remove()


def _run_arm(state: CellState, arm: Arm, rep: int, disks: Disks) -> str:
    options = {**state.plan.engine, **arm.engine}
    state.last = arm, rep
    try:
        engine = state.host.open_engine(disks.placed(options))
    except RefusedError as error:
        if error.code == RefusalCode.UNSUPPORTED and options not in state.opened:
            state.words = said(error)
            return OPTIONS
        state.begin()
        write_refusal(state, arm, rep, arm.steps[0], error)
        return ""
    except EngineError as error:
        state.begin()
        _crashed(state, arm, rep, arm.steps[0].label, error)
        write_lost(state)
        return ""
    state.begin()
    state.opened.append(options)
    run = ArmRun(cell=state, arm=arm, rep=rep, opened=engine, options=options, disks=disks)
    lacking = _walk(run)
    _close(run)
    return lacking


def write_trust(host: EngineHost, recorder: Recorder) -> None:
    """Write what was done so that the digests of ended children can be believed."""
    for trust in host.take_trust():
        recorder.write(trust)


def _walk(run: ArmRun) -> str:
    """Run the steps; return the reason why the target does not support the cell, where the engine says so."""
    for step in run.arm.steps:
        try:
            RUNNERS[step.kind](run, step)
        except RefusedError as error:
            write_refusal(run.cell, run.arm, run.rep, step, error)
            if _lacks(step) and error.code == RefusalCode.UNSUPPORTED:
                run.cell.words = said(error)
                return _WHOLE[step.kind]
            if not step.may_refuse:
                return ""
        except EngineError as error:
            _crashed(run.cell, run.arm, run.rep, step.label, error)
            return ""
    return ""


def said(error: RefusedError) -> str:
    """Return an engine's own words as one line of printable ASCII, cut to what a record takes."""
    letters = (letter if " " <= letter <= "~" else " " for letter in error.message)
    return " ".join("".join(letters).split())[:LONGEST_WORDS].strip()


def _lacks(step: Step) -> bool:
    """Tell whether ``unsupported`` means that the target has no such thing: of an archive where it must come in."""
    return step.kind in _WHOLE and not (step.may_refuse and _WHOLE[step.kind] is Capability.ARCHIVE)


def _close(run: ArmRun) -> None:
    """Close the engine of an arm, if its child still lives; an error then is one of the arm's last step."""
    if run.opened is not None and run.cell.host.alive:
        try:
            run.opened.close()
        except EngineError as error:
            _crashed(run.cell, run.arm, run.rep, run.arm.steps[-1].label, error)
    write_lost(run.cell)


def write_lost(state: CellState) -> bool:
    """Write down that a child ended unasked, or badly when asked: it is the last arm's, at its last step.

    Returns:
        Whether there was one.
    """
    if state.last is None:
        return False
    lost = state.host.take_lost()
    if lost is None:
        return False
    arm, rep = state.last
    _write_crash(state, arm, rep, arm.steps[-1].label, lost)
    return True


def _crashed(state: CellState, arm: Arm, rep: int, label: str, error: EngineError) -> None:
    """Write down how a step ended that did not end by itself; let go of a child that cannot be trusted any more."""
    if lost_child(error):
        state.host.discard()
        write_trust(state.host, state.recorder)
    _write_crash(state, arm, rep, label, error)


def _write_crash(state: CellState, arm: Arm, rep: int, label: str, error: EngineError) -> None:
    state.recorder.write(
        Crash(
            cell=state.plan.id,
            arm=arm.id,
            rep=rep,
            label=label,
            kind=crash_kind(error),
            detail=crash_detail(error),
            t_ns=state.recorder.now(),
        )
    )
