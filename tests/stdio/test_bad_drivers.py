"""Every way in which a driver can be wrong has a name, ends its step and nothing else, and leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import cli
from harness.adapters.stdio_adapter import StdioAdapter
from harness.engines.host import EngineHost, HostOptions
from harness.engines.looking import part_views
from harness.engines.process import Limits
from harness.errors import (
    EngineCrashedError,
    EngineError,
    EngineHungError,
    ProtocolError,
    RefusedError,
)
from harness.model.evidence import Crash
from harness.model.target import Target
from harness.model.values import CrashKind
from tests.fakes.toy_support import run_toy, toy_plan

pytestmark = pytest.mark.usefixtures("forked")
ENGINE = "stdio"
DRIVER = Path(__file__).parent / "bad_driver.py"
IDS = list(range(8, 24))

WRONG = [
    ("garbage", "position", ProtocolError, "not JSON"),
    ("list", "position", ProtocolError, "expected an answer to"),
    ("nan", "position", ProtocolError, "not JSON"),
    ("other_id", "position", ProtocolError, "expected an answer to"),
    ("no_result", "position", ProtocolError, "does not fit"),
    ("negative", "position", ProtocolError, "does not fit"),
    ("oversize", "position", ProtocolError, "does not fit"),
    ("unknown_field", "position", ProtocolError, "does not fit"),
    ("long_line", "position", ProtocolError, "a line of more than"),
    ("odd_refusal", "position", ProtocolError, "does not fit"),
    ("beyond_file", "logits", ProtocolError, "the driver's file has"),
    ("wrong_length", "parts", ProtocolError, "shape"),
    ("fewer_tokens", "decode", ProtocolError, "1 tokens; 3 were asked for"),
    ("hang", "position", EngineHungError, "no answer within 1 s"),
    ("mute", "position", ProtocolError, "closed its standard output"),
    ("crash", "position", EngineCrashedError, "SIGABRT|status -6"),
    ("exit", "position", EngineCrashedError, "status 7"),
    ("error", "position", EngineError, "the device is on fire"),
]


def command(how: str = "right", operation: str = "none") -> str:
    return f"{sys.executable} {DRIVER} {how} {operation}"


def target(how: str = "right", operation: str = "none") -> Target:
    return Target(name="bad", adapter="stdio", options={"command": command(how, operation), "patience_s": 1})


def host(folder: Path, how: str = "right", operation: str = "none") -> EngineHost:
    return EngineHost(target(how, operation), folder, HostOptions(limits=Limits(call_s=60)))


def life(opened: EngineHost) -> None:
    engine = opened.open_engine({})
    session = engine.open_session({})
    session.begin(IDS, cache=False)
    session.prefill(len(IDS))
    opened.look(session)
    session.decode(3, {})
    engine.close()


def test_the_driver_is_right_where_it_is_not_told_to_be_wrong(tmp_path: Path) -> None:
    with host(tmp_path) as opened:
        facts = opened.start()
        life(opened)

    assert (facts.engine, facts.identity["driver.archive.rows.1"]) == ("bad", True)
    assert len(str(facts.identity["driver.sha256"])) == 64


@pytest.mark.parametrize(("how", "operation", "kind", "words"), WRONG)
def test_a_wrong_driver_is_named_and_the_next_engine_works(
    how: str, operation: str, kind: type[EngineError], words: str
) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        direct(how, operation)
    direct()

    assert type(caught.value) is kind
    if isinstance(caught.value, EngineCrashedError):
        assert caught.value.status in (7, -signal.SIGABRT)


def direct(how: str = "right", operation: str = "none") -> None:
    """A short life without a child process of the harness in between."""
    engine = StdioAdapter().open({"command": command(how, operation), "patience_s": 1})
    try:
        session = engine.open_session({})
        session.begin(IDS, cache=False)
        session.prefill(len(IDS))
        part_views(session.parts())
        session.logits()
        session.position()
        session.decode(3, {})
        assert engine.driver.lost is None
    finally:
        engine.close()


def test_a_driver_that_was_let_go_of_says_why_again() -> None:
    engine = StdioAdapter().open({"command": command("garbage", "position"), "patience_s": 1})
    session = engine.open_session({})
    with pytest.raises(ProtocolError):
        session.position()

    with pytest.raises(ProtocolError, match="not JSON"):
        session.begin(IDS, cache=False)


def test_another_version_of_the_protocol_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with host(tmp_path, "version") as opened, pytest.raises(ProtocolError, match="speaks statecert-stdio 2"):
        opened.start()


def test_a_driver_that_ends_badly_after_close_is_a_crash(tmp_path: Path) -> None:
    with host(tmp_path, "bad_end") as opened, pytest.raises(EngineCrashedError, match="status 5 after close"):
        opened.start()


def test_a_hung_driver_does_not_outlive_the_child_that_the_harness_ends(tmp_path: Path) -> None:
    slow = Target(name="bad", adapter="stdio", options={"command": command("hang", "position"), "patience_s": 600})
    options = HostOptions(limits=Limits(call_s=1.5))
    with EngineHost(slow, tmp_path, options) as opened, pytest.raises(EngineHungError):
        life(opened)
    assert _gone(command("hang", "position"), within_s=5)


def _gone(words: str, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if words not in listed:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("how", "kind"),
    [("garbage", CrashKind.PROTOCOL), ("hang", CrashKind.HANG), ("crash", CrashKind.CRASH), ("error", "engine_error")],
)
def test_in_a_run_a_wrong_driver_ends_its_arm_as_an_observation(how: str, kind: str, tmp_path: Path) -> None:
    procedure = {
        "observability": "parts",
        "requires": ["parts"],
        "families": ["kv"],
        "chunk": 64,
        "prompts": {"A": [{"seed": 1, "length": {"tokens": 20}}]},
        "arms": [{"id": "only", "role": "candidate", "steps": [{"run": {"prompt": "A", "as": "a"}}]}],
        "checks": [{"id": "none", "cached": {"at": "only.a", "equals": 0}}],
    }
    with host(tmp_path, how, "prefill") as opened:
        evidence = run_toy(opened, toy_plan(procedure), tmp_path)

    crashes = [one for one in evidence.observations if isinstance(one, Crash)]
    assert [(one.kind, one.label) for one in crashes] == [(kind, "a")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no command"),
        ({"command": "./no-such-driver"}, "no program"),
        ({"command": "'unclosed"}, "cannot be split"),
        ({"command": command(), "patience_s": 0}, "whole seconds"),
    ],
)
def test_a_target_without_a_driver_is_refused(options: dict[str, str | int], words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        StdioAdapter().aim(options)


def test_conform_names_what_is_wrong_with_a_driver(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["conform", "--command", command("garbage", "parts"), "--patience", "20"])

    assert code == 1
    assert "the seam was broken" in capsys.readouterr().out


def test_conform_wants_an_engine_or_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conform"]) == 4
    assert cli.main(["conform", "torch", "--command", "./driver"]) == 4
    assert "stdio protocol" in capsys.readouterr().err
