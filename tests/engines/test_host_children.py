"""Child processes: every way in which one can end has a name, and the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.digest.parts import KNOWN_ANSWERS
from harness.engines.ahead import Ahead
from harness.engines.host import EngineHost, HostOptions
from harness.engines.process import Limits, started
from harness.engines.subject import HARNESS_SETS
from harness.errors import (
    EngineCrashedError,
    EngineError,
    EngineHungError,
    OutOfMemoryError,
    ProtocolError,
    RefusedError,
    UsageError,
)
from harness.model.target import Target
from harness.model.values import Capability, Observability
from tests.fakes.toy_support import QUICK, toy_host, toy_target

IDS = list(range(8, 30))


def _prefilled(host: EngineHost, misbehave: str, during: str = "prefill") -> None:
    host.ensure()
    engine = host.open_engine({"misbehave": misbehave, "during": during})
    session = engine.open_session({})
    session.begin(IDS, cache=False)
    session.prefill(len(IDS))
    host.look(session)


def test_a_started_host_says_who_the_engine_is(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        facts = host.start()

    assert (facts.engine, facts.model, facts.hw_class) == ("toy", "toy", "cpu-toy")
    assert facts.observability is Observability.PARTS
    assert Capability.PREFIX_CACHE in facts.capabilities
    assert [one.name for one in facts.path_sets] == ["engine"]
    assert host.device == "cpu"


@pytest.mark.parametrize(("how", "status"), [("exit", 7), ("abort", -signal.SIGABRT), ("segv", -signal.SIGSEGV)])
def test_a_child_that_ends_is_a_crash_with_its_status_and_the_next_one_starts(
    tmp_path: Path, how: str, status: int
) -> None:
    with toy_host(tmp_path) as host:
        with pytest.raises(EngineCrashedError) as caught:
            _prefilled(host, how)
        _prefilled(host, "")

    assert caught.value.status == status


def test_a_child_that_does_not_answer_is_ended_at_its_limit(tmp_path: Path) -> None:
    options = HostOptions(limits=Limits(start_s=60, open_s=30, call_s=0.4))
    with toy_host(tmp_path, options=options) as host:
        began = time.monotonic()
        with pytest.raises(EngineHungError, match=r"prefill: no answer within 0\.4 s"):
            _prefilled(host, "hang")
        took = time.monotonic() - began

        assert not host.alive
    assert took < 10


@pytest.mark.parametrize("how", ["memory", "kill"])
def test_lack_of_memory_has_a_name_of_its_own(tmp_path: Path, how: str) -> None:
    with toy_host(tmp_path) as host, pytest.raises(OutOfMemoryError):
        _prefilled(host, how)


def test_an_exception_of_the_engine_begins_with_its_type_and_the_child_goes_on(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        with pytest.raises(EngineError, match=r"^ValueError: "):
            _prefilled(host, "raise")

        assert host.alive
        _prefilled(host, "")


def test_a_refusal_keeps_its_code(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host, pytest.raises(RefusedError) as caught:
        _prefilled(host, "refuse")

    assert caught.value.code == "budget"


def test_a_refusal_with_an_unknown_code_is_no_refusal(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host, pytest.raises(ProtocolError, match="because"):
        _prefilled(host, "refuse_oddly")


def test_what_an_engine_prints_goes_to_the_log_and_harms_nothing(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        _prefilled(host, "noise")

    assert b"not what this is" in (tmp_path / "child-1.log").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the pipe through /proc")
def test_nonsense_in_the_pipe_is_refused_and_the_child_ended(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        with pytest.raises(ProtocolError, match="expected a message"):
            _prefilled(host, "pipe")

        assert not host.alive


def test_a_child_that_hashes_a_known_buffer_wrongly_is_not_used(tmp_path: Path) -> None:
    wrong = replace(KNOWN_ANSWERS[3], sha256="0" * 64)
    options = HostOptions(limits=QUICK, known_answers=[*KNOWN_ANSWERS[:3], wrong])

    with (
        toy_host(tmp_path, options=options) as host,
        pytest.raises(ProtocolError, match="hashed a known buffer wrongly"),
    ):
        host.start()


def test_known_answers_and_spot_checks_are_counted_for_each_child(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        _prefilled(host, "")
        with pytest.raises(EngineCrashedError):
            _prefilled(host, "exit")
        host.discard()
        first = host.take_trust()

    assert [(one.child, one.known_answers, one.mismatches) for one in first] == [(1, len(KNOWN_ANSWERS), 0)]
    assert first[0].spot_checks >= 1
    assert host.take_trust() == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_child_stays_when_its_whole_group_is_asked_to_end(tmp_path: Path, ending: signal.Signals) -> None:
    with toy_host(tmp_path) as host:
        host.ensure()
        assert host.pid is not None
        os.kill(host.pid, ending)
        time.sleep(0.05)

        _prefilled(host, "")


def test_a_child_ends_with_its_parent_also_in_the_middle_of_an_operation(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, threading, time\n"
        "from tests.fakes.toy_support import toy_host\n"
        f"with toy_host(pathlib.Path({str(tmp_path)!r})) as host:\n"
        "    host.ensure()\n"
        "    engine = host.open_engine({'misbehave': 'hang'})\n"
        "    session = engine.open_session({})\n"
        "    session.begin([8, 9], cache=False)\n"
        "    threading.Thread(target=session.prefill, args=(2,), daemon=True).start()\n"
        "    time.sleep(0.2)\n"
        "    print(host.pid, flush=True)\n"
        "    os._exit(0)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])

    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=600,
        check=True,
    )

    child = int(told.stdout)
    deadline = time.monotonic() + 5
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(child)


def test_an_absent_device_opens_no_engine_and_says_why(tmp_path: Path) -> None:
    with toy_host(tmp_path, toy_target("moon")) as host:
        facts = host.start()

    assert host.absent == "no moon is up"
    assert facts.hw_class == "moon-absent"
    assert facts.device == {"absent": "no moon is up"}


def test_an_unknown_device_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with toy_host(tmp_path, toy_target("mars")) as host, pytest.raises(UsageError, match="known are: best, moon, cpu"):
        host.start()


def test_an_unknown_engine_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    target = Target(name="x", adapter="no-such-engine")
    with EngineHost(target, tmp_path) as host, pytest.raises(UsageError, match="no engine 'no-such-engine'"):
        host.start()


def test_objects_of_a_lost_child_say_that_it_is_gone(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.ensure()
        session = host.open_engine({}).open_session({})
        host.discard()

        with pytest.raises(ProtocolError, match="gone"):
            session.prefill(1)


def test_objects_of_a_lost_child_are_not_those_of_its_successor(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.ensure()
        session = host.open_engine({}).open_session({})
        host.discard()
        host.ensure()

        with pytest.raises(ProtocolError, match="not open"):
            session.prefill(1)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z")


def test_a_host_beside_another_knows_all_that_the_target_told_that_one(tmp_path: Path) -> None:
    """Else its cells would be asked for what the target said it has not."""
    public = sorted(name for name, value in vars(EngineHost).items() if isinstance(value, property))
    of_its_child = {"children", "pid", "alive"}

    with toy_host(tmp_path) as host:
        host.start()
        beside = host.rival(tmp_path / "beside")
        here, there = (
            {name: getattr(one, name) for name in public if name not in of_its_child} for one in (host, beside)
        )

    assert here["told"]
    assert there == here


def test_a_part_of_a_family_that_the_target_says_it_has_not_is_an_error(tmp_path: Path) -> None:
    """What a target tells decides what is asked of it; a family that it hides would never be asked for."""
    with toy_host(tmp_path, toy_target(fault="family_untold")) as host:
        host.start()
        session = host.open_engine({}).open_session({})

        with pytest.raises(EngineError, match=r"^family_untold: .* is of family recurrent"):
            host.look(session)


@pytest.mark.parametrize("option", ["disk", "device"])
def test_an_option_that_the_harness_gives_is_refused_before_anything_starts(tmp_path: Path, option: str) -> None:
    target = Target(name="toy", adapter="toy", device="best", options={option: str(tmp_path)})

    with toy_host(tmp_path, target) as host, pytest.raises(UsageError, match=f"option {option}: the harness gives it"):
        host.start()

    assert host.children == 0


def test_a_child_that_is_started_ahead_is_the_next_one_and_another_process(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        host.start_ahead()
        host.start_ahead()
        _prefilled(host, "")
        before = host.pid, host.children
        host.restart(kill=True)
        _prefilled(host, "")
        after = host.pid, host.children

    assert (before[1], after[1]) == (1, 2)
    assert before[0] != after[0]
    assert sorted(path.name for path in tmp_path.glob("child-*.log")) == ["child-1.log", "child-2.log"]
    known = len(KNOWN_ANSWERS)
    assert [(one.child, one.known_answers) for one in host.take_trust()] == [(1, known), (2, known)]


def test_a_child_that_was_started_ahead_and_not_needed_ends_with_its_host(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        host.start_ahead()
        ahead = host._ahead
        assert ahead is not None
        working = ahead.child.alive

    assert working
    assert not ahead.child.alive
    assert ahead.child.lost is None


def test_a_child_that_hashes_wrongly_is_told_of_when_it_is_needed(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        wrong = replace(KNOWN_ANSWERS[3], sha256="0" * 64)
        host.options = replace(host.options, known_answers=[wrong])
        host.start_ahead()
        _prefilled(host, "")

        with pytest.raises(ProtocolError, match="hashed a known buffer wrongly"):
            host.restart()
        assert not host.alive


def test_a_child_that_was_started_ahead_and_is_gone_is_a_crash_of_who_needs_it(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        host.start()
        host.start_ahead()
        ahead = host._ahead
        assert ahead is not None
        ahead.ready()
        os.kill(ahead.child.pid, signal.SIGABRT)

        with pytest.raises(EngineCrashedError, match="SIGABRT"):
            host.restart()


def rests_on(host: EngineHost, folder: Path) -> Path:
    """A file of the engine, as far as a host knows."""
    part = folder / "rests_on" / "part.py"
    host._declared = {**host._declared, "more": ["rests_on:*.py"]}
    host._tree = host.digested({**HARNESS_SETS, **host._declared})
    return part


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with the package ``rests_on``."""
    (tmp_path / "rests_on").mkdir()
    for name in ("__init__.py", "part.py"):
        (tmp_path / "rests_on" / name).write_text("one = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_child_of_other_files_than_the_first_one_is_another_subject(importable: Path) -> None:
    with toy_host(importable) as host:
        host.start()
        part = rests_on(host, importable)
        host.restart()
        part.write_text("two = 2\n")

        with pytest.raises(EngineError, match=r"subject_changed: files of the harness or the engine are others"):
            host.restart()


def test_files_that_were_others_while_a_child_was_started_ahead_are_seen_though_they_were_put_back(
    importable: Path,
) -> None:
    with toy_host(importable) as host:
        host.start()
        part = rests_on(host, importable)
        part.write_text("two = 2\n")
        host.start_ahead()
        assert host._ahead is not None
        host._ahead.ready()
        part.write_text("one = 1\n")

        with pytest.raises(EngineError, match=r"subject_changed: files of the harness or the engine are others"):
            host.restart()


def with_one_ahead(folder: Path) -> tuple[EngineHost, Ahead[Any]]:
    """A host whose child works, and the child that it has started ahead."""
    host = EngineHost(toy_target(), folder, HostOptions(limits=QUICK))
    host.start()
    host.start_ahead()
    assert host._ahead is not None
    return host, host._ahead


def test_a_child_that_was_started_ahead_and_died_unneeded_is_not_passed_over(tmp_path: Path) -> None:
    host, ahead = with_one_ahead(tmp_path)
    ahead.ready()
    os.kill(ahead.child.pid, signal.SIGABRT)

    host.close()

    assert isinstance(host.take_lost(), EngineCrashedError)


def test_a_child_that_is_broken_off_while_it_is_made_ready_ahead_is_nothing_to_tell_of(tmp_path: Path) -> None:
    host, ahead = with_one_ahead(tmp_path)
    host.interrupt()
    assert isinstance(ahead.failure(), KeyboardInterrupt)

    host.close()

    assert host.take_lost() is None
    assert not ahead.child.alive


@pytest.mark.parametrize("options", [HostOptions(limits=QUICK, beside=2), HostOptions(limits=QUICK, spawn=started)])
def test_no_child_is_started_ahead_beside_others_or_where_children_start_in_another_way(
    tmp_path: Path, options: HostOptions
) -> None:
    with toy_host(tmp_path, options=options) as host:
        host.start()
        host.start_ahead()

        assert host._ahead is None
