"""The pytest plugin in a repository that is not ours: cells as items, drafts of subsets, exit codes, xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.command_support import FAKES, TOY_SCENARIO, outside

TOY = ("--statecert-target", "toy", "--statecert-preset", "toy")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A repository with a scenario of its own and a test of its own."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "A90-toy.yaml").write_text(TOY_SCENARIO)
    (tmp_path / "scenarios" / "notes.yaml").write_text("just: notes\n")
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert True\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(outside()), str(FAKES)])
    command = [sys.executable, "-m", "pytest", "-p", "no:statecert", "-p", "harness.pytest_plugin", *words]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_cells_are_items_with_the_cell_s_id_and_other_yaml_is_left_alone(foreign: Path) -> None:
    done = run(foreign, "--collect-only", "-q", *TOY)

    assert "scenarios/A90-toy.yaml::A90[scale=1,part=kv]" in done.stdout
    assert "scenarios/A90-toy.yaml::A90[scale=1,part=recurrent]" in done.stdout
    assert "notes" not in done.stdout


def test_a_whole_scenario_becomes_a_certificate(foreign: Path) -> None:
    done = run(foreign, "-q", *TOY)

    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert len(list(foreign.glob("runs/*/certificates/A90/*/*/*.json"))) == 1
    assert "A90: certificate" in done.stdout


def test_a_subset_is_a_partial_run_and_makes_a_draft_only(foreign: Path) -> None:
    done = run(foreign, "-q", "-k", "kv", *TOY)

    assert done.returncode == 0, done.stdout
    assert not list(foreign.glob("runs/*/certificates"))
    assert len(list(foreign.glob("runs/*/drafts/*.json"))) == 1
    assert "draft (partial)" in done.stdout


def test_missing_hardware_is_skipped_with_its_reason_and_no_cell_that_ran_is_exit_5(foreign: Path) -> None:
    done = run(foreign, "-ra", "-m", "hw", "--statecert-suite", "default", *TOY)

    assert done.returncode == 5
    assert "no moon is up" in done.stdout
    evidence = next(foreign.glob("runs/*/evidence/*.jsonl")).read_text()
    assert '"event":"not_run"' in evidence


def test_a_named_device_counts_as_hardware(foreign: Path) -> None:
    done = run(foreign, "-q", "-m", "hw", "--statecert-suite", "default", "--statecert-device", "cpu", *TOY)

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_scenario_that_does_not_fit_its_schema_is_one_error_with_its_place(foreign: Path) -> None:
    (foreign / "scenarios" / "A90-toy.yaml").write_text(TOY_SCENARIO.replace("role: control", "role: controll"))

    done = run(foreign, "-q", *TOY)

    assert done.returncode == 2
    assert "controll" in done.stdout
    assert "Traceback" not in done.stdout


def test_xdist_keeps_a_scenario_on_one_worker(foreign: Path) -> None:
    done = run(foreign, "-q", "-n", "2", *TOY)

    assert done.returncode == 0, done.stdout
    assert len(list(foreign.glob("runs/*/certificates/A90/*/*/*.json"))) == 1
    assert "A90: certificate" in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_child_that_ends_badly_when_all_is_done_fails_the_session(foreign: Path, workers: tuple[str, ...]) -> None:
    (foreign / "scenarios" / "A90-toy.yaml").write_text(
        TOY_SCENARIO.replace("engine: {}", "engine: {misbehave: fail_at_the_end, during: close}")
    )

    done = run(foreign, "-q", *workers, *TOY)

    assert done.returncode == 1, done.stdout
    assert "A90: the child was lost after the last cell" in done.stdout
    assert '"detail":"exit_9"' in next(foreign.glob("runs/*/evidence/*.jsonl")).read_text()


def test_an_interrupted_session_leaves_a_draft(foreign: Path) -> None:
    (foreign / "scenarios" / "A91-bad.yaml").write_text(
        TOY_SCENARIO.replace("A90", "A91").replace("witness: copied", "witness: none")
    )

    done = run(foreign, "-q", "-x", *TOY)

    assert done.returncode == 1
    assert "A91: draft (interrupted)" in done.stdout


def test_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import harness.pytest_plugin, sys; print(sorted({'torch','numpy','pandas','rich','yaml'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
