"""Runs a reference once more, unseen, to locate a difference whose reference bytes were not kept."""

from __future__ import annotations

from dataclasses import replace

from harness.engines.client import RemoteSession
from harness.model.evidence import Crash, Observation, Trust
from harness.running.arms import CellState
from harness.running.comparing import Comparisons, Seen
from harness.running.locating import Locator, Missing
from harness.running.recording import Recorder
from harness.running.walking import run_arm


class _Unseen(Recorder):
    """Writes only what breaks, and trust: what else the second run shows was written by the first."""

    def write(self, observation: Observation) -> None:
        """Drop an observation unless it is a crash or of trust."""
        if isinstance(observation, (Crash, Trust)):
            super().write(observation)


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
    """Run the reference of a difference again and write the difference, if the reference shows the same bytes again."""
    waits = _Waits(state, missing)
    unseen = replace(
        state,
        recorder=_Unseen.like(state.recorder),
        comparisons=Comparisons(replace(state.plan, checks=())),
        locator=waits,
    )
    run_arm(unseen, next(arm for arm in state.plan.arms if arm.id == missing.pair.reference.arm), 0)
