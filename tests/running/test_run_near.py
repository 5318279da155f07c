"""Distances are measured where a scenario allows one, and only there."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from harness.deriving.body import derive_body
from harness.engines.host import HostOptions
from harness.engines.spool import SpoolBudget
from harness.model.evidence import Difference, Distance, Evidence
from harness.model.values import Phase
from tests.fakes.toy_support import (
    COLD,
    FLIPPED,
    QUICK,
    SEEN,
    WARM,
    run_toy,
    toy_host,
    toy_plan,
    toy_procedure,
    toy_target,
)

pytestmark = pytest.mark.usefixtures("forked_toys")

FAR = {"absolute_nano": 2**53 - 1}
NEAR: dict[str, Any] = {
    "id": "again-near",
    "near": {
        "candidate": "warm.again",
        "reference": "cold.a",
        "witness": "copied",
        "fields": ["parts", "logits"],
        "limits": {"recurrent": FAR, "kv": FAR, "logits": FAR},
    },
}


def plan(**limits: Any) -> Any:
    check = copy.deepcopy(NEAR)
    check["near"]["limits"].update(limits)
    return toy_plan(toy_procedure([COLD, WARM, FLIPPED], [check, SEEN]))


def ran(folder: Path, fault: str = "", options: HostOptions | None = None, **limits: Any) -> Evidence:
    target = toy_target(fault=fault) if fault else toy_target()
    with toy_host(folder, target, options) as host:
        return run_toy(host, plan(**limits), folder)


def distances(evidence: Evidence) -> list[Distance]:
    return [one for one in evidence.observations if isinstance(one, Distance)]


def check(evidence: Evidence, name: str = "again-near") -> dict[str, Any]:
    cells: Any = derive_body(evidence)["cells"]
    return next(one for cell in cells for one in cell["checks"] if one["id"] == name)


def test_equal_states_are_near_and_nothing_is_measured(tmp_path: Path) -> None:
    evidence = ran(tmp_path)

    assert (check(evidence)["outcome"], distances(evidence)) == ("pass", [])


def test_every_differing_part_is_measured_at_every_phase_and_none_is_located(tmp_path: Path) -> None:
    evidence = ran(tmp_path, "forget_recurrent")
    found = distances(evidence)

    assert check(evidence)["outcome"] == "pass"
    assert found[0].part == "layer0.recurrent"
    assert found[0].phase is Phase.RESTORED
    assert found[0].relative_ppb == 10**9  # a state of zeros is as far away as the state is large
    assert len({(one.phase, one.part) for one in found}) == len(found) > 2
    assert {one.check for one in evidence.observations if isinstance(one, Difference)} == {"flip-seen"}


def test_beyond_its_limit_a_part_fails(tmp_path: Path) -> None:
    evidence = ran(tmp_path, "forget_recurrent", recurrent={"relative_ppb": 999_999_999})

    assert check(evidence)["reason"] == "beyond_tolerance"


def test_without_room_for_reference_bytes_the_reference_is_run_again_and_measures_the_same(tmp_path: Path) -> None:
    roomy, tight = tmp_path / "roomy", tmp_path / "tight"
    none = HostOptions(limits=QUICK, spool=SpoolBudget(memory=0, disk=0))

    kept = ran(roomy, "forget_recurrent")
    again = ran(tight, "forget_recurrent", none)

    assert sorted(map(str, distances(kept))) == sorted(map(str, distances(again)))
    assert check(again)["outcome"] == "pass"


def test_logits_are_measured_where_no_part_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_LACKS", "parts,corrupt")
    check = copy.deepcopy(NEAR)
    check["near"] = {**check["near"], "fields": ["logits"], "limits": {"logits": FAR}}
    others = copy.deepcopy(FLIPPED)
    others["steps"] = [{"run": {"prompt": "B", "decode": 4, "as": "again"}}]
    others["requires"] = []
    procedure = toy_procedure(
        [COLD, WARM, others],
        [check, {"id": "other-seen", "seen": {"candidate": "flipped.again", "reference": "cold.a"}}],
        requires=("logits", "boundaries", "prefix_cache"),
    )
    procedure.update(observability="logits", families=[])

    with toy_host(tmp_path, toy_target(fault="forget_recurrent")) as host:
        evidence = run_toy(host, toy_plan(procedure), tmp_path)
    found = distances(evidence)

    assert [one.part for one in found] == ["logits"] * len(found)
    assert {one.phase for one in found} >= {Phase.PREFILLED, Phase.END}
    assert all(one.differing_elements and one.ulp for one in found)
