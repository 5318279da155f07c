"""Bad input and bad luck: one message, the right code, no traceback, and nothing lost that was written before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.wire.evidence_doc import read_evidence
from tests.commands.command_support import (
    FAKES,
    TOY_SCENARIO,
    certificates_of,
    evidence_of,
    outside,
    statecert,
    toy_run,
)
from tests.fakes.processes import SECONDS, children_of, gone, wait_for

SLOW_SCENARIO = (
    TOY_SCENARIO.replace("id: A90", "id: A92")
    .replace("engine: {}", "engine: {misbehave: hang, after: $after}")
    .replace("axes: {part: [recurrent, kv]}", "axes: {after: [1000, 2]}")
    .replace(", part: $part", "")
)
"""Its first cell runs through; the engine of the second one stays in its third prefill for a minute."""

HANGS_AT_START = [word for one in ("misbehave=hang", "during=open", "after=0") for word in ("--option", one)]
MOUNTS = "mount -t tmpfs -o size=64k tmpfs {0} 2>/dev/null && umount {0}"
LIMITED = """\
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
from harness.cli import main
raise SystemExit(main())
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(outside()), str(FAKES)])}


def told(done: subprocess.CompletedProcess[str], code: int, *needles: str) -> None:
    """The command ended as it should, with one message that holds these words."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stderr.count("statecert: ") == 1, done.stderr
    for needle in needles:
        assert needle in done.stderr


# -- documents that are not what they should be ------------------------------------------------------------------------


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_end(data: bytes) -> bytes:
    return data[: data.rfind(b"\n", 0, -1) + 1]


@pytest.mark.parametrize("change", [half, without_end])
def test_evidence_that_was_cut_off_is_named_and_left_as_it_is(
    good: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    cut = change(evidence_of(good).read_bytes())
    (tmp_path / "cut.jsonl").write_bytes(cut)

    told(statecert("judge", "cut.jsonl", cwd=tmp_path), 2, "cut.jsonl", "cut off")

    assert (tmp_path / "cut.jsonl").read_bytes() == cut
    assert len(read_evidence(cut, "cut.jsonl").observations) == cut.count(b"\n") - 1


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b'{"type":"end"}\n', b"\xff\xfe\n"])
def test_what_is_no_evidence_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "odd.jsonl").write_bytes(data)

    told(statecert("judge", "odd.jsonl", cwd=tmp_path), 2, "odd.jsonl")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda data: data[:-20], "#/status"),
        (lambda data: data.replace(b'"outcome": "pass"', b'"outcome": "maybe"', 1), "/body/cells/0/checks/0/outcome"),
        (lambda data: b"[]\n", "found"),
        (lambda data: b"", "line 1"),
    ],
    ids=["cut", "word", "list", "empty"],
)
def test_a_malformed_certificate_is_named_with_the_path_inside(
    good: Path, tmp_path: Path, change: Callable[[bytes], bytes], place: str
) -> None:
    folder = tmp_path / "certificates"
    shutil.copytree(certificates_of(good), folder)
    path = next(folder.glob("A90/*/*/*.json"))
    path.write_bytes(change(path.read_bytes()))

    gate = statecert("gate", folder, cwd=tmp_path)
    report = statecert("report", folder, cwd=tmp_path)

    assert gate.returncode == 2
    assert "Traceback" not in gate.stderr
    (found,) = [line for line in gate.stdout.splitlines() if line.startswith("CG10")]
    assert path.name in found
    assert place in found
    told(report, 2, path.name, place)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("role: reference", "role: reverence", "/procedure/arms/0/role"),
        ("chunk: 64", "chunk: many", "/procedure/chunk"),
        ("arms:", "arms: [", "line 18"),
        ("id: A90", "id: A90\nid: A91", "'id' a second time"),
        (
            "{prompt: A, decode: 4, as: a}",
            "{prompt: Z, decode: 4, as: a}",
            "/procedure/arms/0/steps/0/run: found prompt 'Z'",
        ),
        ("part: $part}", "part: $parts}", "$parts"),
    ],
)
def test_a_malformed_scenario_is_named_with_the_path_inside(tmp_path: Path, old: str, new: str, place: str) -> None:
    (tmp_path / "A91-bad.yaml").write_text(TOY_SCENARIO.replace(old, new, 1))

    told(statecert("plan", "A91-bad.yaml", cwd=tmp_path), 4, "A91-bad.yaml", place)


@pytest.mark.parametrize("words", [("--option", "depth"), ("--option", "=3"), ("--target", "nothing")])
def test_a_malformed_target_is_named(tmp_path: Path, words: tuple[str, str]) -> None:
    told(toy_run(tmp_path, *words), 4, words[1])


def test_a_device_that_is_absent_is_told_with_its_reason_and_with_what_to_ask_for(tmp_path: Path) -> None:
    done = toy_run(tmp_path, "--device", "moon")

    assert done.returncode == 5
    assert "no moon here: no moon is up; what can run here: --device cpu" in done.stderr
    assert "device_absent: no moon is up" in done.stdout


# -- a disk that is full, a folder that cannot be written --------------------------------------------------------------


@pytest.mark.parametrize("limit", [1_000, 6_000])
def test_a_disk_that_fills_during_a_run_keeps_whole_lines_and_says_so(tmp_path: Path, limit: int) -> None:
    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    words = ["run", "A90-toy.yaml", "--target", "toy", "--preset", "toy", "--quiet"]

    done = started([sys.executable, "-c", LIMITED.format(limit), *words], tmp_path)

    told(done, 3, "A90-toy-toy.jsonl", "earlier lines are intact")
    data = evidence_of(tmp_path).read_bytes()
    assert len(data) <= limit
    assert data == data[: data.rfind(b"\n") + 1]
    if data:
        whole = read_evidence(data, "evidence")
        assert whole.end is None
        assert len(whole.observations) == data.count(b"\n") - 1
    assert not list(tmp_path.glob("runs/*/certificates"))


@pytest.fixture
def can_mount(tmp_path: Path) -> None:
    """Only where this process may mount in a namespace of its own."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    folder = tmp_path / "probe"
    folder.mkdir()
    probe = subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNTS.format(folder)], capture_output=True, timeout=SECONDS, check=False
    )
    if probe.returncode:
        pytest.skip("this user may not mount")


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("kib", [4, 36, 56])
def test_a_really_full_disk_loses_nothing_that_was_closed(tmp_path: Path, kib: int) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    run = f"{sys.executable} -m harness run A90-toy.yaml --target toy --preset toy --quiet --out disk"
    script = f"mount -t tmpfs -o size={kib}k tmpfs disk || exit 99; {run}; code=$?; cp -r disk kept; exit $code"

    done = started(["unshare", "--mount", "sh", "-c", script], tmp_path)

    told(done, 3, "No space left on device")
    assert not list(kept.rglob("*.partial"))
    files = list(kept.glob("*/evidence/*.jsonl"))
    data = files[0].read_bytes() if files else b""
    assert data == data[: data.rfind(b"\n") + 1]
    if data and read_evidence(data, "evidence").end is not None:
        assert statecert("judge", files[0], cwd=tmp_path).returncode == 0
    for path in kept.glob("*/certificates/evidence/*.jsonl"):
        assert path.read_bytes() == data


