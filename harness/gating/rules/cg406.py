"""CG406: too good is not good."""

from __future__ import annotations

from itertools import pairwise

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """A gain beyond what the scenario believes is inconclusive, not a pass; so are times without any variation."""
    from harness.gating import timed

    for one in timed.verdicts(subject):
        if len(one.pairs) > 1 and len({*one.references}) == len({*one.candidates}) == 1:
            yield Problem(one.at, "rests on times that are all the same; no clock is that even")
        ran = sorted((turn.t_ns, timed.took(turn)) for pair in one.pairs for turn in pair if turn.t_ns)
        if any(took > now - before for (before, _), (now, took) in pairwise([(0, 0), *ran])):
            yield Problem(one.at, "rests on a turn that took longer than the run had for it")
        if not one.pairs or one.check["outcome"] != "pass":
            continue
        cold, warm = timed.middle(one.references), timed.middle(one.candidates)
        if cold > one.spec.gain_at_most * max(warm, 1):
            most = one.spec.gain_at_most
            yield Problem(one.at, f"passes with {warm} ns after {cold} ns; more than {most} times is not believed")


RULE = Rule(
    id="CG406",
    text="A gain in time beyond what the scenario believes is inconclusive.",
    pain="A turn that did nothing is the quickest of all; a decode that a codec cannot touch gets 74 % quicker.",
    hint="find out what was measured; a higher `gain_at_most` needs a reason in the scenario",
    failing=("too_quick_passes", "constant_passes", "longer_than_the_run_passes"),
    passing="valid_timed",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
