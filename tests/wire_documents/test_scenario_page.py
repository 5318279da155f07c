"""docs/formats/scenario.md is the whole vocabulary, and its example is a scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.deriving.checks import answers
from harness.deriving.product import expand
from harness.model.scenario import CheckKind, StepKind
from harness.wire.scenario_doc import parse_scenario

PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "scenario.md").read_text("utf-8")


def test_the_example_is_a_scenario_that_can_be_planned() -> None:
    text = PAGE.split("```yaml\n", 1)[1].split("```", 1)[0]

    plan = expand(parse_scenario(text.encode(), "page"), [16, 1])

    assert {cell.coords["arch"] for cell in plan.cells} == {"hybrid", "attention"}
    assert [cell.id for cell in plan.cells if cell.excluded] == ["A02[scale=1,arch=attention]"]


@pytest.mark.parametrize("kind", [*StepKind, *CheckKind])
def test_every_step_and_check_has_its_row(kind: StepKind | CheckKind) -> None:
    assert f"`{kind}" in PAGE


@pytest.mark.parametrize("kind", list(CheckKind))
def test_every_code_on_the_page_is_the_check_s_own(kind: CheckKind) -> None:
    code = answers.CODES[kind].partition("@")[0]

    assert re.search(rf"`{re.escape(code)}`", PAGE), code
