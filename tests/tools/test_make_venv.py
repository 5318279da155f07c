"""The environment maker decides rightly, without an environment being made."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Version(NamedTuple):
    major: int
    minor: int
    micro: int = 0
    releaselevel: str = "final"
    serial: int = 0


class Desk:
    """A checkout in a temporary folder, and what was asked of venv and pip."""

    def __init__(self, folder: Path, tool: ModuleType) -> None:
        self.folder = folder
        self.tool = tool
        self.made: list[str] = []
        """Versions of the caller's torch that were to be seen; empty: none."""
        self.installs: list[list[str]] = []
        self.code = 0
        self.refused = ""
        """Extras that no index has; empty: all are there."""

    def install(self, command: list[str], **_: object) -> SimpleNamespace:
        self.installs.append(command)
        lacking = bool(self.refused) and self.refused in command[-1]
        return SimpleNamespace(returncode=1 if lacking else self.code)

    @property
    def constraints(self) -> str:
        return (self.folder / ".venv" / "constraints.txt").read_text()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    spec = importlib.util.spec_from_file_location("make_venv_under_test", ROOT / "tools" / "make_venv.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for name in ("pyproject.toml", "setup.py"):
        (tmp_path / name).write_text(name)
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\nnumpy==2.4.6\npytest==9.2.0\n")
    desk = Desk(tmp_path, tool)

    def make_home(home: Path, own: str) -> None:
        desk.made.append(own)
        home.mkdir(exist_ok=True)

    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "HOME", tmp_path / ".venv")
    monkeypatch.setattr(tool, "STAMP", tmp_path / ".venv" / "statecert-stamp")
    monkeypatch.setattr(tool, "make_home", make_home)
    monkeypatch.setattr(tool, "torch_of", lambda _: desk.made[-1])
    monkeypatch.setattr(tool, "subprocess", SimpleNamespace(run=desk.install))
    monkeypatch.setattr(tool, "torch_of_caller", lambda: "")
    return desk


@pytest.mark.parametrize("version", [Version(2, 7, 18), Version(3, 10, 14), Version(3, 14), Version(4, 0)])
def test_another_python_is_refused_with_a_way_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: Version
) -> None:
    monkeypatch.setattr(desk.tool, "sys", SimpleNamespace(version_info=version, stderr=sys.stderr))

    code = desk.tool.main()

    said = capsys.readouterr().err
    assert code == 4
    assert ".".join(map(str, version[:3])) in said
    assert "PYTHON=" in said
    assert not desk.made


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_each_python_in_range_is_taken(desk: Desk, monkeypatch: pytest.MonkeyPatch, minor: int) -> None:
    monkeypatch.setattr(
        desk.tool,
        "sys",
        SimpleNamespace(
            version_info=Version(3, minor), stderr=sys.stderr, executable=sys.executable, prefix=sys.prefix
        ),
    )

    assert desk.tool.main() == 0
    assert len(desk.made) == 1


def test_the_ranges_are_those_of_the_metadata(desk: Desk) -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (low, high), (torch_low, torch_high) = desk.tool.PYTHONS, (desk.tool.LOWEST, desk.tool.BEYOND)

    assert f'requires-python = ">={low[0]}.{low[1]},<{high[0]}.{high[1]}"' in text
    assert f'"torch>={torch_low[0]}.{torch_low[1]},<{torch_high[0]}.{torch_high[1]}"' in text


def telling(text: str, code: int = 0) -> Callable[..., subprocess.CompletedProcess[str]]:
    return lambda *_, **__: subprocess.CompletedProcess([], code, stdout=text, stderr="")


@pytest.mark.parametrize(
    ("told", "code", "taken"),
    [
        ("2.6.0\n", 0, "2.6.0"),
        ("2.9.1+rocm6.4\n", 0, "2.9.1+rocm6.4"),
        ("2.13.0+cu129\n", 0, "2.13.0+cu129"),
        ("2.10.0a0+git1234\n", 0, "2.10.0a0+git1234"),
        ("2.5.1\n", 0, ""),
        ("2.15.0\n", 0, ""),
        ("1.13.1\n", 0, ""),
        ("3.0.0\n", 0, ""),
        ("", 1, ""),
        ("2.9.0\n", 1, ""),
        ("unknown\n", 0, ""),
    ],
)
def test_a_torch_of_the_caller_counts_if_it_is_in_range(
    monkeypatch: pytest.MonkeyPatch, told: str, code: int, taken: str
) -> None:
    spec = importlib.util.spec_from_file_location("make_venv_alone", ROOT / "tools" / "make_venv.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "subprocess", SimpleNamespace(run=telling(told, code)))

    assert tool.torch_of_caller() == taken


def test_a_torch_in_range_is_reused_and_its_pins_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: "2.9.1+rocm6.4")

    assert desk.tool.main() == 0
    assert desk.made == ["2.9.1+rocm6.4"]
    assert desk.constraints == "pytest==9.2.0\n"
    assert "2.9.1+rocm6.4" in capsys.readouterr().err


def test_one_that_a_new_environment_does_not_see_is_given_up_for_the_pinned_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: "2.9.1+rocm6.4")
    monkeypatch.setattr(desk.tool, "torch_of", lambda _: "")

    for _ in range(2):
        assert desk.tool.main() == 0
        assert desk.made == ["2.9.1+rocm6.4", ""]
        assert "torch==2.13.0\n" in desk.constraints
        desk.tool.STAMP.unlink()
    assert "does not see" in capsys.readouterr().err


