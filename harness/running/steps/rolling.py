"""The steps that take tokens back in place: ``record`` and ``rollback``."""

from __future__ import annotations

from harness.model.scenario import Step
from harness.model.values import Capability, Phase
from harness.running.arms import ArmRun


def record(arm: ArmRun, step: Step) -> None:
    """Let the engine keep, from here on, what a rollback of the session needs.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.ROLLBACK)
    taken = arm.session(step).remote.record()
    arm.done(step, {"record_ns": taken.ns})


def rollback(arm: ArmRun, step: Step) -> None:
    """Take the last tokens of a session back, and look before anything else runs, unless the step is to be unseen.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.ROLLBACK)
    session = arm.session(step)
    taken = session.remote.rollback(step.count, unseen=step.unseen)
    session.prompt, session.schedule, session.position = (), (), taken.value
    if not step.unseen:
        arm.look(step.session, step.label, Phase.RESTORED)
    arm.done(step, {"count": step.count, "position": taken.value, "rollback_ns": taken.ns})
