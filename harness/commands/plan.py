"""Show the cells that a run would have: every combination of the axes, with arms, checks and exclusions."""

from __future__ import annotations

import argparse

from harness.commands.common import add_json, add_scenarios, chosen_plans, reason_words, show
from harness.errors import ExitCode, NothingToDoError
from harness.reporting.tables import Column, Table
from harness.reporting.units import counted

EXAMPLE = "example: statecert plan A01 B02 --suite full"


def configure(parser: argparse.ArgumentParser) -> None:
    """Scenario names, suite, scale, ``--json``."""
    add_scenarios(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Expand the scenarios and print one row per cell."""
    plans = chosen_plans(args)
    suites = " and ".join(dict.fromkeys(plan.suite for plan in plans))
    rows: list[dict[str, str | int]] = [
        {
            "cell": cell.id,
            "does": f"excluded: {reason_words(cell.excluded)}" if cell.excluded else "runs",
            "arms": len(cell.arms),
            "checks": len(cell.checks),
            "tokens": max((prompt.length for prompt in cell.prompts.values()), default=0),
            "title": plan.scenario.title,
        }
        for plan in plans
        for cell in plan.cells
        if cell.id in plan.selected
    ]
    if not rows:
        raise NothingToDoError(f"no cell in suite {suites!r}")
    columns = (
        Column(key="cell", header="cell"),
        Column(key="does", header="does"),
        Column(key="arms", header="arms", justify="right"),
        Column(key="checks", header="checks", justify="right"),
        Column(key="tokens", header="longest prompt", justify="right"),
        Column(key="title", header="what it shows"),
    )
    show(Table(title=f"{counted(len(rows), 'cell')}, suite {suites}", columns=columns, rows=rows), as_json=args.json)
    return ExitCode.GOOD
