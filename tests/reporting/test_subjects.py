"""The grid of scenarios by subjects says what the rows say, and shows nothing as good that is not current."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.reporting import claimable, html, markdown, terminal
from harness.reporting.subjects import grid_of
from harness.reporting.view import Overview, OverviewRow
from tests.reporting.samples import sample_overview

ROW = sample_overview().rows[0]


def row(claim_key: str, overall: str = "pass", state: str = "current") -> OverviewRow:
    return replace(ROW, claim_key=claim_key, overall=overall, state=state, title=claim_key.split("/", maxsplit=1)[0])


def overview(*rows: OverviewRow) -> Overview:
    return replace(sample_overview(), rows=rows, grid=grid_of(rows))


def test_scenarios_go_down_campaigns_last_and_subjects_across_those_with_most_first() -> None:
    grid = grid_of([row("kv/b/cpu"), row("B01/b/cpu", "stop"), row("A01/b/cpu"), row("A01/a/cpu", "error")])

    assert grid.subjects == ["b", "a"]
    assert [one.name for one in grid.rows] == ["A01", "B01", "kv"]
    assert [[square and square.state for square in one.squares] for one in grid.rows] == [
        ["pass", "error"],
        ["stop", None],
        ["pass", None],
    ]
    assert grid.note == "On cpu. ! error, ✓ pass, ✗ stop; empty: no certificate."


def test_a_record_whose_every_cell_that_could_run_passed_is_told_from_one_that_settles_nothing() -> None:
    part = replace(row("A01/a/cpu", "inconclusive"), ran_passed=True)
    grid = grid_of([part, row("A02/a/cpu", "inconclusive"), replace(part, claim_key="A03/a/cpu", state="withdrawn")])

    assert [one.squares[0].state for one in grid.rows if one.squares[0]] == ["ran_passed", "inconclusive", "withdrawn"]
    assert "◐ inconclusive (what ran passed, the rest is not supported)" in grid.note
    page = html.render_index(replace(sample_overview(), rows=[part], grid=grid)).decode()
    assert '<td class="warn"><a' in page


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        (("pass", "not_supported"), True),
        (("pass", "not_supported", "excluded"), True),
        (("not_supported",), False),
        (("pass", "not_supported", "not_run"), False),
        (("pass", "not_supported", "fail"), False),
        (("pass", "inconclusive"), False),
    ],
)
def test_only_cells_that_are_not_supported_may_be_missing_beside_passes(outcomes: tuple[str, ...], told: bool) -> None:
    made = {"decision": {"overall": "inconclusive"}, "cells": [{"outcome": one} for one in outcomes]}

    assert claimable.ran_passed(made) is told
    assert not claimable.ran_passed({**made, "decision": {"overall": "pass"}})
    assert not claimable.ran_passed({**made, "decision": {"overall": "inconclusive", "reasons": ["no_controls"]}})


def test_two_classes_of_hardware_are_two_subjects() -> None:
    note = grid_of([row("A01/a/cpu"), row("A01/a/gpu")]).note
    assert note == "On cpu, where no other class of hardware is named. ✓ pass; empty: no certificate."
    assert grid_of([row("A01/a/cpu"), row("A01/a/gpu", "stop")]).subjects == ["a", "a gpu"]


def test_what_is_not_current_is_not_shown_by_its_decision() -> None:
    grid = grid_of([row("A01/a/cpu", "pass", "withdrawn")])

    assert grid.rows[0].squares[0] is not None
    assert grid.rows[0].squares[0].state == "withdrawn"
    assert "pass" not in grid.note


def test_every_square_leads_to_its_page_in_both_renderings() -> None:
    shown = overview(row("A01/a/cpu"), row("A02/b/cpu", "stop"))

    assert "| [✓](A01/a/cpu.md) |" in markdown.render_overview(shown).decode()
    page = html.render_index(shown).decode()
    assert f'<a href="{html.page_name(ROW.id)}" title="A02 b: stop">✗</a>' in page


def test_a_key_that_is_none_leads_nowhere_and_stays_text() -> None:
    text = markdown.render_overview(overview(row("](x) <b>/a"))).decode()

    assert "[✓](" not in text
    assert "<b>" not in text


def test_a_terminal_shows_what_passes_by_its_square_and_all_else_in_full() -> None:
    shown = overview(row("A01/a/cpu"), row("A02/b/cpu", "stop"), row("A03/b/cpu", "pass", "withdrawn"))
    lines = terminal.render_overview(shown, colour=False).splitlines()

    assert next(line for line in lines if line.startswith(" A01")).split() == ["A01", "✓"]
    assert not any("A01/a/cpu" in line for line in lines)
    assert any(line.startswith("✗ stop A02/b/cpu") for line in lines)
    assert any("WITHDRAWN" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_terminal_lists_what_passes_on_a_single_subject() -> None:
    lines = terminal.render_overview(overview(row("A01/a/cpu")), colour=False).splitlines()

    assert any(line.split()[:2] == ["✓", "A01"] for line in lines)


def test_no_certificate_makes_no_grid() -> None:
    assert 'table class="grid"' not in html.render_index(overview()).decode()
