"""Times as records hold them: their length, and whether what a run says of its times can be true together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

SECOND: Final = 1_000_000_000
TOLERANCE: Final = 3600 * SECOND
"""Nanoseconds. A clock of the day may be set while a run lasts; by more than this it must be wrong."""
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def untrue(created: str, finished: str, elapsed_ns: int) -> Sequence[tuple[str, str]]:
    """Return what cannot be true of a run's times, each with the name of the field; nothing: they fit.

    Args:
        created: When it began, by the clock of the day.
        finished: When it ended.
        elapsed_ns: How long it lasted, by a counter that nobody sets.
    """
    moments = {"created": (created, moment(created)), "finished": (finished, moment(finished))}
    found = [(name, f"{text} is on no day of any calendar") for name, (text, at) in moments.items() if at is None]
    began, ended = moments["created"][1], moments["finished"][1]
    if began is None or ended is None:
        return found
    lasted = ended - began
    if lasted < 0:
        return [("finished", f"the run ended at {finished}, before it began at {created}")]
    if abs(lasted - elapsed_ns) > TOLERANCE:
        counted = f"{elapsed_ns // SECOND} s by its counter"
        return [("elapsed_ns", f"the run lasted {lasted // SECOND} s by its times, and {counted}")]
    return []


def moment(text: str) -> int | None:
    """Nanoseconds from the beginning of year 1 to a time that fits its schema, like ``2026-12-31T23:59:59.5Z``.

    None where there is no such day: a pattern knows no calendar. What the library has for this takes longer to import
    than a quick gate takes for all its rules.
    """
    days = _days(text[:10])
    if days is None:
        return None
    seconds = 3600 * int(text[11:13]) + 60 * int(text[14:16]) + int(text[17:19])
    return (86_400 * days + seconds) * SECOND + int(text[20:-1].ljust(9, "0"))


@lru_cache(maxsize=1024)
def _days(date: str) -> int | None:
    """Days from the beginning of year 1 to a date like ``2026-12-31``; None: there is no such day."""
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:10])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        return None
    past = year - 1
    whole = 365 * past + past // 4 - past // 100 + past // 400
    return whole + sum(_DAYS[: month - 1]) + (leap and month > 2) + day - 1
