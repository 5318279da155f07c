"""Verdicts on times, looked at once more: pairs, their order, their interval, by the gate's own few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.gating.rule import Body, Subject
from harness.model.evidence import Turn
from harness.model.scenario import CheckSpec

CODE: Final = "LAT.PAIRED@"
LEAST_PAIRS: Final = 6
LEAST_PROCESSES: Final = 2
PPM: Final = 1_000_000
_VERDICTS: Final = ("pass", "fail")
_AXIS: Final = "latency"


class Timed(NamedTuple):
    """One verdict on a time, with what its evidence shows."""

    at: str
    """JSON pointer of the check."""
    check: Body
    spec: CheckSpec
    pairs: Sequence[tuple[Turn, Turn]]
    """Candidate and reference, as far as the evidence has both."""
    steps: Sequence[str]
    """Labels of the arm, in their order."""

    @property
    def references(self) -> Sequence[int]:
        """Times of the reference turns, in their order."""
        return [took(reference) for _, reference in self.pairs]

    @property
    def candidates(self) -> Sequence[int]:
        """Times of the candidate turns, in their order."""
        return [took(candidate) for candidate, _ in self.pairs]


def verdicts(subject: Subject) -> Iterator[Timed]:
    """Yield each verdict on a time that a certificate gives and whose evidence is there."""
    sight = subject.sight
    for at, check in latency_checks(subject):
        cell = subject.body["cells"][int(at.split("/")[3])]["id"]
        plan = None if sight is None else sight.plans.get(cell)
        spec = next((one for one in plan.checks if one.id == check["id"]), None) if plan is not None else None
        if sight is None or plan is None or spec is None or not spec.pairs:
            continue
        turns = [[sight.turns.get((cell, ref.arm, ref.label)) for ref in pair] for pair in spec.pairs]
        whole = [(one, other) for one, other in turns if one is not None and other is not None]
        arm = next(arm for arm in plan.arms if arm.id == spec.pairs[0][0].arm)
        yield Timed(at, check, spec, whole, [step.label for step in arm.steps])


def latency_checks(subject: Subject) -> Iterator[tuple[str, Body]]:
    """Yield pointer and check of each verdict on the axis latency. Most certificates have none."""
    if _AXIS not in subject.axes:
        return
    for number, cell in enumerate(subject.body["cells"]):
        for place, check in enumerate(cell["checks"]):
            if check["axis"] == _AXIS and check["outcome"] in _VERDICTS:
                yield f"/body/cells/{number}/checks/{place}", check


def took(turn: Turn) -> int:
    """Return the nanoseconds from the start of a turn to the end of its prefill."""
    return turn.begin_ns + turn.prefill_ns


def middle(values: Sequence[int]) -> int:
    """Return the lower median."""
    return sorted(values)[(len(values) - 1) // 2]


def interval(pairs: Sequence[tuple[Turn, Turn]]) -> tuple[int, int] | None:
    """Return the interval of the median difference that holds 95 %; None: so few pairs have none."""
    found = sorted(took(candidate) - took(reference) for candidate, reference in pairs)
    count = len(found)
    ways, outside, cut = 1, 0, 0
    for drawn in range(count // 2):
        outside += ways
        if outside * 40 > 2**count:
            break
        cut = drawn + 1
        ways = ways * (count - drawn) // (drawn + 1)
    return (found[cut - 1], found[count - cut]) if cut else None
