"""``LAT.PAIRED``: turns that reuse state are quicker than turns that do not, by interleaved pairs of one arm.

What is compared is the time from the start of a turn to the end of its prefill, measured by the engine's host without
hashing. The difference of each pair is one sample; the interval of their median is read off the sorted differences by
exact binomial tails (six pairs: least to greatest, 96.9 %; ten: second to ninth, 97.9 %). No mean, no percentile, no
random number: whoever has the evidence gets the same integers.

``pass`` and ``fail`` need the whole interval on one side. What makes the samples unfit is never a verdict: too few
pairs, one process, a pair in two, times without any variation, one side always first, a reference that moved while the
run went on, a gain that nothing explains (``inconclusive``), a machine that did other work as well, a turn longer
than the run had for it (``error``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from harness.deriving.checks.answers import absent, answer
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import Turn
from harness.model.noun import dataclass
from harness.model.scenario import CheckSpec
from harness.model.values import Outcome

LEAST_PAIRS = 6
"""Below, no interval of the median has 95 %."""
LEAST_PROCESSES = 2
_PPM = 1_000_000
_TWENTIETH = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """What the pairs of a check show, in whole nanoseconds."""

    pairs: int
    processes: int
    reference_first: int
    """Pairs in which the reference ran before the candidate."""
    low_ns: int
    high_ns: int
    """Interval of the median difference, candidate less reference."""
    reference_ns: int
    candidate_ns: int
    """Lower medians."""
    moved_ppm: int
    """By how much the lower medians of the reference's two halves differ, of the smaller."""
    apart: bool = False
    """Whether the two turns of a pair ran in two processes, or in one that nobody wrote down."""
    constant: bool = False
    """Whether every turn of either side took the same to the nanosecond: no clock is that even."""

    def detail(self) -> dict[str, str | int]:
        """Return the fields as a check shows them."""
        return {
            "pairs": self.pairs,
            "processes": self.processes,
            "reference_first": self.reference_first,
            "low_ns": self.low_ns,
            "high_ns": self.high_ns,
            "reference_ns": self.reference_ns,
            "candidate_ns": self.candidate_ns,
            "moved_ppm": self.moved_ppm,
        }


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    turns: list[tuple[Turn, Turn]] = []
    for candidate, reference in spec.pairs:
        pair = (view.turn(candidate), view.turn(reference))
        for ref, turn in zip((candidate, reference), pair, strict=True):
            if turn is None:
                return absent(view, spec, ref, {})
        turns.append(pair)  # type: ignore[arg-type]
    for candidate_turn, reference_turn in turns:
        if not candidate_turn.cached or reference_turn.cached:
            wrong = candidate_turn if not candidate_turn.cached else reference_turn
            reason = "nothing_reused" if not candidate_turn.cached else "reference_reused"
            outcome = Outcome.FAIL if not candidate_turn.cached else Outcome.ERROR
            return answer(spec, outcome, reason, detail={"label": wrong.label})
    if view.busy:
        return answer(spec, Outcome.ERROR, view.busy)
    beyond = _beyond(list(view.turns.values()))
    if beyond is not None:
        return answer(
            spec, Outcome.ERROR, "longer_than_its_run", observed=_took(beyond), detail={"label": beyond.label}
        )
    steps = [step.label for arm in view.cell.arms if arm.id == spec.pairs[0][0].arm for step in arm.steps]
    return _judged(spec, paired(turns, steps))


def paired(turns: Sequence[tuple[Turn, Turn]], steps: Sequence[str]) -> Paired:
    """Return what pairs show.

    Args:
        turns: Candidate and reference of each pair, in the order in which they ran.
        steps: Labels of the arm's steps in their order.
    """
    differences = sorted(_took(one) - _took(other) for one, other in turns)
    rank = rank_of(len(differences))
    references = [_took(other) for _, other in turns]
    half = len(references) // 2
    medians = sorted((_median(references[:half]), _median(references[half:]))) if half else [0, 0]
    return Paired(
        pairs=len(turns),
        processes=len({turn.process for pair in turns for turn in pair}),
        reference_first=sum(steps.index(other.label) < steps.index(one.label) for one, other in turns),
        low_ns=differences[max(rank, 1) - 1],
        high_ns=differences[-max(rank, 1)],
        reference_ns=_median(references),
        candidate_ns=_median([_took(one) for one, _ in turns]),
        moved_ppm=(medians[1] - medians[0]) * _PPM // max(medians[0], 1),
        apart=any(one.process != other.process or not one.process for one, other in turns),
        constant=len(turns) > 1 and all(len({_took(pair[side]) for pair in turns}) == 1 for side in (0, 1)),
    )


def rank_of(pairs: int) -> int:
    """Return the rank from either end that bounds the median with at least 95 %; 0: there is none."""
    found, tail = 0, 0
    for rank in range(1, pairs // 2 + 1):
        tail += comb(pairs, rank - 1)
        if 2 * tail * _TWENTIETH > 2**pairs:
            break
        found = rank
    return found


def _judged(spec: CheckSpec, found: Paired) -> CheckResult:
    limit = -(found.reference_ns * spec.margin_ppm // _PPM)
    doubt = _doubt(spec, found)
    if doubt:
        return answer(spec, Outcome.INCONCLUSIVE, doubt, observed=found.high_ns, limit=limit, detail=found.detail())
    outcome, reason = Outcome.INCONCLUSIVE, "interval_too_wide"
    if found.high_ns < limit:
        outcome, reason = Outcome.PASS, ""
    elif found.low_ns > 0:
        outcome, reason = Outcome.FAIL, "slower"
    return answer(spec, outcome, reason, observed=found.high_ns, limit=limit, detail=found.detail())


def _beyond(turns: Sequence[Turn]) -> Turn | None:
    """Return a turn that says it took longer than the run had for it, by the clock that all observations share."""
    before = 0
    for turn in turns:
        if turn.t_ns and _took(turn) > turn.t_ns - before:
            return turn
        before = turn.t_ns or before
    return None


def _doubt(spec: CheckSpec, found: Paired) -> str:
    doubts = (
        (found.pairs < LEAST_PAIRS, "few_pairs"),
        (found.processes < LEAST_PROCESSES, "one_process"),
        (found.apart, "pair_in_two_processes"),
        (found.constant, "constant_times"),
        (abs(2 * found.reference_first - found.pairs) > 1, "order_unbalanced"),
        (found.moved_ppm > spec.steady_ppm, "reference_moved"),
        (found.reference_ns > spec.gain_at_most * max(found.candidate_ns, 1), "implausible_gain"),
    )
    return next((word for holds, word in doubts if holds), "")


def _took(turn: Turn) -> int:
    return turn.begin_ns + turn.prefill_ns


def _median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]
