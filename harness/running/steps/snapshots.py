"""The steps on whole sessions: ``snapshot``, ``restore``, ``reset`` and ``close``."""

from __future__ import annotations

from harness.model.scenario import Step
from harness.model.values import Capability, Phase
from harness.running.arms import ArmRun


def snapshot(arm: ArmRun, step: Step) -> None:
    """Take an explicit snapshot under a name.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.SNAPSHOT)
    name = step.handle or step.label
    taken = arm.session(step).remote.snapshot()
    arm.handles[name] = taken.value
    arm.done(step, {"handle": name, "snapshot_ns": taken.ns})


def restore(arm: ArmRun, step: Step) -> None:
    """Restore a snapshot into a session, which may be another one; look before anything else runs, unless unseen.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.SNAPSHOT)
    session, name = arm.session(step), step.handle or ""
    restored = session.remote.restore(handle_of(arm, name), unseen=step.unseen)
    session.prompt, session.schedule, session.position = (), (), restored.value.cached
    if not step.unseen:
        arm.look(step.session, step.label, Phase.RESTORED)
    arm.done(
        step,
        {
            "handle": name,
            "cached": restored.value.cached,
            "restored_bytes": restored.value.restored_bytes,
            "restore_ns": restored.ns,
        },
    )


def reset(arm: ArmRun, step: Step) -> None:
    """Make a session new again.

    Raises:
        EngineError: The engine refused or failed.
    """
    session = arm.session(step)
    taken = session.remote.reset()
    session.prompt, session.schedule, session.position = (), (), 0
    arm.done(step, {"reset_ns": taken.ns})


def close(arm: ArmRun, step: Step) -> None:
    """Close a session; its name opens a new one when it is used again.

    Raises:
        EngineError: The engine failed.
    """
    session = arm.sessions.pop(step.session, None)
    if session is not None:
        session.remote.close()
    arm.done(step)


def handle_of(arm: ArmRun, name: str) -> str:
    """Return the engine's handle of a name in the scenario; one that was never taken is the name itself.

    So an engine is asked for what it does not have, and must say so by name.
    """
    return arm.handles.get(name, name)
