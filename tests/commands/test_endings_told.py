"""What a run says at its end can be typed as it stands, and names what was left undone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.commands.common import typed
from harness.commands.run import broken_off


def test_an_interrupted_run_names_the_scenarios_that_did_not_begin() -> None:
    told = broken_off(["A02", "A03"])

    assert told.endswith("; did not begin, so nothing is written of them: A02, A03\n")
    assert "did not begin, so nothing" not in broken_off([])


def test_a_command_off_the_path_is_told_by_the_path_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/statecert", "run"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typed() == ".venv/bin/statecert"

    found = tmp_path / "statecert"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    assert typed() == "statecert"


def test_a_command_that_was_started_as_a_module_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "harness" / "__main__.py"), "run"])
    monkeypatch.setenv("PATH", str(tmp_path))

    assert typed() == "statecert"
