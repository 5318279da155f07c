"""Targets by name on the command line: the lab file, the engine, and which of them wins."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from harness.commands.common import chosen_target
from harness.errors import UsageError
from harness.wire.lab_doc import HEAD

LAB = HEAD + "targets:\n  mine:\n    adapter: torch\n    device: cpu\n    options: {preset: small, chunk: 64}\n"


def asked(lab: Path | None, *options: str, device: str | None = None, preset: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(lab=lab, device=device, preset=preset, option=list(options))


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(LAB)
    return path


def test_a_name_of_the_lab_is_its_target(lab: Path) -> None:
    found = chosen_target("mine", asked(lab))

    assert (found.name, found.adapter, found.device) == ("mine", "torch", "cpu")
    assert found.options == {"preset": "small", "chunk": 64}


def test_the_command_line_wins_over_the_lab(lab: Path) -> None:
    found = chosen_target("mine", asked(lab, "chunk=128", device="cuda", preset="tiny"))

    assert (found.device, found.options) == ("cuda", {"preset": "tiny", "chunk": 128})


def test_another_name_is_an_engine(lab: Path) -> None:
    found = chosen_target("torch", asked(lab))

    assert (found.name, found.adapter, found.device) == ("torch-best", "torch", "best")
    assert found.options == {"preset": "tiny"}


def test_a_lab_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no lab file"):
        chosen_target("torch", asked(tmp_path / "none.yaml"))


def test_no_lab_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert chosen_target("torch", asked(None)).adapter == "torch"


def test_a_target_may_not_bear_the_name_of_another_engine_than_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(HEAD + "targets:\n  torch:\n    adapter: stdio\n")

    with pytest.raises(UsageError, match="target 'torch' of the lab file runs 'stdio'; 'torch' is an engine"):
        chosen_target("torch", asked(path))


def test_a_target_may_bear_the_name_of_the_engine_that_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(HEAD + "targets:\n  torch:\n    adapter: torch\n    options: {preset: small}\n")

    assert chosen_target("torch", asked(path)).options == {"preset": "small"}
