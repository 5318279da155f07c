"""Nearness: within the scenario's limits, measured, and never an equality."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.deriving.judge import judge
from harness.deriving.product import expand
from harness.deriving.validity import require_sensible
from harness.errors import InvalidDocumentError, InvalidScenarioError
from harness.model.evidence import Distance, Point
from harness.model.values import CellId, DecisionAxis, Outcome, Phase, Verdict
from harness.wire.scenario_doc import scenario_of_procedure
from tests.fakes.evidence import CELL, OTHER, Recorded, recorded

BASE = recorded()
PART = "layer0.recurrent"
LIMITS: dict[str, Any] = {"recurrent": {"relative_ppb": 1000, "ulp": 50}, "logits": {"relative_ppb": 1000}}
NEAR: dict[str, Any] = {"candidate": "warm.again", "reference": "cold.a", "witness": "copied", "limits": LIMITS}


def with_near(**changes: Any) -> Recorded:
    """The recorded run with its exact comparison replaced by a near one."""
    procedure = copy.deepcopy(dict(BASE.header.procedure))
    checks = procedure["checks"]
    assert isinstance(checks, list)
    others = [check for check in checks if check["id"] != "again"]
    return BASE.with_procedure({**procedure, "checks": [{"id": "again", "near": {**NEAR, **changes}}, *others]})


def measured(run: Recorded, part: str = PART, phase: Phase = Phase.END, **changes: Any) -> Recorded:
    """Add a distance to a run."""
    row = next(
        (row for table in run.observations if hasattr(table, "rows") for row in table.rows if row.name == part), None
    )
    size = 1
    for extent in row.shape if row is not None else (8,):
        size *= extent
    found = Distance(
        cell=CellId(CELL),
        check="again",
        phase=phase,
        part=part,
        family=row.family if row is not None else "logits",
        layer=row.layer if row is not None else -1,
        element_type=row.element_type if row is not None else "f32",
        elements=size,
        differing_elements=1,
        ulp=7,
        relative_ppb=400,
        absolute_nano=90,
        finite=True,
    )
    return replace(run, observations=(*run.observations[:-2], replace(found, **changes), *run.observations[-2:]))


def apart(run: Recorded | None = None) -> Recorded:
    """The candidate ends in another recurrent state."""
    return (run or with_near()).with_part("warm", "again", Phase.END, PART)


def test_what_is_equal_is_near_and_counts_on_its_own_axis() -> None:
    result = with_near().result("again")

    assert (result.outcome, result.code, result.axis) == (Outcome.PASS, "NEAR.STATE@1", DecisionAxis.TOLERANCE)
    assert result.detail["guarantee"] == "tolerance"


def test_a_measured_difference_within_its_limits_passes_and_is_told() -> None:
    result = measured(apart()).result("again")

    assert result.outcome is Outcome.PASS
    assert (result.observed, result.limit, result.unit) == (400, 1000, "relative_ppb")
    assert (result.detail["part"], result.detail["parts_differing"]) == (PART, 1)


@pytest.mark.parametrize("changes", [{"relative_ppb": 1001}, {"ulp": 51}])
def test_one_beyond_any_of_its_limits_fails_there(changes: dict[str, Any]) -> None:
    result = measured(apart(), **changes).result("again")

    assert (result.outcome, result.reason, result.detail["part"]) == (Outcome.FAIL, "beyond_tolerance", PART)
    assert result.observed == next(iter(changes.values()))


def test_at_the_limit_is_within_it() -> None:
    assert measured(apart(), relative_ppb=1000, ulp=50).result("again").outcome is Outcome.PASS


def test_a_measure_that_no_limit_speaks_of_is_free() -> None:
    assert measured(apart(), absolute_nano=10**15).result("again").outcome is Outcome.PASS


def test_a_difference_that_nobody_measured_is_an_error_not_a_pass() -> None:
    result = apart().result("again")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "distance_missing")


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": Phase.PREFILLED},
        {"part": "layer1.k"},
        {"elements": 3},
        {"element_type": "f64"},
        {"differing_elements": 0},
        {"relative_ppb": 0},
        {"ulp": 0, "relative_ppb": 0},
    ],
)
def test_a_distance_of_something_else_measures_nothing(changes: dict[str, Any]) -> None:
    assert measured(apart(), **changes).result("again").reason == "distance_missing"


def test_a_distance_of_a_check_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidDocumentError, match="distance of other, which is no check of this cell"):
        judge(measured(apart(), check="other").evidence())


def test_zeros_of_two_signs_are_not_equal_where_the_limit_is_nothing() -> None:
    signs: dict[str, Any] = {"ulp": 0, "relative_ppb": 0, "absolute_nano": 0}
    nothing = with_near(limits={**LIMITS, "recurrent": {"ulp": 0}})

    assert measured(apart(), **signs).result("again").outcome is Outcome.PASS
    assert measured(apart(nothing), **signs).result("again").reason == "parts_differ"


@pytest.mark.parametrize(
    "limit", [{"ulp": 1 << 24}, {"relative_ppb": 10**9}, {"absolute_nano": (1 << 53) - 1, "ulp": 1 << 40}]
)
def test_a_limit_that_nothing_exceeds_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises((InvalidScenarioError, InvalidDocumentError), match="a part of zeros would pass"):
        with_near(limits={**LIMITS, "kv": limit}).body()


def test_what_is_no_number_fails() -> None:
    assert measured(apart(), finite=False).result("again").reason == "not_finite"


def test_a_part_without_a_limit_must_be_equal() -> None:
    run = measured(with_near().with_part("warm", "again", Phase.END, "layer1.k"), part="layer1.k")

    assert run.result("again").reason == "parts_differ"


def test_the_name_of_a_part_goes_before_its_family() -> None:
    limits = {**LIMITS, PART: {"relative_ppb": 10}}

    assert measured(apart(with_near(limits=limits))).result("again").reason == "beyond_tolerance"


def test_other_tokens_are_never_near() -> None:
    run = with_near().with_point("warm", "again", Phase.END, tokens=(9, 9, 9, 9))

    assert run.result("again").reason == "tokens_differ"


def test_another_shape_is_never_near() -> None:
    def wider(row: Any) -> Any:
        return replace(row, shape=(*row.shape, 1)) if row.name == PART else row

    run = measured(with_near().with_rows("warm", "again", Phase.END, lambda rows: [wider(row) for row in rows]))

    assert run.result("again").reason == "parts_differ"


def test_logits_beside_the_parts_have_their_own_distance() -> None:
    run = with_near().with_point("warm", "again", Phase.PREFILLED, logits=OTHER)

    assert run.result("again").reason == "distance_missing"
    assert measured(run, part="logits", phase=Phase.PREFILLED).result("again").outcome is Outcome.PASS
    beyond = measured(run, part="logits", phase=Phase.PREFILLED, relative_ppb=5000)
    assert beyond.result("again").reason == "beyond_tolerance"


def test_a_reference_that_does_not_repeat_itself_proves_no_nearness() -> None:
    run = measured(apart()).with_point("cold", "a", Phase.END, rep=1, logits=OTHER)

    assert run.result("again").outcome is Outcome.INCONCLUSIVE


def test_no_restore_is_no_nearness() -> None:
    assert with_near().with_turn("warm", "again", restored_bytes=0).result("again").reason == "restore_not_witnessed"


def test_infinite_logits_are_not_near() -> None:
    run = with_near()
    looks = [
        replace(one, logits_finite=False) if isinstance(one, Point) and one.arm == "warm" else one
        for one in run.observations
    ]

    assert replace(run, observations=tuple(looks)).result("again").reason == "not_finite"


def test_nearness_is_not_counted_as_exactness() -> None:
    near, exact = (judge(run.evidence(), "test").decision for run in (with_near(), BASE))

    assert near.by_axis[DecisionAxis.TOLERANCE] is Verdict.PASS
    assert DecisionAxis.TOLERANCE not in exact.by_axis


def test_a_limit_says_so_in_the_certificate() -> None:
    limits = with_near().body()["limits"]
    assert isinstance(limits, list)

    assert "tolerance:again" in limits


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda near: near.pop("limits"), "does not fit schema"),
        (lambda near: near.update(limits={}), "does not fit schema"),
        (lambda near: near.update(limits={"kv": {}}), "does not fit schema"),
        (lambda near: near.update(limits={"kv": {"ulp": -1}}), "does not fit schema"),
        (lambda near: near.update(limits={"kv": {"percent": 1}}), "does not fit schema"),
        (lambda near: near.update(guarantee="same_schedule"), "does not fit schema"),
        (lambda near: near.update(limits={"recurrent": {"ulp": 1}}), "states a limit for the logits"),
        (lambda near: near.update(fields=["tokens"]), "looks at parts or logits"),
        (lambda near: near.update(candidate="flipped.again"), "control"),
    ],
)
def test_nearness_without_limits_cannot_be_planned(change: Callable[[dict[str, Any]], None], text: str) -> None:
    procedure = copy.deepcopy(dict(with_near().header.procedure))
    change(procedure["checks"][0]["near"])  # type: ignore[index]

    with pytest.raises(InvalidScenarioError, match=text):
        expand(scenario_of_procedure("T01", procedure, "test.yaml"), [16])


# -- controls that must lie beyond the limits --------------------------------------------------------


def with_beyond(limits: dict[str, Any] = LIMITS, **distances: dict[str, int]) -> Recorded:
    """The near run whose other text must lie beyond the limits; what it is measured to be, by part."""
    run = with_near(limits=limits)
    procedure = copy.deepcopy(dict(run.header.procedure))
    for check in procedure["checks"]:  # type: ignore[attr-defined]
        if check["id"] == "other-seen":
            check["seen"]["beyond"] = "again"
    run = run.with_procedure(procedure)
    for part, changes in distances.items():
        name = part.replace("_", ".")
        if name != "logits":
            run = run.with_part("other", "a", Phase.END, name)
        run = measured(run, part=name, **{"check": "other-seen", **changes})  # type: ignore[arg-type]
    return run


FAR = {"relative_ppb": 1001}
NEARBY = {"relative_ppb": 1000, "ulp": 50}


def test_a_control_beyond_every_limit_is_seen() -> None:
    assert with_beyond(layer0_recurrent=FAR, logits=FAR).result("other-seen").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("distances", "kept"),
    [
        ({"layer0_recurrent": NEARBY, "logits": FAR}, "recurrent"),
        ({"layer0_recurrent": FAR, "logits": NEARBY}, "logits"),
        ({"layer0_recurrent": FAR}, "logits"),
        ({}, "logits recurrent"),
    ],
)
def test_a_control_that_keeps_a_limit_makes_the_cell_an_error(distances: dict[str, dict[str, int]], kept: str) -> None:
    run = with_beyond(**distances)
    result = run.result("other-seen")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "control_within_limits")
    assert result.detail["limits_kept"] == kept
    assert judge(run.evidence(), "test").decision.overall is Verdict.ERROR


def test_limits_that_speak_of_nothing_that_is_there_show_nothing() -> None:
    run = with_beyond({"logits": {"ulp": 1}, "ple": {"ulp": 1}}, logits=FAR | {"ulp": 2})

    assert run.result("other-seen").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"beyond": "cached"}, "checks within limits of this cell are: again"),
        ({"beyond": "again", "fields": ["tokens"]}, "no look at parts or logits"),
    ],
)
def test_what_a_control_lies_beyond_is_a_near_check_of_its_cell(changes: dict[str, Any], text: str) -> None:
    procedure = copy.deepcopy(dict(with_near().header.procedure))
    procedure["checks"][-1]["seen"].update(changes)  # type: ignore[index]

    with pytest.raises(InvalidScenarioError, match=text):
        expand(scenario_of_procedure("T01", procedure, "test.yaml"), [16])


def test_a_near_check_without_such_a_control_is_judged_as_it_was_meant_and_is_not_run_again() -> None:
    plan, sound = (
        expand(scenario_of_procedure("T01", run.header.procedure, "test.yaml"), [16])
        for run in (with_near(), with_beyond())
    )

    with pytest.raises(InvalidScenarioError, match=r"checks: found the check again.*no seen check with beyond: again"):
        require_sensible(plan.cells[0], "test.yaml")
    require_sensible(sound.cells[0], "test.yaml")
    assert with_near().result("other-seen").outcome is Outcome.PASS


# -- the same of checks that are near for some targets only ------------------------------------------


def reordered(families: str = "", **changes: Any) -> Recorded:
    """The exact comparison with limits for targets that sum in another order over some families; one target is such."""
    procedure = copy.deepcopy(dict(BASE.header.procedure))
    for check in procedure["checks"]:  # type: ignore[attr-defined]
        if check["id"] == "again":
            check["exact"]["if_reordered"] = LIMITS
        if check["id"] == "other-seen":
            check["seen"].update(changes)
    run = BASE.with_procedure(procedure)
    return run.with_target(identity={"kv_type": "f32", "reordered_families": families}) if families else run


def refusal(run: Recorded) -> str:
    """Why a plan is not run."""
    plan = expand(scenario_of_procedure("T01", run.header.procedure, "test.yaml"), [16])
    with pytest.raises(InvalidScenarioError) as caught:
        require_sensible(plan.cells[0], "test.yaml")
    return str(caught.value)


def test_an_engine_that_compares_exactly_is_asked_whether_the_control_differs_at_all() -> None:
    result = reordered(beyond="again").result("other-seen")

    assert result.outcome is Outcome.PASS


def test_an_engine_that_sums_in_another_order_is_asked_whether_the_control_exceeds_the_limits() -> None:
    result = reordered("recurrent", beyond="again").result("other-seen")

    assert (result.outcome, result.reason) == (Outcome.ERROR, "control_within_limits")
    assert result.detail["limits_kept"] == "logits recurrent"


def test_a_check_with_limits_for_some_targets_needs_a_control_beyond_them() -> None:
    assert "no seen check with beyond: again" in refusal(reordered())


def test_a_control_that_looks_at_less_than_its_check_shows_no_limit_of_the_rest() -> None:
    assert "looks at what again looks at (logits, parts)" in refusal(reordered(beyond="again", fields=["logits"]))


def test_a_control_that_a_target_may_leave_out_shows_no_limit_to_it() -> None:
    procedure = copy.deepcopy(dict(reordered(beyond="again").header.procedure))
    for arm in procedure["arms"]:  # type: ignore[attr-defined]
        if arm["id"] == "other":
            arm["requires"] = ["corrupt"]

    assert "every target runs which again is asked of" in refusal(BASE.with_procedure(procedure))


def test_a_control_may_ask_for_what_distances_are_measured_of() -> None:
    procedure = copy.deepcopy(dict(reordered(beyond="again").header.procedure))
    procedure["observability"], procedure["requires"] = "tokens", ["prefix_cache", "store", "snapshot", "extend"]
    for arm in procedure["arms"]:  # type: ignore[attr-defined]
        if arm["id"] == "other":
            arm["requires"] = ["parts", "logits"]
    plan = expand(scenario_of_procedure("T01", procedure, "test.yaml"), [16])

    require_sensible(plan.cells[0], "test.yaml")
