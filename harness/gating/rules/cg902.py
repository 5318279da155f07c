"""CG902: a record's times can be true together."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from harness.gating.rule import Problem, Problems, Rule, Subject

_SECOND: Final = 1_000_000_000
_TOLERANCE: Final = 3600 * _SECOND
"""Nanoseconds. A clock of the day may be set while a run lasts; by more than this it must be wrong."""
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def check(subject: Subject) -> Problems:
    """The run ended after it began, and lasted about as long as its own counter says."""
    run = subject.body["run"]
    moments = []
    for name in ("created", "finished"):
        moment = _moment(run[name])
        if moment is None:
            yield Problem(f"/body/run/{name}", f"{run[name]} is on no day of any calendar")
        else:
            moments.append(moment)
    if len(moments) < 2:
        return
    lasted, counted = moments[1] - moments[0], run["elapsed_ns"]
    if lasted < 0:
        yield Problem("/body/run/finished", f"the run ended at {run['finished']}, before it began at {run['created']}")
    elif abs(lasted - counted) > _TOLERANCE:
        seconds = f"the run lasted {lasted // _SECOND} s by its times, and {counted // _SECOND} s by its counter"
        yield Problem("/body/run/elapsed_ns", seconds)


def _moment(text: str) -> int | None:
    """Nanoseconds from the beginning of year 1 to a time that fits its schema, like ``2026-12-31T23:59:59.5Z``.

    None where there is no such day: a pattern knows no calendar. What the library has for this takes longer to import
    than a quick gate takes for all its rules.
    """
    days = _days(text[:10])
    if days is None:
        return None
    seconds = 3600 * int(text[11:13]) + 60 * int(text[14:16]) + int(text[17:19])
    return (86_400 * days + seconds) * _SECOND + int(text[20:-1].ljust(9, "0"))


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


RULE = Rule(
    id="CG902",
    text="A run ended after it began, and its length fits both: by the clock of the day and by its own counter.",
    pain="A record with invented times is newer than it is, and supersedes what it should not.",
    hint="set the clock of the machine and run again with `statecert run`",
    failing=("ended_before_it_began", "lasted_too_long", "no_such_day"),
    certificate=check,
)
