"""CG902: a record's times can be true together."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from harness.gating.rule import Problem, Problems, Rule, Subject

_TOLERANCE: Final = timedelta(hours=1)
"""A clock of the day may be set while a run lasts; by more than this it must be wrong."""


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
    lasted, counted = moments[1] - moments[0], timedelta(microseconds=run["elapsed_ns"] // 1000)
    if lasted < timedelta():
        yield Problem("/body/run/finished", f"the run ended at {run['finished']}, before it began at {run['created']}")
    elif abs(lasted - counted) > _TOLERANCE:
        yield Problem("/body/run/elapsed_ns", f"the run lasted {lasted} by its times, and {counted} by its counter")


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


RULE = Rule(
    id="CG902",
    text="A run ended after it began, and its length fits both: by the clock of the day and by its own counter.",
    pain="A record with invented times is newer than it is, and supersedes what it should not.",
    hint="set the clock of the machine and run again with `statecert run`",
    failing=("ended_before_it_began", "lasted_too_long", "no_such_day"),
    certificate=check,
)
