"""CG902: a record's times can be true together."""

from __future__ import annotations

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
    """Nanoseconds from the beginning of year 1 to a time like ``2026-12-31T23:59:59.5Z``; None: there is no such time.

    What the library has for this takes longer to import than the rest of this file to run a hundred times.
    """
    whole, _, fraction = text.removesuffix("Z").partition(".")
    fields = (whole[:4], whole[5:7], whole[8:10], whole[11:13], whole[14:16], whole[17:19])
    if len(whole) != 19 or whole[4::3] != "--T::" or not all(map(str.isdecimal, (*fields, fraction or "0"))):
        return None
    year, month, day, hour, minute, second = map(int, fields)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    past = year - 1
    days = 365 * past + past // 4 - past // 100 + past // 400
    days += sum(_DAYS[: month - 1]) + (leap and month > 2) + day - 1
    return (days * 86_400 + hour * 3600 + minute * 60 + second) * _SECOND + int(fraction[:9].ljust(9, "0"))


RULE = Rule(
    id="CG902",
    text="A run ended after it began, and its length fits both: by the clock of the day and by its own counter.",
    pain="A record with invented times is newer than it is, and supersedes what it should not.",
    hint="set the clock of the machine and run again with `statecert run`",
    failing=("ended_before_it_began", "lasted_too_long", "no_such_day"),
    certificate=check,
)
