"""Each target of the Makefile stands once, is no file, and runs a command that there is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from harness.cli import COMMANDS

TEXT = (Path(__file__).resolve().parents[2] / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z-]+):", TEXT, flags=re.MULTILINE)


def test_each_target_stands_once() -> None:
    assert [name for name, count in Counter(TARGETS).items() if count > 1] == []


def test_each_target_that_is_told_is_declared_to_be_no_file() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", TEXT, flags=re.MULTILINE)
    told = set(re.findall(r"^([a-z-]+):.*## ", TEXT, flags=re.MULTILINE))

    assert told - set(phony.split()) == set()


def test_each_command_that_a_target_runs_exists() -> None:
    assert set(re.findall(r"/statecert ([a-z]+)", TEXT)) <= set(COMMANDS)
