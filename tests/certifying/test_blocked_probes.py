"""A probe that could not start, or that the reference fails too, is in the certificate, and claims nothing."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.gating.gate import gate
from harness.model.evidence import Point
from harness.model.values import Outcome
from tests.fakes.evidence import Recorded, recorded


def asked(ids: list[int]) -> Recorded:
    found = recorded()
    procedure: dict[str, Any] = copy.deepcopy(dict(found.header.procedure))
    probe = {"id": "told", "answers": {"candidate": "warm.again", "reference": "cold.a", "ids": ids}}
    procedure["checks"] = [*procedure["checks"], probe]
    return found.with_procedure(procedure)


def answered() -> list[int]:
    points = [one for one in recorded().observations if isinstance(one, Point) and one.arm == "cold" and one.tokens]
    return list(points[0].tokens[:2])


def test_a_crash_before_the_answer_is_certified_as_an_error_with_a_blocked_probe(tmp_path: Path) -> None:
    found = asked(answered()).with_crash("warm", "again")

    issue(found.data(), tmp_path)

    assert (found.result("told").outcome, found.result("told").reason) == (Outcome.NOT_RUN, "blocked")
    assert found.cell().outcome is Outcome.ERROR
    assert gate([tmp_path]).exit_code == 0


def test_a_baseline_that_fails_is_certified_as_inconclusive(tmp_path: Path) -> None:
    found = asked([499, 499, 499])

    issue(found.data(), tmp_path)

    assert (found.cell().outcome, found.cell().reason) == (Outcome.INCONCLUSIVE, "baseline_failed")
    assert gate([tmp_path]).exit_code == 0
    assert gate([tmp_path], require_pass=True).exit_code == 1


def test_an_answer_that_both_give_passes_with_the_rest(tmp_path: Path) -> None:
    found = asked(answered())

    issue(found.data(), tmp_path)

    assert found.cell().outcome is Outcome.PASS
    assert gate([tmp_path], require_pass=True).exit_code == 0
