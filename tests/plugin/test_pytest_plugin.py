"""The pytest plugin in a repository that is not ours: cells as items, drafts of subsets, exit codes, xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.config import default_plugins

from tests.commands.command_support import FAKES, TOY_SCENARIO, USUAL, outside
from tests.fakes import warm

IMPORTS = ("pytest", *(f"_pytest.{name}" for name in default_plugins), *USUAL)
"""What pytest and the plugin import; not the plugin itself, whose assertions pytest writes anew when it imports it."""
LEFT_OUT = ("statecert", "anyio", "hypothesispytest")
"""Plugins by entry point that these runs do without: ours, which is named as a module instead, and two that import much."""
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
    others = [word for name in LEFT_OUT for word in ("-p", f"no:{name}")]
    command = (*others, "-p", "harness.pytest_plugin", *words)
    environment = {**os.environ, "PYTHONPATH": path}
    return warm.ran("pytest", *command, cwd=folder, environment=environment, imports=IMPORTS, engine="toy")


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
    assert "nothing ran, so only evidence was written (1 file): A90" in done.stdout
    assert not list(foreign.glob("runs/*/drafts"))
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


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
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


RERUNS = """
from _pytest.runner import runtestprotocol


def pytest_runtest_protocol(item, nextitem):
    for _ in range(3):  # as a plugin that runs a test again until it passes
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if all(report.passed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_cells_of_which_none_ran_are_exit_5_whatever_else_passed(foreign: Path, workers: tuple[str, ...]) -> None:
    done = run(foreign, "-q", *workers, "--statecert-device", "moon", *TOY)

    assert "1 passed" in done.stdout
    assert "skipped" in done.stdout
    assert done.returncode == 5, done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_suite_that_no_scenario_has_is_exit_5_whatever_else_passed(foreign: Path, workers: tuple[str, ...]) -> None:
    done = run(foreign, "-q", *workers, "--statecert-suite", "defualt", *TOY)

    assert "1 passed" in done.stdout
    assert done.returncode == 5, done.stdout


def test_cells_that_were_deselected_are_not_asked_for(foreign: Path) -> None:
    done = run(foreign, "-q", "-k", "own", "--statecert-suite", "default", *TOY)

    assert "1 passed" in done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("words", ["not hw", "not  hw", "not (hw)", "not(hw)"])
def test_no_spelling_of_not_hw_leaves_the_cells_of_this_machine_out(foreign: Path, words: str) -> None:
    done = run(foreign, "-q", "-m", words, *TOY)

    assert "3 passed" in done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "spelling",
    ['schema: "statecert/scenario/v1"', "schema:   statecert/scenario/v1", "'schema': statecert/scenario/v1"],
)
@pytest.mark.parametrize("licence", ["", "# a line of a licence\n" * 100])
def test_a_scenario_is_collected_in_any_spelling_that_its_reader_takes(
    foreign: Path, spelling: str, licence: str
) -> None:
    text = TOY_SCENARIO.replace("schema: statecert/scenario/v1", spelling)
    assert text != TOY_SCENARIO or not licence
    (foreign / "scenarios" / "A90-toy.yaml").write_text(licence + text)

    done = run(foreign, "--collect-only", "-q", *TOY)

    assert "scenarios/A90-toy.yaml::A90[scale=1,part=kv]" in done.stdout


def test_a_cell_that_failed_stays_failed_however_often_it_is_run(foreign: Path) -> None:
    (foreign / "scenarios" / "A90-toy.yaml").write_text(TOY_SCENARIO.replace("witness: copied", "witness: none"))
    (foreign / "conftest.py").write_text(RERUNS)

    done = run(foreign, "-q", *TOY)

    assert done.returncode == 1, done.stdout
    assert done.stdout.count("restore_not_witnessed") >= 2
    assert "INTERNALERROR" not in done.stdout
    assert len(list(foreign.glob("runs/*/evidence/A90*.jsonl"))) == 1


def test_two_scenarios_of_one_id_do_not_answer_for_each_other(foreign: Path) -> None:
    (foreign / "scenarios" / "A90-again.yaml").write_text(TOY_SCENARIO.replace("witness: copied", "witness: none"))

    done = run(foreign, "-q", *TOY)

    assert done.returncode == 1, done.stdout
    assert "two scenarios are called A90" in done.stdout
