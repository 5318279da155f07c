"""What commands share: options, printing, and the scenarios that a caller names."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import NothingToDoError, UsageError

if TYPE_CHECKING:
    from harness.model.scenario import Scenario
    from harness.reporting.tables import Table


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``: every table of the command as JSON on standard output."""
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def add_scenarios(parser: argparse.ArgumentParser) -> None:
    """Scenario names, the suite and the scale."""
    parser.add_argument(
        "scenario", nargs="*", help="ids like A01, cells like 'A01[scale=16,arch=hybrid]', or YAML files"
    )
    parser.add_argument("--suite", default="default", help="default, full or hw: which scales (default: %(default)s)")
    parser.add_argument("--scale", type=int, help="run at this scale instead of the suite's")
    parser.add_argument("--scenarios", type=Path, metavar="DIR", help="take scenarios from this folder")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Engine, preset and device."""
    parser.add_argument("--target", default="torch", help="engine (default: %(default)s)")
    parser.add_argument("--preset", default="tiny", help="model preset of the engine (default: %(default)s)")
    parser.add_argument("--device", default="best", help="best, cpu, cuda, cuda:1, mps (default: %(default)s)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="engine option; may be repeated"
    )


def show(table: Table, *, as_json: bool) -> None:
    """Print a table to standard output."""
    from harness.reporting.tables import render_json, render_terminal

    if as_json:
        sys.stdout.buffer.write(render_json(table))
        return
    sys.stdout.write(render_terminal(table, colour=use_colour(), width=width()))


def use_colour() -> bool:
    """Whether standard output is a terminal that wants colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def parse_options(words: Sequence[str]) -> dict[str, str | int | bool]:
    """``KEY=VALUE`` words as engine options: integers and true/false are read as such."""
    options: dict[str, str | int | bool] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--option wants KEY=VALUE, found {word!r}")
        options[key] = read_value(value)
    return options


def read_value(text: str) -> str | int | bool:
    """An option's value: integer, true, false, or text."""
    if text in {"true", "false"}:
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def chosen_scenarios(names: Sequence[str], folder: Path | None) -> list[tuple[Scenario, list[str]]]:
    """Scenarios that the names ask for, each with the ids of the cells that were named (empty: all)."""
    from harness.pipeline import available_scenarios, read_scenario

    paths = [name for name in names if name.endswith((".yaml", ".yml"))]
    known = available_scenarios(folder) if len(paths) < len(names) or not names else {}
    chosen: dict[str, tuple[Scenario, list[str]]] = {}
    for path in paths:
        scenario = read_scenario(Path(path))
        chosen[scenario.id] = (scenario, [])
    for name in names or known:
        if name in paths:
            continue
        identity, bracket, _ = name.partition("[")
        if identity not in known:
            raise UsageError(f"there is no scenario {identity!r}; there are: {', '.join(known) or 'none'}")
        entry = chosen.setdefault(identity, (known[identity], []))
        if bracket:
            entry[1].append(name)
    if not chosen:
        raise NothingToDoError(f"no scenario in {folder or 'the package'}")
    return list(chosen.values())
