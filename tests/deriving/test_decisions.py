"""Cells, axes and the whole: what may be called a pass, and what never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.deriving.judge import judge
from harness.errors import InvalidDocumentError
from harness.model.evidence import CellEvent, Point, Trust, Turn
from harness.model.values import CellId, Observability, Outcome, Phase, Verdict
from tests.fakes.evidence import CELL, SCENARIO, Recorded, recorded, scenario, sized

BASE = recorded()
AXES = sized(b"axes: {size: [1, 2, 3]}\n  exclude: [{when: {size: 3}, reason: too_big}]")
THREE = recorded(scenario(AXES))
ONE, TWO, OUT = (CellId(f"T01[scale=16,size={size}]") for size in (1, 2, 3))


def verdicts(record: Recorded) -> tuple[Verdict, dict[str, Verdict]]:
    decision = judge(record.evidence()).decision
    return decision.overall, {str(axis): verdict for axis, verdict in decision.by_axis.items()}


def ended(record: Recorded, cell: str, event: str, reason: str) -> Recorded:
    """Let one cell come to its end without going through its arms."""
    kept = record.without(lambda one: getattr(one, "cell", "") == cell)
    told = CellEvent(cell=CellId(cell), event=event, reason=reason)
    cells = [getattr(one, "cell", "") for one in record.observations]
    at = cells.index(cell) if cell in cells else len(cells)
    told_there = (*kept.observations[:at], told, *kept.observations[at:])
    return Recorded(header=kept.header, observations=told_there, finished=kept.finished)


def _twice(e: Recorded) -> Recorded:
    turn = next(one for one in e.observations if isinstance(one, Turn))
    return Recorded(header=e.header, observations=(*e.observations, replace(turn, t_ns=0)), finished=e.finished)


def test_exactness_is_not_evaluated_where_nothing_was_compared() -> None:
    text = (
        SCENARIO[: SCENARIO.index(b"    - {id: first,")]
        + b"    - {id: cached, cached: {at: warm.again, equals: {chunks: 3}}}\n"
    )

    overall, axes = verdicts(recorded(scenario(text)))

    assert overall is Verdict.PASS
    assert {axis for axis, verdict in axes.items() if verdict != "not_evaluated"} == {"robustness"}


def test_observations_lie_in_time_and_within_the_run() -> None:
    looks = [one for one in BASE.observations if isinstance(one, Point)]
    for look, t_ns in ((looks[-1], 1), (looks[0], 3_600_000_000_001)):
        changed = (replace(one, t_ns=t_ns) if one is look else one for one in BASE.observations)
        with pytest.raises(InvalidDocumentError, match=f"found t_ns {t_ns};"):
            replace(BASE, observations=tuple(changed)).body()


def test_all_cells_passing_is_a_pass_and_what_nobody_asked_is_not_evaluated() -> None:
    overall, axes = verdicts(BASE)

    assert overall is Verdict.PASS
    assert axes == {
        "exactness": Verdict.PASS,
        "robustness": Verdict.PASS,
        "footprint": Verdict.PASS,
        "quality": Verdict.NOT_EVALUATED,
        "latency": Verdict.NOT_EVALUATED,
    }


def test_an_excluded_cell_is_listed_and_does_not_count() -> None:
    cells = judge(THREE.evidence()).decision.cells

    assert [(cell.id, cell.outcome, cell.reason) for cell in cells] == [
        (ONE, Outcome.PASS, ""),
        (TWO, Outcome.PASS, ""),
        (OUT, Outcome.EXCLUDED, "too_big"),
    ]
    assert verdicts(THREE)[0] is Verdict.PASS


@pytest.mark.parametrize("event", ["not_run", "not_supported"])
def test_a_cell_that_was_not_run_leaves_no_pass_on_any_axis_that_it_would_have_spoken_of(event: str) -> None:
    overall, axes = verdicts(ended(THREE, ONE, event, "device_absent"))

    assert overall is Verdict.INCONCLUSIVE
    assert {axes[name] for name in ("exactness", "robustness", "footprint")} == {Verdict.INCONCLUSIVE}
    assert axes["latency"] is Verdict.NOT_EVALUATED


def test_a_failing_cell_stops_and_an_error_is_worse() -> None:
    failing = BASE.with_part("warm", "again", Phase.END, "layer1.k")

    assert verdicts(failing)[0] is Verdict.STOP
    assert verdicts(failing)[1]["robustness"] is Verdict.PASS
    assert verdicts(failing.without_point("warm", "first", Phase.END))[0] is Verdict.ERROR


def test_a_cell_in_error_shows_nothing_on_any_axis() -> None:
    _, axes = verdicts(BASE.without_point("flipped", "again", Phase.RESTORED))

    assert {axes[name] for name in ("exactness", "robustness", "footprint")} == {Verdict.ERROR}


def test_a_run_without_any_cell_left_is_an_error() -> None:
    text = SCENARIO.replace(b"axes: {}", b"axes: {size: [1]}\n  exclude: [{when: {size: 1}, reason: too_big}]")

    assert verdicts(recorded(scenario(text)))[0] is Verdict.ERROR


def test_a_cell_that_left_nothing_behind_is_an_error() -> None:
    gone = THREE.without(lambda one: getattr(one, "cell", "") == TWO)

    assert gone.cell(TWO).outcome is Outcome.ERROR
    assert gone.cell(TWO).reason == "no_observation"


def test_a_cell_with_controls_alone_is_an_error() -> None:
    found = BASE.header.procedure["checks"]
    assert isinstance(found, list)
    only = [check for check in found if "seen" in check or "stored" in check]

    cell = BASE.with_procedure({**BASE.header.procedure, "checks": only}).cell()

    assert (cell.outcome, cell.reason) == (Outcome.ERROR, "nothing_judged")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"mismatches": 1}, "trust_mismatch"), ({"known_answers": 0}, "no_known_answers")],
)
def test_digests_that_cannot_be_believed_make_the_whole_an_error(changes: dict[str, int], reason: str) -> None:
    decision = judge(BASE.with_trust(**changes).evidence()).decision

    assert decision.overall is Verdict.ERROR
    assert decision.reasons == (reason,)
    assert Verdict.PASS not in decision.by_axis.values()


def test_digests_that_nobody_vouches_for_make_the_whole_an_error() -> None:
    decision = judge(BASE.without(lambda one: isinstance(one, Trust)).evidence()).decision

    assert decision.reasons == ("trust_missing",)
    assert decision.overall is Verdict.ERROR


def test_a_target_that_shows_less_than_the_scenario_needs_cannot_pass() -> None:
    cell = BASE.with_target(observability=str(Observability.TOKENS)).cell()

    assert (cell.outcome, cell.reason) == (Outcome.ERROR, "observability")


def test_a_control_that_the_target_cannot_run_is_left_out_with_its_check() -> None:
    capabilities = BASE.header.target["capabilities"]
    assert isinstance(capabilities, list)
    without = [name for name in capabilities if name != "corrupt"]
    changed = BASE.with_target(capabilities=without).without(lambda one: getattr(one, "arm", "") == "flipped")

    cell = changed.cell()

    assert cell.outcome is Outcome.PASS
    assert "flip-seen" not in {check.id for check in cell.checks}
    assert f"control_dropped:{CELL}:flipped" in changed.body()["limits"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda e: e.with_header(selected=("T01[scale=4]",)), "no cell"),
        (lambda e: e.with_header(procedure={**e.header.procedure, "chunk": 64}), "procedure_digest"),
        (lambda e: e.without_controls(), "prove that it could fail"),
        (lambda e: e.with_turn("warm", "again", arm="unknown"), "not planned"),
        (lambda e: e.with_turn("warm", "again", rep=0, label="unknown"), "not planned"),
        (lambda e: e.with_turn("warm", "again", cell=CellId("T01[scale=1]")), "not in the product"),
        (_twice, "twice"),
        (lambda e: ended(THREE, OUT, "not_run", "x"), "not to be run"),
        (lambda e: Recorded(header=e.header, observations=e.observations, closed=False), "cut off"),
    ],
)
def test_evidence_that_contradicts_itself_is_refused(change: object, text: str) -> None:
    assert callable(change)
    changed = change(BASE)

    with pytest.raises(InvalidDocumentError, match=text):
        judge(changed.evidence())


def test_a_partial_run_lists_what_was_not_selected() -> None:
    partial = THREE.with_header(selected=(TWO,)).without(lambda one: getattr(one, "cell", "") == ONE)

    assert (partial.cell(ONE).outcome, partial.cell(ONE).reason) == (Outcome.NOT_RUN, "not_selected")
    assert verdicts(partial)[0] is Verdict.INCONCLUSIVE
    assert partial.body()["run"]["partial"] is True  # type: ignore[index]
