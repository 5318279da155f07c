from __future__ import annotations

import json

import pytest

from harness.commands.common import show
from harness.reporting.tables import Column, Table, render_json, render_terminal

COLUMNS = (
    Column(key="id", header="Mutant"),
    Column(key="parts", header="Parts", justify="right"),
    Column(key="outcome", header="Outcome"),
)


def table(*rows: dict[str, str | int]) -> Table:
    return Table(title="Mutants", columns=COLUMNS, rows=rows)


def test_terminal_and_json_hold_the_same_values() -> None:
    made = table({"id": "K01.recurrent-kept", "parts": 12, "outcome": "stopped"})

    shown = render_terminal(made, colour=False, width=80)
    data = json.loads(render_json(made))

    assert data["rows"] == [{"id": "K01.recurrent-kept", "parts": 12, "outcome": "stopped"}]
    for value in data["rows"][0].values():
        assert str(value) in shown


def test_without_colour_there_is_no_escape_sequence() -> None:
    made = table({"id": "a", "parts": 1, "outcome": "fail"})

    assert "\x1b" not in render_terminal(made, colour=False, width=80)
    assert "\x1b[1;31mfail" in render_terminal(made, colour=True, width=80)


def test_a_missing_field_is_a_dash_for_people_and_absent_in_json() -> None:
    made = table({"id": "a", "outcome": "pass"})

    assert " - " in render_terminal(made, colour=False, width=80)
    assert "parts" not in json.loads(render_json(made))["rows"][0]


def test_lines_stay_within_the_width() -> None:
    made = table({"id": "K01." + "x" * 300, "parts": 1, "outcome": "pass"})

    assert max(map(len, render_terminal(made, colour=False, width=80).splitlines())) <= 80


def test_a_column_that_is_kept_whole_makes_the_table_wider() -> None:
    name = "A01[" + "x" * 120 + "]"

    shown = render_terminal(table({"id": name, "parts": 1, "outcome": "pass"}), colour=False, width=80, whole=("id",))

    assert name in shown


def test_nothing_is_lost_beside_a_column_that_is_kept_whole() -> None:
    title = "A restored prefill equals a cold one, whatever came before it"
    rows: list[dict[str, str | int]] = [
        {"id": "A01[scale=16,arch=attention,route=mtp]", "parts": 1586, "outcome": title}
    ]

    for columns in (COLUMNS, (*COLUMNS, Column(key="does", header="does"), Column(key="arms", header="arms"))):
        rows[0]["does"] = "excluded: the scenario asks this cell in suite full, at another scale (--suite full)"
        shown = render_terminal(Table(title="", columns=columns, rows=rows), colour=False, width=80, whole=("id",))

        for word in title.split():
            assert word in shown


def test_names_of_cells_and_mutants_are_whole_on_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    name = "K04.server-lost-in-restart-and-told-to-be-there"
    columns = (Column(key="mutant", header="mutant"), *COLUMNS)
    rows: list[dict[str, str | int]] = [{"mutant": name, "id": "x " * 60, "parts": 1, "outcome": "y " * 60}]

    show(Table(title="", columns=columns, rows=rows), as_json=False)

    assert name in capsys.readouterr().out


def test_a_hostile_value_changes_nothing_but_its_cell() -> None:
    made = table({"id": "\r::stop-commands::x\x1b[2J\u202e[red]##[error]", "parts": 1, "outcome": "pass"})

    shown = render_terminal(made, colour=False, width=100)
    printed = render_json(made).decode("ascii")

    assert "::" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]" in shown
    assert "##[" not in printed
    assert json.loads(printed)["rows"][0]["id"].endswith("##[error]")
