"""CG407: times are of a machine that was left alone."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """No verdict on a time comes from a run that shared its machine with other jobs, or found it loaded."""
    from harness.gating import timed

    facts = subject.body["environment"]["facts"]
    jobs, load, cores = (facts.get(name, 0) for name in ("jobs", "load_1min_milli", "cores_usable"))
    busy = ""
    if isinstance(jobs, int) and jobs > 1:
        busy = f"{jobs} jobs ran at once"
    elif isinstance(load, int) and isinstance(cores, int) and 0 < cores * 1000 < load:
        busy = f"the load was {load} thousandths on {cores} processors"
    for at, said in timed.latency_checks(subject) if busy else ():
        yield Problem(at, f"is a {said['outcome']} although {busy}; that is an error of the ground")


RULE = Rule(
    id="CG407",
    text="A verdict on latency is of a run that had its machine for itself.",
    pain="Somebody else's work slowed one side down, and the record calls it a regression.",
    hint="run again with `--jobs 1` on an idle machine",
    failing=(
        "judged_beside_other_jobs",
        "judged_under_load",
    ),
    passing="valid_timed",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
