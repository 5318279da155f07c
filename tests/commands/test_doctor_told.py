"""What `doctor` says of memory, in a line where there is room, part by part where there is none."""

from __future__ import annotations

import pytest

from harness.commands import common
from harness.commands.doctor import in_brief

PARTS = ("memory", "weights", "workspace", "session", "snapshots", "prefixes", "longest")
PLAN: list[dict[str, str | int]] = [
    {"what": f"plan torch-tiny: {part}", "state": "pass", "detail": "all of it", "number": 2048} for part in PARTS
]
DEVICE: dict[str, str | int] = {"what": "device torch:cpu", "state": "pass", "detail": "can run"}


def test_a_plan_with_room_is_one_row_between_the_others() -> None:
    device, plan, other = in_brief([DEVICE, *PLAN, DEVICE])

    assert device == other == DEVICE
    assert plan["what"] == "plan torch-tiny"
    assert "2.00 KiB: weights 2.00 KiB" in str(plan["detail"])
    assert "2,048 whole prefixes fit, or one of up to 2,048 tokens" in str(plan["detail"])


def test_plans_of_two_models_are_two_rows() -> None:
    small = [{**row, "what": str(row["what"]).replace("tiny", "small")} for row in PLAN]

    assert [row["what"] for row in in_brief([*PLAN, *small])] == ["plan torch-tiny", "plan torch-small"]


def test_a_plan_that_lacks_room_is_told_part_by_part() -> None:
    tight = [*PLAN[:-2], {**PLAN[-2], "state": "not_run"}, PLAN[-1]]

    assert list(in_brief(tight)) == tight


def test_tables_are_as_wide_as_columns_says_where_nobody_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert common.width() == 80
    monkeypatch.setenv("COLUMNS", "wide")
    assert common.width() == 100
