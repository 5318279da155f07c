"""A reason is a sentence that tells what is the matter; a code in capitals is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.deriving.checks.answers import refusal_outcome
from harness.model.evidence import StepRecord
from harness.model.scenario import Arm
from harness.model.values import ArmRole, CellId, CrashKind, RefusalCode
from harness.pipeline import available_scenarios
from harness.reporting.reasons import left_out_sentence, reason_sentence

CERTIFICATES = Path(__file__).parents[2] / "certificates"


def poor(code: str) -> bool:
    """Tell whether a code is shown as nothing but its own words."""
    own = code.replace("_", " ").capitalize() + "."
    return own in (reason_sentence(code), left_out_sentence(code)) or len(left_out_sentence(code).split()) < 5


def reasons(value: object) -> Iterator[str]:
    """Yield every reason of a check or cell of a body."""
    for cell in value["cells"] if isinstance(value, dict) else ():
        yield cell.get("reason", "")
        yield from (check.get("reason", "") for check in cell["checks"])


def committed() -> set[str]:
    bodies = (json.loads(path.read_bytes())["body"] for path in sorted(CERTIFICATES.glob("*/*/*/*.json")))
    return {code for body in bodies if body["kind"] == "qualification" for code in reasons(body)} - {""}


def test_every_reason_of_a_committed_certificate_is_a_sentence() -> None:
    found = committed()

    assert len(found) > 15
    assert [code for code in sorted(found) if len(left_out_sentence(code).split()) < 5] == []
    assert [code for code in sorted(found) if left_out_sentence(code) == reason_sentence(code) and poor(code)] == []


@pytest.mark.parametrize("role", ArmRole)
@pytest.mark.parametrize("kind", ["run", "evict"])
def test_every_way_in_which_a_refusal_ends_a_cell_is_a_sentence(role: ArmRole, kind: str) -> None:
    arm = Arm(id="one", role=role, steps=())
    for code in RefusalCode:
        refusal = StepRecord(cell=CellId("T01"), arm="one", rep=0, label="a", kind=kind, ended="refused", code=code)
        assert not poor(refusal_outcome(arm, refusal)[1]), code


@pytest.mark.parametrize("kind", CrashKind)
def test_every_kind_of_crash_is_a_sentence(kind: CrashKind) -> None:
    assert not poor(kind)


def test_every_reason_for_which_a_scenario_leaves_a_cell_out_is_a_sentence() -> None:
    codes = {
        str(one["reason"])
        for scenario in available_scenarios().values()
        for one in scenario.procedure.get("exclude", ())  # type: ignore[attr-defined]
    }

    assert codes
    assert [code for code in sorted(codes) if poor(code)] == []


def test_unsupported_tells_who_refused_and_what_to_do() -> None:
    said = reason_sentence("unsupported")

    assert said.startswith("The engine refused")
    assert "adapter" in said
