"""What a child finds in its environment: threads that wait beside other work let go of their core, freed memory stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines import registry
from harness.engines.forking import Template
from harness.engines.host import HostOptions
from harness.engines.process import Limits, process_environment
from harness.model.target import Target
from harness.pipeline import bench
from tests.fakes.toy_support import QUICK, toy_host

SPINS = "GOMP_SPINCOUNT"
POLICY = "OMP_WAIT_POLICY"
TRIM = "MALLOC_TRIM_THRESHOLD_"
MAPPED = "MALLOC_MMAP_THRESHOLD_"
PLACES = "MALLOC_ARENA_MAX"
LINUX = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not tell it")


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SPINS, POLICY, TRIM, MAPPED, PLACES):
        monkeypatch.delenv(name, raising=False)


def found(pid: int | None) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


@pytest.mark.parametrize(("beside", "spins"), [(1, "5000"), (2, "1000")])
def test_threads_wait_for_a_short_time_and_beside_other_children_for_a_shorter_one(beside: int, spins: str) -> None:
    assert process_environment(beside)[SPINS] == spins


def test_a_child_keeps_memory_that_it_has_freed_for_all_of_its_threads() -> None:
    made = process_environment()

    assert (made[TRIM], made[MAPPED], made[PLACES]) == (str(256 * 1024**2), str(32 * 1024**2), "1")


@pytest.mark.parametrize("name", [TRIM, MAPPED, PLACES])
def test_how_much_the_caller_says_that_a_child_keeps_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "0")

    assert process_environment()[name] == "0"


@pytest.mark.parametrize(("name", "value"), [(SPINS, "infinity"), (POLICY, "ACTIVE")])
def test_what_the_caller_says_is_kept(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    given = {one: word for one, word in process_environment(2).items() if one in (SPINS, POLICY)}

    assert given == {name: value}


@LINUX
@pytest.mark.parametrize(("jobs", "spins"), [(1, "5000"), (2, "1000")])
def test_the_children_of_a_run_with_jobs_have_it(jobs: int, spins: str, tmp_path: Path) -> None:
    with bench(Target(name="toy", adapter="toy", device="cpu"), tmp_path, jobs=jobs) as up:
        environments = [found(up.host.pid)]
        with up.host.rival(tmp_path / "beside") as rival:
            rival.ensure()
            environments.append(found(rival.pid))

    assert [one.get(SPINS) for one in environments] == [spins, spins]


@LINUX
def test_forked_children_have_it_too(tmp_path: Path) -> None:
    limits = Limits(start_s=60, open_s=30, call_s=QUICK.call_s)
    with (
        Template("toy", registry.ENGINES, tmp_path / "template.log", beside=2) as template,
        toy_host(tmp_path, options=HostOptions(limits=limits, spawn=template.spawn)) as host,
    ):
        host.ensure()
        assert found(host.pid)[SPINS] == "1000"
