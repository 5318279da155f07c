"""CG405: nobody always goes first, and nothing drifts."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """In half of the pairs either side ran first, and the reference stayed what it was, as the scenario bounds it."""
    from harness.gating import timed

    for one in timed.verdicts(subject):
        first = sum(one.steps.index(other.label) < one.steps.index(turn.label) for turn, other in one.pairs)
        if abs(2 * first - len(one.pairs)) > 1:
            yield Problem(one.at, f"rests on {len(one.pairs)} pairs in {first} of which the reference ran first")
        half = len(one.pairs) // 2
        if not half:
            continue
        low, high = sorted((timed.middle(one.references[:half]), timed.middle(one.references[half:])))
        if (high - low) * timed.PPM > (one.spec.steady_ppm + 1) * max(low, 1):
            yield Problem(one.at, f"rests on a reference that took {low} ns in one half and {high} ns in the other")


RULE = Rule(
    id="CG405",
    text="Pairs of a verdict on latency are balanced in their order, and their reference did not drift.",
    pain="The first run of a process pays for what warms up; whoever goes second is quicker.",
    hint="let each side go first in half of the pairs, on a machine that is left alone",
    failing=("reference_drifts",),
    passing="valid_timed",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
