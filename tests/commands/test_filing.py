"""A run that cannot file something shows what it has measured all the same, and runs the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.pipeline import utc_now
from tests.commands.command_support import FAKES, TOY_SCENARIO, certificates_of, outside, statecert
from tests.fakes.processes import SECONDS

BEGAN_EARLIER = """\
import sys, harness.pipeline
began = sys.argv.pop(1)
harness.pipeline.utc_now = lambda: began
from harness.cli import main
raise SystemExit(main())
"""
"""A run that began before one that was certified while it ran."""
NOT_WRITABLE = """\
import os
usual = os.access
os.access = lambda path, mode: os.path.basename(path) != "c" and usual(path, mode)
from harness.cli import main
raise SystemExit(main())
"""
OTHER_FILES = """\
import harness.running.source
harness.running.source.changed_since = lambda *_: True
from harness.cli import main
raise SystemExit(main())
"""
"""A run while which a file of the harness is written to."""
CLOCK_SET_BACK = """\
from harness.running.clock import RealClock
RealClock.utc = lambda _: "2020-01-01T00:00:00Z"
from harness.cli import main
raise SystemExit(main())
"""
KILLED_WHILE_IT_FILES = """\
import os, harness.certifying.issue
harness.certifying.issue.write_event = lambda *_: os._exit(9)
from harness.cli import main
raise SystemExit(main())
"""
"""A run that is killed when its certificate is there and the event is not by which it supersedes its predecessor."""
RUN = ("run", "A90.yaml", "A91.yaml", "--target", "toy", "--preset", "toy", "--quiet", "--certify", "c")


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with two scenarios."""
    for name in ("A90", "A91"):
        (tmp_path / f"{name}.yaml").write_text(TOY_SCENARIO.replace("id: A90", f"id: {name}"))
    return tmp_path


def run_by(script: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(outside()), str(FAKES)])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def drafts(folder: Path) -> dict[str, str]:
    """Why each scenario is a draft."""
    found = [json.loads(path.read_text()) for path in folder.glob("runs/*/drafts/*.json")]
    return {one["draft"]["scenario"]["id"]: one["why"] for one in found}


def certified(folder: Path) -> set[str]:
    return {path.relative_to(folder / "c").parts[0] for path in (folder / "c").glob("A9*/*/*/*.json")}


def test_a_run_in_whose_place_a_later_one_was_certified_is_a_draft_and_a_finding_and_the_rest_is_certified(
    two: Path,
) -> None:
    began = utc_now()
    other = [word for word in RUN if word != "A91.yaml"]
    assert statecert(*other, "--out", "other", cwd=two).returncode == 0

    done = run_by(BEGAN_EARLIER, two, began, *RUN, "--gate")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "statecert:" not in done.stderr
    assert "draft: not_newer_than_the_current" in done.stdout
    assert "run folder" in done.stdout
    assert drafts(two) == {"A90": "not_newer_than_the_current"}
    assert len(list(two.glob("runs/*/evidence/*.jsonl"))) == 2
    assert certified(two) == {"A90", "A91"}
    assert statecert("gate", "c", "--require-pass", cwd=two).returncode == 0


@pytest.mark.parametrize(("script", "why"), [(OTHER_FILES, "files_changed"), (CLOCK_SET_BACK, "clock_was_set")])
@pytest.mark.parametrize("words", [RUN, RUN[:-2]], ids=["certify", "plain"])
def test_a_run_whose_files_or_clock_were_changed_while_it_ran_is_a_draft_and_a_finding(
    two: Path, script: str, why: str, words: tuple[str, ...]
) -> None:
    done = run_by(script, two, *words)

    assert done.returncode == 1, done.stdout + done.stderr
    assert f"draft: {why}" in done.stdout
    assert drafts(two) == {"A90": why, "A91": why}
    assert certified(two) == set()


def test_after_a_run_that_was_killed_while_it_filed_the_next_one_says_what_mends_the_folder(two: Path) -> None:
    one = tuple(word for word in RUN if word != "A91.yaml")
    assert statecert(*one, cwd=two).returncode == 0
    time.sleep(1.1)  # a run that began within the same second is no newer one
    assert run_by(KILLED_WHILE_IT_FILES, two, *one).returncode == 9
    time.sleep(1.1)

    stuck = statecert(*one, cwd=two)
    words = stuck.stderr.strip().rpartition("statecert ")[2].split()

    assert stuck.returncode == 2
    assert words[0] == "supersede", stuck.stderr
    assert statecert(*words, "--folder", "c", cwd=two).returncode == 0
    time.sleep(1.1)
    assert statecert(*one, "--gate", cwd=two).returncode == 0


def test_a_folder_that_takes_no_files_is_refused_before_anything_runs(two: Path) -> None:
    (two / "c").mkdir()

    done = run_by(NOT_WRITABLE, two, *RUN)

    assert done.returncode == 3, done.stderr
    assert done.stderr == "statecert: c takes no files (read-only), so nothing was run; choose another with --certify\n"
    assert not (two / "runs").exists()


def test_a_folder_in_a_folder_that_takes_no_files_is_refused_too(two: Path) -> None:
    inside = NOT_WRITABLE.replace('!= "c"', '!= "ledger"')
    (two / "c" / "ledger").mkdir(parents=True)

    done = run_by(inside, two, *RUN)

    assert done.returncode == 3, done.stderr
    assert "c/ledger takes no files" in done.stderr


def test_a_certificate_that_its_folder_refuses_is_a_draft_and_the_rest_is_certified(two: Path) -> None:
    (two / "c").mkdir()
    (two / "c" / "A90").write_text("a file where a folder goes")

    done = statecert(*RUN, cwd=two)

    assert done.returncode == 3, done.stdout
    assert done.stderr.count("statecert: ") == 1
    assert "A90" in done.stderr
    assert "Traceback" not in done.stderr
    assert "draft: not_filed" in done.stdout
    assert "run folder" in done.stdout
    assert drafts(two) == {"A90": "not_filed"}
    assert certified(two) == {"A91"}


def test_a_folder_that_cannot_be_trusted_makes_drafts_and_no_run_is_lost(good: Path, two: Path) -> None:
    shutil.copytree(certificates_of(good), two / "c")
    broken = next((two / "c").glob("A90/*/*/*.json"))
    broken.write_bytes(broken.read_bytes()[:-20])

    done = statecert(*RUN, cwd=two)

    assert done.returncode == 2, done.stderr
    assert broken.name in done.stderr
    assert "A91[scale=1,part=kv]" in done.stdout
    assert drafts(two) == {"A90": "not_filed", "A91": "not_filed"}
