"""One word, glyph and colour for each closed choice, so that three renderings say the same.

Colour never stands alone: a reader without colours, and a reader without the glyphs, loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How one state is shown."""

    word: str
    glyph: str
    tone: str
    """``good``, ``bad``, ``warn``, ``broken`` or ``quiet``; each medium has a colour for it."""


MARKS: Final[Mapping[str, Mark]] = {
    "pass": Mark(word="pass", glyph="✓", tone="good"),
    "fail": Mark(word="fail", glyph="✗", tone="bad"),
    "stop": Mark(word="stop", glyph="✗", tone="bad"),
    "inconclusive": Mark(word="inconclusive", glyph="?", tone="warn"),
    "ran_passed": Mark(word="inconclusive (what ran passed, the rest is not supported)", glyph="◐", tone="warn"),
    "error": Mark(word="error", glyph="!", tone="broken"),
    "not_run": Mark(word="not run", glyph="-", tone="quiet"),
    "not_supported": Mark(word="not supported", glyph="○", tone="quiet"),
    "excluded": Mark(word="excluded", glyph="∅", tone="quiet"),
    "not_evaluated": Mark(word="not evaluated", glyph="·", tone="quiet"),
    "absent": Mark(word="absent", glyph="?", tone="warn"),
    "current": Mark(word="CURRENT", glyph="●", tone="good"),
    "superseded": Mark(word="SUPERSEDED", glyph="◌", tone="warn"),
    "withdrawn": Mark(word="WITHDRAWN", glyph="✗", tone="bad"),
    "done": Mark(word="done", glyph="·", tone="quiet"),
    "stopped": Mark(word="stopped", glyph="✓", tone="good"),
    "survived": Mark(word="survived", glyph="✗", tone="bad"),
}
"""Outcomes, decisions, certificate states, and what a mutant run comes to, by their values."""

RICH_STYLES: Final[Mapping[str, str]] = {
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "broken": "magenta",
    "quiet": "dim",
}
"""Tone to terminal style."""


def mark(value: str) -> Mark:
    """Return the mark of a state; an unknown one is shown as it is written, never as good."""
    return MARKS.get(value) or Mark(word=value, glyph="?", tone="warn")
