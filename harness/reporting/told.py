"""What the report of a campaign says that no other one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.reporting.view import Problem, Section


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """All that is particular to a campaign, as text."""

    title: str
    sentence: str
    claims: Sequence[str] = ()
    no_claims: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    problems_note: str = ""
    sections: Sequence[Section] = ()
    command: str = ""
    count: str = ""
    """For the overview, like ``720/720 flips located``."""
    headline: str = ""
