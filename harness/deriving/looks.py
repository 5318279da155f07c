"""Which looks a step leaves behind, and which step a state in a session came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from harness.model.scenario import Arm, CellPlan, PointRef, Scalar, Step, StepKind
from harness.model.values import Phase

TURNS: Final = frozenset({StepKind.RUN, StepKind.RESUME, StepKind.EXTEND})
"""Steps with a turn record."""
LOOKED_AT: Final = TURNS | {
    StepKind.DECODE,
    StepKind.OBSERVE,
    StepKind.RESTORE,
    StepKind.IMPORT,
    StepKind.ROLLBACK,
    StepKind.ENCODE,
    StepKind.BRING,
}
"""Steps with points."""
ORDER: Final = (Phase.RESTORED, Phase.PREFILLED, Phase.END, Phase.SEEN)
"""In which order the looks of one step are taken."""
_SOURCES: Final = frozenset({StepKind.RUN, StepKind.RESTORE, StepKind.IMPORT})


def step_of(arms: Sequence[Arm], ref: PointRef) -> Step | None:
    """Return the step that a reference names; None if there is none."""
    steps = (step for arm in arms if arm.id == ref.arm for step in arm.steps if step.label == ref.label)
    return next(steps, None)


def expected_phases(step: Step) -> tuple[Phase, ...]:
    """Return the looks that a step must leave behind, in order.

    ``restored`` is among them only for a ``restore``, ``import`` or ``rollback`` step; a ``run`` has it when its turn
    reused tokens, which is seen in its turn record.
    """
    ended = (Phase.END,) if step.decode else ()
    match step.kind:
        case StepKind.RUN:
            return () if step.until is not None else (Phase.PREFILLED, *ended)
        case StepKind.RESUME | StepKind.EXTEND:
            return (Phase.PREFILLED, *ended)
        case StepKind.DECODE:
            return (Phase.END,)
        case StepKind.OBSERVE | StepKind.ENCODE:
            return (Phase.SEEN,)
        case StepKind.BRING:
            return () if step.unseen else (Phase.SEEN,)
        case StepKind.RESTORE | StepKind.IMPORT | StepKind.ROLLBACK:
            return () if step.unseen else (Phase.RESTORED,)
        case _:
            return ()


def source(arm: Arm, label: str, refused: Collection[str] = ()) -> Step | None:
    """Return the step that began the state which a step works on: the last run, restore or import in its session.

    These are their own source.

    Args:
        arm: The arm.
        label: The step.
        refused: Labels of steps that the engine refused: they began nothing.
    """
    session = next((step.session for step in arm.steps if step.label == label), "")
    found: Step | None = None
    for step in arm.steps:
        if step.session == session and step.kind in _SOURCES and step.label not in refused:
            found = step
        if step.label == label:
            return found
    return None


def sessions_of(arm: Arm) -> Mapping[str, tuple[int, str]]:
    """Return the session of each step of an arm, by label: how many restarts came before it, and its name.

    A restart ends all sessions, so that a name stands for another session behind it, perhaps of another architecture.
    """
    found: dict[str, tuple[int, str]] = {}
    restarts = 0
    for step in arm.steps:
        restarts += step.kind is StepKind.RESTART
        found[step.label] = (restarts, step.session)
    return found


def options_of(cell: CellPlan, arm: Arm) -> Mapping[str, Mapping[str, Scalar]]:
    """Return with which engine and session options the session of each step is open, by label.

    A session keeps what it was opened with; a restart changes what the engine is opened with, and ends all sessions.
    """
    engine: dict[str, Scalar] = {**cell.engine, **arm.engine}
    opened: dict[str, Mapping[str, Scalar]] = {}
    found: dict[str, Mapping[str, Scalar]] = {}
    for step in arm.steps:
        if step.kind is StepKind.RESTART:
            engine |= step.options
            opened.clear()
            found[step.label] = dict(engine)
        elif step.kind is StepKind.CLOSE:
            found[step.label] = opened.pop(step.session, engine)
        else:
            found[step.label] = opened.setdefault(step.session, {**engine, **step.options})
    return found
