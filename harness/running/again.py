"""Runs a reference once more, unseen, to locate a difference whose reference bytes were not kept."""

from __future__ import annotations

from dataclasses import replace

from harness.engines.client import RemoteSession
from harness.model.evidence import Observation, StepRecord
from harness.model.scenario import StepKind
from harness.running.arms import CellState
from harness.running.comparing import Comparisons, Seen
from harness.running.locating import Locator, Missing
from harness.running.recording import Recorder
from harness.running.walking import run_arm

_LABEL_LENGTH = 64


class _Unseen(Recorder):
    """Writes nothing: what the second run shows was written by the first."""

    def write(self, observation: Observation) -> None:
        """Drop an observation."""


class _Waits(Locator):
    """Waits for the one look whose bytes are needed."""

    def __init__(self, state: CellState, missing: Missing) -> None:
        super().__init__(state.plan.id, state.comparisons, state.recorder)
        self._missing_one = missing
        self.found = False

    def looked(self, session: RemoteSession, live: Seen) -> None:
        """Locate the difference if this is the look."""
        wanted = self._missing_one.pair.reference
        if not self.found and (live.ref, live.phase, live.position) == (wanted.ref, wanted.phase, wanted.position):
            self.found = True
            self.found_again(session, self._missing_one, live)


def run_again(state: CellState, missing: Missing) -> None:
    """Run the reference of a difference again; write the difference, and a step record that says so."""
    pair = missing.pair
    waits = _Waits(state, missing)
    unseen = replace(
        state,
        recorder=_Unseen.like(state.recorder),
        comparisons=Comparisons(replace(state.plan, checks=())),
        locator=waits,
    )
    arm = next(arm for arm in state.plan.arms if arm.id == pair.reference.arm)
    run_arm(unseen, arm, 0)
    state.recorder.write(
        StepRecord(
            cell=state.plan.id,
            arm=arm.id,
            rep=0,
            label=f"again-{pair.check.replace(':', '-')}"[:_LABEL_LENGTH],
            kind=str(StepKind.RUN),
            ended="done",
            detail={"reason": "spool_budget", "check": pair.check, "located": waits.found},
            t_ns=state.recorder.now(),
        )
    )
