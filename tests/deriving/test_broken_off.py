"""A cell in which a run was broken off: never a pass, no error of the engine, and a failure that was seen stays one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.certifying.issue import why_draft
from harness.deriving.judge import judge
from harness.model.evidence import CellEvent, Crash, Observation, PartTable, Trust
from harness.model.values import CrashKind, Outcome, Phase, Verdict
from tests.fakes.evidence import Recorded, recorded, scenario, sized

GOOD = recorded()
FAILED = GOOD.with_part("warm", "again", Phase.RESTORED, "layer0.recurrent")


def of_cell(whole: Recorded) -> list[Observation]:
    return [one for one in whole.observations if not isinstance(one, (PartTable, Trust))]


def broken_off(whole: Recorded, after: int, *, interrupted: bool = True) -> Recorded:
    """The same, broken off after so many observations of its cell."""
    kept = of_cell(whole)[:after]
    others = [one for one in whole.observations if isinstance(one, (PartTable, Trust))]
    return replace(whole, observations=(*others, *kept), interrupted=interrupted)


@pytest.mark.parametrize("after", range(1, len(of_cell(GOOD))))
def test_a_good_cell_that_was_broken_off_anywhere_was_not_run_because_of_that(after: int) -> None:
    found = broken_off(GOOD, after)
    decision = judge(found.evidence()).decision

    (cell,) = decision.cells
    assert (cell.outcome, cell.reason) == (Outcome.NOT_RUN, "interrupted")
    assert {check.outcome for check in cell.checks} <= {Outcome.PASS, Outcome.NOT_RUN}
    assert decision.overall is Verdict.INCONCLUSIVE
    assert Verdict.PASS not in {decision.by_axis[check.axis] for check in cell.checks}
    assert why_draft(found.data()) == "interrupted"


def test_a_failure_that_was_seen_stays_one_when_the_run_is_called_broken_off() -> None:
    outcomes = [broken_off(FAILED, after).cell().outcome for after in range(1, len(of_cell(FAILED)))]

    assert FAILED.cell().outcome is Outcome.FAIL
    first = outcomes.index(Outcome.FAIL)
    assert set(outcomes[:first]) == {Outcome.NOT_RUN}
    assert set(outcomes[first:]) == {Outcome.FAIL}
    assert judge(broken_off(FAILED, len(outcomes)).evidence()).decision.overall is Verdict.STOP


def test_a_cell_that_was_done_is_judged_as_ever_when_the_run_is_called_broken_off() -> None:
    assert replace(FAILED, interrupted=True).cell() == FAILED.cell()
    assert replace(GOOD, interrupted=True).cell() == GOOD.cell()


def test_a_cell_that_does_not_end_is_an_error_where_nobody_broke_off_the_run() -> None:
    cell = broken_off(GOOD, len(of_cell(GOOD)) - 1, interrupted=False).cell()

    assert (cell.outcome, cell.reason) == (Outcome.ERROR, "cell_not_closed")


def test_a_crash_before_the_run_was_broken_off_stays_an_error() -> None:
    cell = GOOD.cell().id
    crash = Crash(cell=cell, arm="warm", rep=0, label="again", kind=CrashKind.CRASH, detail="exit_9", t_ns=0)
    found = broken_off(GOOD, 3)

    broken = replace(found, observations=(*found.observations, crash)).cell()

    assert (broken.outcome, broken.reason) == (Outcome.ERROR, "crash")


def test_only_the_last_cell_that_began_can_have_been_under_way() -> None:
    two = recorded(scenario(sized(b"axes: {size: [1, 2]}")))
    first, second = (cell.id for cell in judge(two.evidence()).decision.cells)

    def ends_the_first(one: Observation) -> bool:
        return isinstance(one, CellEvent) and (one.event, one.cell) == ("end", first)

    kept = tuple(one for one in two.observations if not ends_the_first(one))
    cut = replace(two, observations=kept, interrupted=True)

    assert cut.cell(first).outcome is Outcome.ERROR
    assert cut.cell(second).outcome is Outcome.PASS
