from __future__ import annotations

from harness.reporting.counts import count_sections
from harness.reporting.problems import problems
from tests.reporting.bodies import PASSED, body, cell, exact


def cached(outcome: str, observed: int, **more: object) -> dict[str, object]:
    return {
        "id": "reused", "code": "COUNT.CACHED@1", "axis": "exactness", "outcome": outcome, "observed": observed,
        "limit": 1024, "unit": "tokens", "detail": {}, **more,
    }  # fmt: skip


REFUSED: dict[str, object] = {
    "id": "no-state", "code": "REFUSE.CODE@1", "axis": "robustness", "outcome": "pass", "observed": "state",
    "limit": "state", "unit": "", "detail": {},
}  # fmt: skip


def test_counts_and_refusals_have_a_row_each_over_all_cells() -> None:
    made = body(
        cell("end-1", "pass", [exact(), cached("pass", 1024), REFUSED]),
        cell("end", "fail", [cached("fail", 512, reason="other_count"), REFUSED]),
    )

    (section,) = count_sections(made)

    assert section.title == "Counts and refusals"
    assert list(section.sheet.rows) == [
        ("reused", "COUNT.CACHED@1", "1/2", "1,024, 512", "1,024", "tokens"),
        ("no-state", "REFUSE.CODE@1", "2/2", "state", "state", "-"),
    ]


def test_a_scenario_that_counts_nothing_has_no_such_part() -> None:
    assert count_sections(PASSED) == []


def test_cells_that_were_not_looked_at_are_named() -> None:
    made = body(cell("end", "pass", [exact()]), cell("far", "not_supported"), cell("near", "excluded"))

    found, note = problems(made)

    assert found == []
    assert "nothing was left out" not in note
    assert "not supported: A16[scale=16,at=far]" in note
    assert "excluded by a rule of the scenario: A16[scale=16,at=near]" in note


def test_a_refused_step_is_not_blamed_on_the_restore() -> None:
    detail = {"phase": "restored", "arm": "warm", "label": "a", "refusal": "capacity"}
    made = body(cell("end", "fail", [exact("fail", reason="refused", detail=detail)]), overall="stop")

    found, _ = problems(made)

    assert "refused as capacity" in found[0].place
    assert "restore itself is wrong" not in found[0].place
