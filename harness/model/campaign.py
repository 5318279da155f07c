"""A campaign's file: what was seen in a long run, line by line, closed like evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.noun import dataclass
from harness.model.values import Sha256

Record = Mapping[str, object]
"""One line of a campaign's file, held to its schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CampaignRecords:
    """All records of one file: header first, end record last, everything else in the order in which it was seen."""

    records: Sequence[Record]
    sha256: Sha256
    """Of the whole file."""
    bytes: int

    @property
    def header(self) -> Record:
        """What was going to be done, on what."""
        return self.records[0]

    @property
    def end(self) -> Record:
        """Counts and digests what came before it."""
        return self.records[-1]

    @property
    def name(self) -> str:
        """Name of the campaign, like ``faults``."""
        return str(self.header["campaign"])
