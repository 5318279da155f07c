"""A forked child is a child like any other: asked, ended and replaced alike."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engines import registry
from harness.engines.forking import Forked, Template, can_fork
from harness.engines.host import EngineHost, HostOptions
from harness.engines.process import ChildProcess, Limits, Process, Spawn
from harness.errors import EngineCrashedError, EngineHungError, OutOfMemoryError, UsageError
from harness.model.evidence import PartTable
from harness.model.target import Target
from harness.model.values import TreeState
from harness.pipeline import bench, file_evidence, run_one
from tests.fakes.forked import threads_of_numpy
from tests.fakes.toy_support import COLD, EXACT, FLIPPED, QUICK, SEEN, WARM, run_toy, toy_host, toy_plan, toy_procedure

pytestmark = pytest.mark.skipif(not can_fork("cpu"), reason="children are forked on Linux only")
IDS = list(range(8, 30))


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Template]:
    with Template("toy", registry.ENGINES, tmp_path / "template.log") as made:
        yield made


def _options(spawn: Spawn, call_s: float = QUICK.call_s) -> HostOptions:
    return HostOptions(limits=Limits(start_s=60, open_s=30, call_s=call_s), spawn=spawn)


def _prefilled(host: EngineHost, misbehave: str) -> None:
    host.ensure()
    session = host.open_engine({"misbehave": misbehave, "during": "prefill"}).open_session({})
    session.begin(IDS, cache=False)
    session.prefill(len(IDS))


def test_a_forked_child_is_a_process_of_its_own_and_says_the_same_as_a_started_one(
    tmp_path: Path, template: Template
) -> None:
    with (
        toy_host(tmp_path / "started") as started,
        toy_host(tmp_path / "forked", options=_options(template.spawn)) as forked,
    ):
        assert forked.start() == started.start()
        assert forked.pid not in {None, os.getpid(), started.pid, template.pid}
        assert os.getsid(forked.pid or 0) == forked.pid


def test_a_run_in_forked_children_has_the_evidence_of_one_in_started_ones(tmp_path: Path, template: Template) -> None:
    plan = toy_plan(toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN]))
    tables = []
    for name, options in {"started": HostOptions(limits=QUICK), "forked": _options(template.spawn)}.items():
        with toy_host(tmp_path / name, options=options) as host:
            evidence = run_toy(host, plan, tmp_path / name)
            tables.append([one for one in evidence.observations if isinstance(one, PartTable)])

    assert tables[0] == tables[1]
    assert tables[0]


@pytest.mark.parametrize(("how", "status"), [("exit", 7), ("abort", -signal.SIGABRT), ("segv", -signal.SIGSEGV)])
def test_a_forked_child_that_ends_is_a_crash_with_its_status_and_the_next_one_is_forked(
    tmp_path: Path, template: Template, how: str, status: int
) -> None:
    with toy_host(tmp_path, options=_options(template.spawn)) as host:
        with pytest.raises(EngineCrashedError) as caught:
            _prefilled(host, how)
        _prefilled(host, "")

        assert host.children == 2
    assert caught.value.status == status


def test_a_forked_child_that_does_not_answer_is_ended(tmp_path: Path, template: Template) -> None:
    with (
        toy_host(tmp_path, options=_options(template.spawn, call_s=0.4)) as host,
        pytest.raises(EngineHungError, match="prefill: no answer"),
    ):
        _prefilled(host, "hang")


def test_a_forked_child_that_is_killed_from_outside_lacked_memory(tmp_path: Path, template: Template) -> None:
    with toy_host(tmp_path, options=_options(template.spawn)) as host, pytest.raises(OutOfMemoryError):
        _prefilled(host, "kill")


def test_the_process_id_of_a_forked_child_is_its_own_until_its_end_was_seen(tmp_path: Path, template: Template) -> None:
    child = ChildProcess(tmp_path / "child.log", template.spawn)
    os.kill(child.pid, signal.SIGKILL)
    _until(lambda: _state(child.pid) == "Z")

    assert _state(child.pid) == "Z"
    _until(lambda: not child.alive)  # the template tells it a moment after the kernel
    assert not child.alive
    _until(lambda: _state(child.pid) == "")
    assert _state(child.pid) == ""
    child.close()


def test_a_wait_for_a_forked_child_ends_at_its_limit(tmp_path: Path, template: Template) -> None:
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()
    forked = template.spawn(tmp_path / "child.log", to_child, from_child)
    for one in (to_child, from_child):
        os.close(one)

    assert isinstance(forked, Forked)
    assert forked.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.05)
    os.close(from_parent)
    assert forked.wait(30) in {0, 3}  # it noticed first between two messages, or as an orphan
    os.close(to_parent)


def test_without_its_template_a_child_is_started(tmp_path: Path, template: Template) -> None:
    os.kill(template.pid, signal.SIGKILL)

    with toy_host(tmp_path, options=_options(template.spawn)) as host:
        _prefilled(host, "")


def test_an_engine_that_is_not_installed_has_the_error_that_it_has_elsewhere(tmp_path: Path) -> None:
    target = Target(name="none", adapter="no-such-engine", device="cpu", options={})
    with (
        Template("no-such-engine", registry.ENGINES, tmp_path / "template.log") as template,
        toy_host(tmp_path, target, _options(template.spawn)) as host,
        pytest.raises(UsageError, match="no engine 'no-such-engine'"),
    ):
        host.start()


def test_children_for_accelerators_are_never_forked() -> None:
    assert [can_fork(device) for device in ("cuda", "cuda:1", "mps", "best")] == [False] * 4


def test_an_import_of_the_torch_engine_starts_no_thread_and_an_operation_does(tmp_path: Path) -> None:
    script = (
        "import os, numpy\n"
        "def tasks(): return len(os.listdir('/proc/self/task'))\n"
        "first = tasks()\n"
        "from harness.engines import registry\n"
        "registry.load('torch')\n"
        "imported = tasks()\n"
        "import torch\n"
        "torch.set_num_threads(3)\n"
        "(torch.ones(512, 512) @ torch.ones(512, 512)).sum()\n"
        "print(imported - first, tasks() > imported)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout.split() == ["0", "True"]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _until(holds: object, seconds: float = 20) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_run_that_forks_says_so_and_its_evidence_is_a_draft(tmp_path: Path) -> None:
    plan = toy_plan(toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN]))
    target = Target(name="toy", adapter="toy", device="cpu", options={"preset": "toy"})

    with bench(target, tmp_path, forked=True) as up:
        up.host.discard()
        up.source = replace(up.source, tree=TreeState.CLEAN)
        evidence, _ = run_one(up, plan)
        finished = file_evidence(up, plan, evidence, tmp_path / "certificates")
        log = (tmp_path / "template.log").read_text()

    assert finished.draft == "forked"
    assert log == ""


def test_what_a_template_imports_starts_no_thread(tmp_path: Path) -> None:
    """Those of other libraries are asked where a template is there anyway: tests/real_engines."""
    assert _threads("llamacpp", tmp_path) <= threads_of_numpy()


def _threads(adapter: str, folder: Path) -> int:
    """How many threads a template of an adapter has, once it has imported everything and forked a child."""
    with Template(adapter, registry.ENGINES, folder / "template.log") as made:
        forked = _forked(made, folder / "child.log")
        found = len(list(Path(f"/proc/{made.pid}/task").iterdir()))
        forked.kill()
        forked.wait()
    return found


def _forked(template: Template, log: Path) -> Process:
    """A child of a template, which has imported everything when it answers; nobody talks to it."""
    reader, writer = os.pipe()
    try:
        return template.spawn(log, reader, writer)
    finally:
        os.close(reader)
        os.close(writer)
