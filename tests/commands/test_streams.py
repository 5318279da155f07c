"""Streams that a caller closed or that know few letters: what a command came to does not depend on them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli
from harness.errors import ExitCode

FEW_LETTERS = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def shell(line: str, folder: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a shell that may close its streams."""
    words = ["/bin/sh", "-c", f'"$0" -m harness {line}', sys.executable]
    return subprocess.run(words, cwd=folder, env={**os.environ, **more}, capture_output=True, check=False, timeout=60)


def test_a_locale_of_few_letters_changes_no_exit_code(tmp_path: Path) -> None:
    found = shell("mutants --count", tmp_path, **FEW_LETTERS)

    assert (found.returncode, found.stderr) == (ExitCode.GOOD, b"")
    assert b"mutants" in found.stdout
    found.stdout.decode("ascii")


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(tmp_path: Path, closed: str) -> None:
    assert shell(f"mutants --count {closed}", tmp_path).returncode == ExitCode.GOOD
    assert shell(f"mutants nothing {closed}", tmp_path).returncode in (ExitCode.USAGE, ExitCode.NOTHING)


def test_what_the_command_opens_does_not_take_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    asked = "import os; from harness import cli; cli.whole_streams(); print(os.open(os.devnull, os.O_RDONLY) > 2)"
    words = ["/bin/sh", "-c", f'"$0" -c "{asked}" <&- 2>&-', sys.executable]

    found = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=60)

    assert (found.returncode, found.stdout) == (0, b"True\n")


def test_what_the_system_refuses_is_not_called_an_error_of_the_harness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: object) -> ExitCode:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("harness.commands.mutants.run", full)

    assert cli.main(["mutants", "--count"]) == ExitCode.BROKEN
    assert capsys.readouterr().err == "statecert: the system refused: No space left on device; choose another place\n"
