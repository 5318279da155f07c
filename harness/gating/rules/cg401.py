"""CG401: a verdict on a time has pairs."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Each verdict on a time rests on at least six pairs of two processes, the turns of a pair adjacent."""
    from harness.gating import timed

    for at, said in timed.latency_checks(subject):
        if not said["code"].startswith(timed.CODE):
            yield Problem(at, f"is a {said['outcome']} of {said['code']}, which has no pairs")
    for one in timed.verdicts(subject):
        processes = {turn.process for pair in one.pairs for turn in pair}
        if len(one.pairs) < timed.LEAST_PAIRS or len(one.pairs) != len(one.spec.pairs):
            yield Problem(one.at, f"rests on {len(one.pairs)} pairs; wanted are {timed.LEAST_PAIRS}, and all planned")
        if len(processes) < timed.LEAST_PROCESSES:
            yield Problem(one.at, f"rests on {len(processes)} process; wanted are {timed.LEAST_PROCESSES}")
        if any(turn.process != other.process or not turn.process for turn, other in one.pairs):
            yield Problem(one.at, "rests on a pair whose turns did not run in the same process")
        places = sorted(one.steps.index(ref.label) for pair in one.spec.pairs for ref in pair)
        ran = [{one.steps[place] for place in places[first : first + 2]} for first in range(0, len(places), 2)]
        if ran != [{ref.label for ref in pair} for pair in one.spec.pairs]:
            yield Problem(one.at, "rests on pairs whose two turns do not run one after the other")


RULE = Rule(
    id="CG401",
    text="A verdict on latency rests on at least six interleaved pairs from at least two processes.",
    pain="One lucky sample, or all cold runs first and all warm ones after, becomes a published gain.",
    hint="ask `quicker` with six pairs or more and a restart between them",
    failing=(
        "verdict_without_pairs",
        "verdict_of_one_process",
        "verdict_of_pairs_in_two_processes",
    ),
    passing="valid_timed",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