@pytest.mark.usefixtures("can_mount")
def test_a_read_only_folder_is_named_and_stays_as_it_is(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "runs", tmp_path / "runs")
    shutil.copy(good / "A90-toy.yaml", tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    run = f"{sys.executable} -m harness run A90-toy.yaml --target toy --preset toy --quiet"
    script = f"mount --bind runs runs && mount -o remount,ro,bind runs || exit 99; {run}"

    done = started(["unshare", "--mount", "sh", "-c", script], tmp_path)

    told(done, 3, "runs", "Read-only file system", "--out")
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_file_in_the_way_of_certificates_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "certificates").write_text("not a folder")

    done = toy_run(tmp_path, "--certify", "certificates")

    told(done, 4, "certificates")
    assert (tmp_path / "certificates").read_text() == "not a folder"
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["gate"], ["judge"], ["--help"], ["report"]])
def test_a_full_disk_behind_standard_output_is_the_harness_s_trouble(
    good: Path, tmp_path: Path, words: list[str]
) -> None:
    places = {"gate": certificates_of(good), "report": certificates_of(good), "judge": evidence_of(good)}
    arguments = [*words, *(str(places[word]) for word in words if word in places)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    assert done.returncode == 3
    assert "Traceback" not in done.stderr


# -- a child that ends badly -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_child_that_ends_badly_when_all_is_done_makes_the_last_cell_an_error(tmp_path: Path, jobs: str) -> None:
    bad = TOY_SCENARIO.replace("engine: {}", "engine: {misbehave: fail_at_the_end, during: close}")
    (tmp_path / "A90-good.yaml").write_text(TOY_SCENARIO)
    (tmp_path / "A91-bad.yaml").write_text(bad.replace("id: A90", "id: A91"))
    files = ("A90-good.yaml", "A91-bad.yaml")

    done = statecert("run", *files, "--target", "toy", "--preset", "toy", "--quiet", "--jobs", jobs, cwd=tmp_path)

    assert done.returncode == 3, done.stdout + done.stderr
    assert "crash" in done.stdout
    assert '"detail":"exit_9"' in next(tmp_path.glob("runs/*/evidence/A91*.jsonl")).read_text()


# -- a run that is broken off ------------------------------------------------------------------------------------------


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of two scenarios whose second one is in the middle of its last cell."""
    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    (tmp_path / "A92-slow.yaml").write_text(SLOW_SCENARIO)
    words = ["run", "A90-toy.yaml", "A92-slow.yaml", "--target", "toy", "--preset", "toy", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *words],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or b'"position":128' in last_cell(tmp_path), "the last prefill")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def last_cell(folder: Path) -> bytes:
    """Records of the second cell of the slow scenario."""
    for path in folder.glob("runs/*/evidence/A92*.jsonl"):
        header, _, rest = path.read_bytes().partition(b"\n")
        return b"\n".join(line for line in rest.split(b"\n") if b"after=2]" in line) if header else b""
    return b""


def holds(folder: Path) -> bool:
    """Whether there are certificates, and a gate accepts them."""
    found = [*folder.glob("runs/*/certificates/A90/**/*.json")]
    return bool(found) and statecert("gate", certificates_of(folder), "--require-pass", cwd=folder).returncode == 0


def started(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@linux
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_or_a_time_limit_keeps_all_that_was_written_says_so_and_leaves_no_child(
    stuck: subprocess.Popen[str], tmp_path: Path, ending: signal.Signals
) -> None:
    children = children_of(stuck.pid)
    assert children

    stuck.send_signal(ending)
    said, complaints = stuck.communicate(timeout=SECONDS)

    assert stuck.returncode == 3, complaints
    assert "interrupted" in said
    assert "Traceback" not in complaints
    for child in children:
        wait_for(lambda child=child: gone(child), "the end of the child")  # type: ignore[misc]
    told_by_evidence = read_evidence(next(tmp_path.glob("runs/*/evidence/A92*.jsonl")).read_bytes(), "slow")
    assert told_by_evidence.end is not None
    assert told_by_evidence.end.interrupted
    assert list(tmp_path.glob("runs/*/drafts/*A92*"))
    assert not list(tmp_path.glob("runs/*/certificates/A92"))
    assert not list(tmp_path.glob("runs/*/spool"))
    whole = certificates_of(tmp_path)
    assert list(whole.glob("A90/*/*/*.json"))
    assert statecert("gate", whole, "--require-pass", cwd=tmp_path).returncode == 0


@linux
def test_ctrl_c_while_the_engine_starts_leaves_no_folder_and_says_that_nothing_was_written(tmp_path: Path) -> None:
    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "A90-toy.yaml", "--target", "toy", "--preset", "toy", *HANGS_AT_START],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or bool(children_of(process.pid)), "the child")
        children = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 3, complaints
    assert "interrupted; nothing had run, and nothing was written" in complaints
    assert list((tmp_path / "runs").iterdir()) == []
    for child in children:
        wait_for(lambda child=child: gone(child), "the end of the child")  # type: ignore[misc]


@linux
def test_a_killed_parent_leaves_no_child_and_every_whole_line(stuck: subprocess.Popen[str], tmp_path: Path) -> None:
    children = children_of(stuck.pid)
    assert children
    path = next(tmp_path.glob("runs/*/evidence/A92*.jsonl"))
    before = path.read_bytes()
    # what has run is filed while the next scenario runs, and this one is stuck
    wait_for(lambda: holds(tmp_path), "the certificate of the first one")

    stuck.send_signal(signal.SIGKILL)
    stuck.communicate(timeout=SECONDS)

    for child in children:
        wait_for(lambda child=child: gone(child), "the end of the child")  # type: ignore[misc]
    after = path.read_bytes()
    assert after.startswith(before)
    assert read_evidence(after, "slow").observations
    told(statecert("judge", path, cwd=tmp_path), 2, path.name, "cut off")
    assert holds(tmp_path)


# -- an engine that declares too little --------------------------------------------------------------------------------


FLIPPED = TOY_SCENARIO.replace(
    "      steps: [{run: {prompt: B, decode: 4, as: a}}]",
    "      requires: [corrupt, store]\n      steps:\n        - {run: {prompt: A, cache: true, as: first}}\n"
    "        - {corrupt: {where: store, boundary: {chunks: 2}, part: $part, byte: 6, mask: 4, as: flip}}\n"
    "        - {run: {prompt: A, cache: true, decode: 4, as: a}}",
)
"""The same with a control that flips a bit and no other one."""


def test_a_cell_without_a_control_says_which_capability_would_give_it_one(tmp_path: Path) -> None:
    done = toy_run(tmp_path, scenario=FLIPPED)
    assert done.returncode == 0, done.stdout + done.stderr
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / "A90-toy.yaml").write_text(FLIPPED)
    words = ("run", lacking / "A90-toy.yaml", "--target", "toy", "--preset", "toy", "--quiet")

    run = statecert(*words, cwd=lacking, environment={"TOY_LACKS": "corrupt"})
    told_why = statecert("explain", evidence_of(lacking), cwd=lacking)

    assert "no_control: declare corrupt" in run.stdout
    assert told_why.returncode == 0
    assert "needs the declared capability corrupt" in " ".join(told_why.stdout.split())
