"""What the package says about itself is so: entry points, ranges, data files, commands."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import cli, commands
from harness.commands.parser import Parser
from harness.wire import resources

ROOT = Path(__file__).resolve().parents[2]
SHARED = {"meant", "campaigns", "common", "ledger_common", "parser", "texts"}
"""Modules beside the commands that are none."""


@cache
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


ACTIONS = [
    (name, action)
    for name, actions in {
        "trust": ("add", "list", "remove", "revoke"),
        "new": ("scenario", "adapter", "driver"),
    }.items()
    for action in actions
]


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def declared_entry_points() -> list[tuple[str, str, str]]:
    found = [("console_scripts", name, value) for name, value in project()["scripts"].items()]
    for group, entries in project()["entry-points"].items():
        found += [(group, name, value) for name, value in entries.items()]
    return found


def test_the_groups_and_the_command_are_there() -> None:
    groups = {group for group, _, _ in declared_entry_points()}

    assert groups == {"console_scripts", "pytest11", "harness.engines", "harness.mutants", "harness.page_mutants"}
    assert project()["scripts"] == {"statecert": "harness.cli:script"}
    assert project()["entry-points"]["pytest11"] == {"statecert": "harness.pytest_plugin"}


@pytest.mark.parametrize(("group", "name", "value"), declared_entry_points())
def test_every_entry_point_leads_to_something(group: str, name: str, value: str) -> None:
    assert metadata.EntryPoint(name=name, value=value, group=group).load() is not None


def test_pythons_and_torches_in_range_are_those_that_are_promised() -> None:
    assert project()["requires-python"] == ">=3.11,<3.14"
    named = {word.rpartition(" ")[2] for word in project()["classifiers"] if "Python :: 3." in word}
    assert named == {"3.11", "3.12", "3.13"}
    assert "torch>=2.6,<2.15" in project()["dependencies"]


def test_the_pinned_torch_is_in_range_and_nothing_asks_for_a_looser_one() -> None:
    assert pinned()["torch"] == "2.13.0"


def test_every_dependency_is_pinned_at_or_above_its_floor() -> None:
    wanted = [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]
    for text in wanted:
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:>=([0-9.]+))?(?:,<[0-9.]+)?", text)
        assert match is not None, text
        name, floor = match[1].lower().replace("_", "-"), match[2] or "0"
        assert name in pinned(), f"{name} is not pinned"
        assert numbers(pinned()[name]) >= numbers(floor), f"{name} is pinned below {floor}"


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def test_the_version_is_one() -> None:
    assert harness.__version__ == project()["version"]


@pytest.mark.parametrize("kind", ["schemas", "scenarios"])
def test_the_loader_finds_every_data_file(kind: resources.Kind) -> None:
    there = {
        path.relative_to(ROOT / kind).as_posix(): path.read_bytes()
        for path in (ROOT / kind).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert there
    assert set(resources.resource_names(kind)) == set(there), "a file that the loader does not see travels in no wheel"
    for name, data in there.items():
        assert resources.resource_text(kind, name) == data


def command_modules() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(commands.__path__)} - SHARED


def test_commands_and_their_modules_are_one_to_one() -> None:
    assert command_modules() == {cli.MODULES.get(name, name) for name in cli.COMMANDS}


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_a_command_has_what_the_command_line_needs(name: str) -> None:
    module = importlib.import_module(f"harness.commands.{cli.MODULES.get(name, name)}")

    assert callable(module.configure)
    assert callable(module.run)
    assert module.__doc__
    assert module.EXAMPLE.startswith(f"example: statecert {name}")


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_help_shows_an_example_and_the_exit_codes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([name, "--help"])

    said = capsys.readouterr().out
    assert left.value.code == 0
    assert f"example: statecert {name}" in said
    assert "exit codes: 0 good" in said
    assert f"usage: statecert {name}" in said


@pytest.mark.parametrize(("name", "action"), ACTIONS)
def test_help_of_an_action_shows_its_own_example(name: str, action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([name, action, "--help"])

    said = capsys.readouterr().out
    assert left.value.code == 0
    assert f"example: statecert {name} {action} " in said.replace("\n", " ")


def test_the_overview_names_every_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "--help"], capture_output=True, text=True, timeout=600, check=True
    )

    for name, text in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", done.stdout, re.MULTILINE), name


def test_the_examples_parse() -> None:
    for name in cli.COMMANDS:
        module = importlib.import_module(f"harness.commands.{cli.MODULES.get(name, name)}")
        for line in module.EXAMPLE.splitlines():
            words = shlex.split(line.removeprefix("example: ").partition(" > ")[0], comments=True)
            if words[:2] != ["statecert", name]:
                continue
            parser = Parser(prog=f"statecert {name}")
            module.configure(parser)
            parser.parse_args(words[2:])
