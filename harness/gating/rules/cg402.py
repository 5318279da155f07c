"""CG402: a verdict on a time follows from the interval."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """The interval of the median difference is made again; pass and fail need all of it on one side."""
    from harness.gating import timed

    for one in timed.verdicts(subject):
        found = timed.interval(one.pairs)
        if found is None:
            continue  # CG401 says so
        low, high = found
        limit = -(timed.middle(one.references) * one.spec.margin_ppm // timed.PPM)
        wanted = "pass" if high < limit else "fail" if low > 0 else "inconclusive"
        if wanted != one.check["outcome"]:
            said = one.check["outcome"]
            yield Problem(one.at, f"says {said}; from {low} to {high} ns, with the limit {limit}, follows {wanted}")


RULE = Rule(
    id="CG402",
    text="A verdict on latency is what the 95 % interval of the median difference gives, by exact ranks.",
    pain="Two runs of one pair gave one pass and one fail, and the pass was published.",
    hint="run again with more pairs; an interval on both sides of the limit is inconclusive",
    failing=(
        "slower_passes",
        "unclear_passes",
    ),
    passing="valid_timed",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
