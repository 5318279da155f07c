"""The step ``observe``: look, change nothing."""

from __future__ import annotations

from harness.model.scenario import Step
from harness.model.values import Phase
from harness.running.arms import ArmRun


def observe(arm: ArmRun, step: Step) -> None:
    """Hash every part of a session.

    Raises:
        EngineError: The look failed.
    """
    arm.session(step)
    arm.look(step.session, step.label, Phase.SEEN)
    arm.done(step)
