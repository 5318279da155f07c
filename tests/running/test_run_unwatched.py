"""Restores that nobody looks at and nobody waits for: what a look would put right is seen as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.deriving.body import derive_body
from harness.deriving.looks import expected_phases
from harness.errors import InvalidScenarioError
from harness.gating.looks import due
from harness.model.evidence import Evidence, Point
from harness.model.values import Phase
from tests.fakes.toy_support import COLD, EXACT, FLIPPED, SEEN, WARM, run_toy, toy_host, toy_plan, toy_procedure
from tests.fakes.toy_support import toy_target as target

pytestmark = pytest.mark.usefixtures("forked_toys")

UNWATCHED: dict[str, object] = {
    "id": "unwatched",
    "role": "candidate",
    "steps": [
        {"run": {"prompt": "A", "cache": True, "as": "first"}},
        {"run": {"prompt": "A", "cache": True, "decode": 4, "unseen": True, "as": "again"}},
    ],
}
BLIND: dict[str, Any] = {
    "id": "unwatched",
    "exact": {"candidate": "unwatched.again", "reference": "cold.a", "witness": "copied"},
}


def _run(folder: Path, fault: str = "") -> tuple[Evidence, Mapping[str, Mapping[str, Any]]]:
    plan = toy_plan(toy_procedure([COLD, WARM, UNWATCHED, FLIPPED], [EXACT, BLIND, SEEN]))
    with toy_host(folder, target(fault=fault)) as host:
        evidence = run_toy(host, plan, folder)
    cells = derive_body(evidence)["cells"]
    assert isinstance(cells, list)
    return evidence, {check["id"]: check for check in cells[0]["checks"]}


def test_an_unseen_restore_passes_without_a_look_at_it(tmp_path: Path) -> None:
    evidence, found = _run(tmp_path)

    assert found["unwatched"]["outcome"] == "pass"
    assert found["unwatched"]["detail"]["phases"] == "prefilled end"
    looks = [one for one in evidence.observations if isinstance(one, Point) and one.label == "again"]
    assert {one.arm for one in looks if one.phase is Phase.RESTORED} == {"warm", "flipped"}


@pytest.mark.parametrize("fault", ["late_unless_looked_at", "late_unless_awaited"])
def test_a_restore_that_is_completed_by_its_watcher_fails_where_nobody_watches(tmp_path: Path, fault: str) -> None:
    _, found = _run(tmp_path, fault)

    assert found["again-exact"]["outcome"] == "pass"
    assert (found["unwatched"]["outcome"], found["unwatched"]["reason"]) == ("fail", "parts_differ")
    assert found["unwatched"]["detail"]["phase"] == "prefilled"


def test_an_unseen_run_has_no_look_that_a_check_could_name() -> None:
    check = {**BLIND, "exact": {**BLIND["exact"], "phases": ["restored"]}}

    with pytest.raises(InvalidScenarioError, match="phase restored"):
        toy_plan(toy_procedure([COLD, WARM, UNWATCHED, FLIPPED], [EXACT, check, SEEN]))


@pytest.mark.parametrize("unseen", [False, True])
def test_an_unseen_rollback_or_archive_owes_no_look_to_the_judge_nor_to_the_gate(*, unseen: bool) -> None:
    more = {"unseen": True} if unseen else {}
    steps = [
        {"run": {"prompt": "A", "as": "a"}},
        {"record": {"as": "from_here"}},
        {"decode": {"count": 2, "as": "away"}},
        {"rollback": {"count": 2, **more, "as": "back"}},
        {"extend": {"prompt": "more", **more, "as": "on"}},
        {"encode": {"image": "i", "codec": "lmcache-cachegen", "version": 2, "as": "coded"}},
        {"bring": {"image": "i", "codec": "lmcache-cachegen", "version": 2, **more, "as": "brought"}},
    ]
    arm = {"id": "unwatched", "role": "candidate", "steps": steps}
    plan = toy_plan(toy_procedure([COLD, WARM, arm, FLIPPED], [EXACT, SEEN]))
    found = {step.label: step for one in plan.cells[0].arms if one.id == "unwatched" for step in one.steps}

    looks = {label: expected_phases(found[label]) for label in ("back", "on", "brought")}
    assert looks["on"] == (Phase.PREFILLED,)
    assert (looks["back"], looks["brought"]) == (((), ()) if unseen else ((Phase.RESTORED,), (Phase.SEEN,)))
    assert looks == {label: tuple(due(found[label])) for label in looks}