def test_without_one_the_pinned_torch_is_installed(desk: Desk) -> None:
    assert desk.tool.main() == 0
    assert desk.made == [""]
    assert "torch==2.13.0\n" in desk.constraints
    command, compiling = desk.installs
    assert command[command.index("-c") + 1] == str(desk.folder / ".venv" / "constraints.txt")
    assert command[-2:] == ["-e", f"{desk.folder}[dev]"]
    assert "--no-compile" in command
    assert compiling[1:3] == ["-m", "compileall"]
    seldom = re.compile(compiling[compiling.index("-x") + 1])
    assert seldom.search("lib/site-packages/transformers/models/x/y.py")
    assert not any(seldom.search(f"lib/site-packages/{name}") for name in ("torch/nn/testing.py", "transformers/x.py"))


def test_extras_of_a_new_environment_come_in_the_same_go(desk: Desk) -> None:
    assert desk.tool.main("a,b") == 0

    command, _ = desk.installs
    assert command[-2:] == ["-e", f"{desk.folder}[dev,a,b]"]
    assert desk.tool.add_extras("a,b") == 0
    assert len(desk.installs) == 2


def test_extras_that_cannot_be_installed_do_not_keep_the_rest_out(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.refused = "a,b"

    assert desk.tool.main("a,b") == 0
    assert desk.tool.STAMP.is_file()
    assert desk.tool.add_extras("a,b") == 3
    assert "could not install the extras" in capsys.readouterr().err
    desk.refused = ""
    assert desk.tool.add_extras("a,b") == 0


def test_an_environment_that_is_up_to_date_is_left_alone(desk: Desk) -> None:
    desk.tool.main()

    assert desk.tool.main() == 0
    assert len(desk.made) == 1


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "setup.py"])
def test_it_is_installed_into_again_when_what_it_is_made_from_changes(desk: Desk, name: str) -> None:
    desk.tool.main()
    before = desk.tool.STAMP.read_text()
    path = desk.folder / name
    path.write_text(path.read_text() + "# changed\n")

    assert desk.tool.main() == 0
    assert desk.tool.STAMP.read_text() != before
    assert len(desk.made) == 1


def test_it_is_made_anew_when_the_torch_comes_from_elsewhere(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.tool.main()
    desk.tool.STAMP.unlink()
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: "2.11.0")

    assert desk.tool.main() == 0
    assert len(desk.made) == 2


def test_another_interpreter_makes_it_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = desk.tool.stamp()
    monkeypatch.setattr(desk.tool, "sys", SimpleNamespace(executable="/elsewhere/python3", prefix="/elsewhere"))

    assert desk.tool.stamp() != before


def test_a_failed_install_leaves_no_stamp_and_says_so(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.code = 1

    assert desk.tool.main() == 3
    assert not desk.tool.STAMP.exists()
    assert "pip" in capsys.readouterr().err
    desk.code = 0
    assert desk.tool.main() == 0
    assert len(desk.made) == 1


def python_of(desk: Desk, *, inside: bool, name: str = "python3") -> SimpleNamespace:
    """A ``sys`` of the environment that is made, or of the Python that lies in ``base``."""
    base = desk.folder / "base"
    home = desk.folder / ".venv" if inside else base
    (base / "bin").mkdir(parents=True, exist_ok=True)
    (base / "bin" / "python3.11").touch()
    for link in (base / "bin" / "python3", base / "bin" / "python"):
        if not link.is_symlink():
            link.symlink_to("python3.11")
    return SimpleNamespace(
        version_info=Version(3, 11),
        stderr=sys.stderr,
        prefix=str(home),
        executable=str(home / "bin" / name),
        _base_executable=str(base / "bin" / "python3.11"),
    )


def test_called_from_inside_it_leaves_an_environment_that_is_up_to_date_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=False))
    assert desk.tool.main() == 0
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=True))
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: "2.13.0+cpu")

    assert desk.tool.main() == 0
    assert desk.made == [""]
    assert len(desk.installs) == 2


@pytest.mark.parametrize("own", ["", "2.9.1+rocm6.4"])
def test_called_from_inside_it_installs_what_changed_without_emptying_it_and_so_does_the_next_call_from_outside(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=False))
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: own)
    assert desk.tool.main() == 0
    (desk.folder / "setup.py").write_text("changed")
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=True))
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: "2.13.0+cpu")

    assert desk.tool.main() == 0
    assert len(desk.installs) == 4
    assert ("torch==2.13.0\n" in desk.constraints) is not bool(own)
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=False))
    monkeypatch.setattr(desk.tool, "torch_of_caller", lambda: own)
    assert desk.tool.main() == 0
    assert desk.made == [own]
    assert len(desk.installs) == 4


def test_an_environment_made_by_hand_and_activated_is_installed_into_and_kept_by_the_next_call_from_outside(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.folder / ".venv").mkdir()
    monkeypatch.setattr(desk.tool, "torch_of", lambda _: "")
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=True))

    assert desk.tool.main() == 0
    assert "torch==2.13.0\n" in desk.constraints
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=False))
    assert desk.tool.main() == 0
    assert not desk.made
    assert len(desk.installs) == 2


def test_another_name_of_the_same_python_makes_nothing_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=False))
    assert desk.tool.main() == 0
    monkeypatch.setattr(desk.tool, "sys", python_of(desk, inside=False, name="python"))

    assert desk.tool.main() == 0
    assert desk.made == [""]
    assert len(desk.installs) == 2
