"""Locates differences at the moment of a look; remembers those whose reference bytes are no longer there.

Above the budget of the spool the reference's bytes were not kept. Then the candidate's part is kept instead, and the
reference arm is run once more when the candidate's arm is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.engines.client import RemoteSession
from harness.model.values import CellId
from harness.running.comparing import Comparisons, Pair, Seen, difference, distance, observed_live
from harness.running.recording import Recorder


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A difference that waits for its reference to be run again."""

    pair: Pair


class Locator:
    """Locates the differences of one cell.

    Args:
        cell: Whose differences these are.
        comparisons: What is compared with what.
        recorder: Takes the observations.
    """

    def __init__(self, cell: CellId, comparisons: Comparisons, recorder: Recorder) -> None:
        self._cell = cell
        self._comparisons = comparisons
        self._recorder = recorder
        self._missing: list[Missing] = []

    def looked(self, session: RemoteSession, live: Seen) -> None:
        """Take a look that was just made; nothing has run in the session since.

        Raises:
            EngineError: The child could not compare.
        """
        for pair in self._comparisons.add(live):
            other = pair.reference if live is pair.candidate else pair.candidate
            if session.kept(other.digest(pair.part)):
                observed = observed_live(session, self._cell, pair, live)
                if observed is not None:
                    self._recorder.write(observed)
            elif live is pair.candidate:
                session.dump(pair.part, live.digest(pair.part))
                self._missing.append(Missing(pair=pair))

    def take_missing(self) -> Sequence[Missing]:
        """Return what waits for its reference, once."""
        taken, self._missing = self._missing, []
        return taken

    def found_again(self, session: RemoteSession, missing: Missing, live: Seen) -> None:
        """Locate a difference from the candidate's kept bytes and the reference, which is live again.

        Raises:
            EngineError: The child could not compare.
        """
        pair, part = missing.pair, missing.pair.part
        if live.digest(part) != pair.reference.digest(part):
            return
        if pair.measured:
            measured = session.measure(part, pair.candidate.digest(part), live_is_reference=True)
            if measured is not None:
                self._recorder.write(distance(self._cell, pair, measured))
            return
        located = session.locate(part, pair.candidate.digest(part), live_is_reference=True)
        self._recorder.write(difference(self._cell, pair, located, rerun=True))
