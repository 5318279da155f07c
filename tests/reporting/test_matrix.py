from __future__ import annotations

from harness.reporting.matrix import CellState, matrix
from harness.reporting.view import Tally


def cell(state: str, **coords: str) -> CellState:
    inner = ",".join(f"{axis}={label}" for axis, label in coords.items())
    return CellState(id=f"A16[{inner}]", coords=coords, state=state, reason="")


def test_the_longest_axis_runs_across_and_no_place_is_blank() -> None:
    cells = [cell("pass", scale="16", arch=arch, at=at) for arch in ("hybrid", "attention") for at in ("-1", "0", "+1")]

    made = matrix([*cells[:4], cell("fail", scale="16", arch="attention", at="0")])

    assert (made.down, made.across, made.columns) == ("scale, arch", "at", ["-1", "0", "+1"])
    assert [[place.state for place in row.cells] for row in made.rows] == [
        ["pass", "pass", "pass"],
        ["pass", "fail", "absent"],
    ]
    assert made.totals == ["2/2", "1/2", "1/2"]
    assert [row.total for row in made.rows] == ["3/3", "1/3"]
    assert made.total == "4/5"


def test_the_worst_state_is_tallied_first_and_an_unknown_one_is_kept() -> None:
    made = matrix([cell("pass", scale="1"), cell("odd", scale="2"), cell("fail", scale="4"), cell("pass", scale="8")])

    assert made.tallies == [
        Tally(state="fail", count=1),
        Tally(state="pass", count=2),
        Tally(state="odd", count=1),
    ]


def test_a_scenario_without_axes_has_one_row() -> None:
    made = matrix([cell("pass", scale="16")])

    assert (made.across, made.columns, [row.label for row in made.rows]) == ("", ["outcome"], ["16"])


def test_two_cells_at_one_place_do_not_hide_each_other() -> None:
    made = matrix([cell("fail", scale="16"), cell("pass", scale="16")])

    assert made.total == "1/2"
    assert [[place.state for place in row.cells] for row in made.rows] == [["fail"]]
