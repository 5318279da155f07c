"""Scenarios of one run side by side: the same records in the same order, and the same ends, as one after another."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from harness.wire.evidence_doc import read_evidence
from tests.commands.command_support import FAKES, TOY_SCENARIO, outside, statecert
from tests.fakes.processes import SECONDS, children_of, wait_for

TOY = ("--target", "toy", "--preset", "toy")
IDS = ("A90", "A91", "A92", "A93")
HANG = "  engine: {misbehave: hang, during: prefill}\n"
CRASH = "  engine: {misbehave: exit, during: prefill}\n"
FAILS_AT_THE_END = "  engine: {misbehave: fail_at_the_end, during: close}\n"
PLAIN = "  engine: {}\n"
LIMITED = """\
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
from harness.cli import main
raise SystemExit(main())
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(outside()), str(FAKES)])}


def scenario(name: str, engine: str = PLAIN) -> str:
    return TOY_SCENARIO.replace("A90", name).replace(PLAIN, engine)


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """A folder with four scenarios."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for name in IDS:
        (folder / f"{name}.yaml").write_text(scenario(name))
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return statecert("run", "--scenarios", folder, *TOY, *words, cwd=folder.parent)


def bodies(out: Path) -> dict[str, dict[str, object]]:
    found = {}
    for path in out.glob("*/certificates/A9*/*/*/*.json"):
        document = json.loads(path.read_text())
        found[str(document["body"]["scenario"]["id"])] = document["body"]
    return found


def verdict(body: dict[str, object]) -> object:
    """What a body says of the engine: everything but who ran it, when, and how long it took."""
    timeless = {name: part for name, part in body.items() if name not in {"run", "environment"}}
    return json.loads(json.dumps(timeless), object_hook=without_times)


def without_times(value: dict[str, object]) -> dict[str, object]:
    """How many spot checks a child drew depends on the looks that it has had before."""
    return {name: part for name, part in value.items() if not name.endswith("_ns") and name != "spot_checks"}


def jobs_of(body: dict[str, object]) -> object:
    return cast("dict[str, dict[str, object]]", body["environment"])["facts"]["jobs"]


def test_side_by_side_gives_the_verdicts_of_one_after_another_and_says_how_many_jobs_there_were(
    four: Path, tmp_path: Path
) -> None:
    serial = run(four, "--out", "serial", "--quiet")
    beside = run(four, "--out", "beside", "--quiet", "--jobs", "3")

    assert (serial.returncode, beside.returncode) == (0, 0), beside.stderr
    one, other = bodies(tmp_path / "serial"), bodies(tmp_path / "beside")
    assert set(one) == set(other) == set(IDS)
    assert [verdict(one[name]) for name in IDS] == [verdict(other[name]) for name in IDS]
    assert {jobs_of(body) for body in one.values()} == {1}
    assert {jobs_of(body) for body in other.values()} == {3}


def test_the_table_and_the_ledger_have_the_order_of_the_scenarios_whatever_ends_first(
    four: Path, tmp_path: Path
) -> None:
    (four / "A90.yaml").write_text(scenario("A90").replace("chunks: 2", "chunks: 40"))

    done = run(four, "--jobs", "2", "--json")

    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["cell"][:3] for row in rows] == [name for name in IDS for _ in range(2)]
    created = [bodies(tmp_path / "runs")[name]["run"] for name in IDS]
    assert len({cast("dict[str, str]", one)["run_id"] for one in created}) == 4


def test_a_crash_beside_other_scenarios_is_only_that_scenario_s(four: Path, tmp_path: Path) -> None:
    (four / "A91.yaml").write_text(scenario("A91", CRASH))

    done = run(four, "--jobs", "2", "--json")

    assert done.returncode == 3
    outcomes = {row["cell"][:3]: row["outcome"] for row in json.loads(done.stdout)["rows"]}
    assert outcomes == {"A90": "pass", "A91": "error", "A92": "pass", "A93": "pass"}
    assert set(bodies(tmp_path / "runs")) >= {"A90", "A92", "A93"}


def test_children_that_end_badly_are_crashes_of_their_last_scenarios_and_all_is_filed(
    four: Path, tmp_path: Path
) -> None:
    for name in IDS:
        (four / f"{name}.yaml").write_text(scenario(name, FAILS_AT_THE_END))

    done = run(four, "--jobs", "2", "--json")

    assert done.returncode == 3, done.stderr
    outcomes = [row["outcome"] for row in json.loads(done.stdout)["rows"]]
    assert len(outcomes) == 2 * len(IDS)
    evidence = {path.name[:3]: path.read_text() for path in tmp_path.glob("runs/*/evidence/*.jsonl")}
    assert set(evidence) == set(IDS)
    assert all(
        text.splitlines()[-1].startswith('{"') and '"type":"end"' in text.splitlines()[-1] for text in evidence.values()
    )
    crashed = [name for name in IDS if '"detail":"exit_9"' in evidence[name]]
    assert 1 <= len(crashed) <= 2
    assert outcomes.count("error") == len(crashed)


def test_every_cell_has_a_line_when_it_ends(four: Path) -> None:
    done = run(four, "--jobs", "4")

    lines = re.findall(r"^\[ *(\d+)/8\] · (A9\d)\[.*: done", done.stderr, flags=re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, 9))
    assert sorted({name for _, name in lines}) == list(IDS)


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_no_jobs_are_a_usage_error(four: Path, tmp_path: Path, jobs: str) -> None:
    done = run(four, f"--jobs={jobs}")

    assert done.returncode == 4
    assert f"found {jobs}; expected 1 or more" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_breaks_off_all_jobs_in_good_order_keeps_what_was_written_and_leaves_no_child(
    four: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    process = begun(four, "--jobs", "2", hang=("A92", "A93"))
    try:
        wait_for(lambda: hanging(tmp_path) == 2, "two scenarios that hang")
        children = children_of(process.pid)
        for pid in (*children, process.pid):  # as Ctrl-C of a terminal does, and a time limit
            os.kill(pid, ending)
        said, complaints = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 3, complaints
    assert "interrupted" in said
    assert "Traceback" not in complaints
    assert set(bodies(tmp_path / "runs")) == {"A90", "A91"}
    assert len(list(tmp_path.glob("runs/*/drafts/*A9[23]*"))) == 2
    for name in ("A92", "A93"):
        found = read_evidence(next(tmp_path.glob(f"runs/*/evidence/{name}*")).read_bytes(), name)
        assert found.end is not None
        assert found.end.interrupted
        assert [str(event.event) for event in found.observations if hasattr(event, "event")][-1] == "not_run"
    for child in children:
        wait_for(lambda child=child: not Path(f"/proc/{child}").exists(), "the end of a child")  # type: ignore[misc]
    assert not list(tmp_path.glob("runs/*/**/spool"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_full_disk_under_one_job_ends_the_run_without_waiting_for_the_others(four: Path, tmp_path: Path) -> None:
    (four / "A91.yaml").write_text(scenario("A91").replace("[recurrent, kv]", "[recurrent, kv, logits, meta]"))
    (four / "A92.yaml").write_text(scenario("A92", HANG))
    assert run(four, "A90", "--out", "one", "--quiet").returncode == 0
    (evidence,) = tmp_path.glob("one/*/evidence/A90*")
    limit = evidence.stat().st_size * 5 // 4
    began = time.monotonic()

    words = ["run", "A91", "A92", "A90", "--scenarios", str(four), *TOY, "--jobs", "2"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit), *words],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr.count("statecert: ") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began < 55, "an engine hangs for a minute, and the run waited for it"
    broken_off = read_evidence(next(tmp_path.glob("runs/*/evidence/A92*")).read_bytes(), "A92")
    assert broken_off.end is not None
    assert broken_off.end.interrupted


def begun(folder: Path, *words: str, hang: tuple[str, ...]) -> subprocess.Popen[str]:
    for name in hang:
        (folder / f"{name}.yaml").write_text(scenario(name, HANG))
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "--scenarios", folder, *TOY, "--quiet", *words],
        cwd=folder.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def hanging(folder: Path) -> int:
    """How many scenarios have an arm that has begun and a session that was looked at: the engine then hangs."""
    found = [path.read_bytes() for name in ("A92", "A93") for path in folder.glob(f"runs/*/evidence/{name}*")]
    return sum(b'"phase":"opened"' in data for data in found)
