"""One story in a scratch git repository: issue, run again, supersede, withdraw, reinstate, merge two branches."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.certifying.issue import issue
from harness.certifying.ledger import regenerate_all
from harness.cli import main
from harness.errors import ExitCode
from harness.gating.gate import gate
from harness.model.certificate import GateReport
from tests.fakes.evidence import Recorded
from tests.ledger.support import KEY, by_run, file, good, states, stop

UNION = "certificates/*/*/*/*.json merge=union\ncertificates/**/README.md merge=union\n"
"""What docs/formats/ledger.md asks a repository to say of generated lines."""


class Scratch:
    """A repository with a certificates folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "certificates"
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        (root / ".gitattributes").write_text(UNION)

    def git(self, *words: str) -> str:
        safe = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{
                f"GIT_{who}_{what}": "t@statecert.invalid"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
        }
        return subprocess.run(
            ["git", *words], cwd=self.root, env=safe, check=True, capture_output=True, text=True
        ).stdout

    def commit(self, what: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", what)

    def on_branch(self, name: str, run: Recorded | None = None, *command: str) -> None:
        """From main: a branch on which a run is issued or a command is given."""
        self.git("checkout", "-q", "-b", name, "main")
        if run is not None:
            issue(run.data(), self.folder)
        if command:
            assert main([*command, "--folder", str(self.folder)]) == 0
        self.commit(name)
        self.git("checkout", "-q", "main")

    def merged(self, *branches: str) -> GateReport:
        """Merge branches into main, one after another; none may conflict. Return what the gate says then."""
        for branch in branches:
            self.git("merge", "-q", "--no-edit", branch)
        assert self.git("diff", "--name-only", "--diff-filter=U") == ""
        return gate([self.folder])

    def command(self, *words: str) -> int:
        return main([*words, "--folder", str(self.folder)])


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    found = Scratch(tmp_path)
    file(found.folder, stop(1))
    found.commit("a stop")
    return found


def told(report: GateReport) -> str:
    return "\n".join(f"{one.rule} {one.message}" for one in report.findings)


def test_a_story(scratch: Scratch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scratch.folder
    assert gate([folder]).exit_code is ExitCode.GOOD
    assert len(gate([folder]).stops) == 1

    # run again: the stop is superseded by itself, and says so where a reader lands
    issue(good(2).data(), folder)
    scratch.commit("run again")
    assert states(folder) == {1: "superseded", 2: "current"}
    first, second = by_run(folder, 1).id, by_run(folder, 2).id
    assert f"`{second[:12]}` replaced `{first[:12]}`" in (folder / KEY / "README.md").read_text()

    # the run was not valid: taken back, and the stop holds again
    assert scratch.command("withdraw", second[:8], "--reason", "measurement_invalid") == 0
    scratch.commit("withdraw")
    assert states(folder) == {1: "current", 2: "withdrawn"}
    assert (gate([folder]).exit_code, len(gate([folder]).stops)) == (ExitCode.GOOD, 1)

    # it was valid after all
    assert scratch.command("reinstate", second[:8], "--reason", "record_error") == 0
    scratch.commit("reinstate")
    assert states(folder) == {1: "superseded", 2: "current"}
    assert gate([folder]).findings == ()

    # two branches run again at once: no conflict, and a fork that the gate names
    scratch.on_branch("left", good(3))
    scratch.on_branch("right", good(4))
    scratch.merged("left", "right")
    third, fourth = by_run(folder, 3).id, by_run(folder, 4).id
    regenerate_all(folder)
    report = gate([folder])
    assert report.exit_code is ExitCode.INVALID
    assert {one.rule for one in report.findings} == {"CG501", "CG503"}
    assert "two_successors" in told(report)
    for identity in (second, third, fourth):
        assert identity in told(report)

    # mended by a further event
    assert scratch.command("supersede", third[:8], "--by", fourth[:8], "--reason", "rerun_same_inputs") == 0
    assert states(folder) == {1: "superseded", 2: "superseded", 3: "superseded", 4: "current"}
    assert gate([folder]).findings == ()
    capsys.readouterr()
    assert scratch.command("history", first[:8]) == 0
    text = capsys.readouterr().out
    assert text.index(first[:12]) < text.index(third[:12])
    assert "the measurement was not valid" in text
    assert "superseded by" in text


def test_two_branches_that_say_different_things_merge_and_are_generated_anew(scratch: Scratch) -> None:
    folder = scratch.folder
    identity = by_run(folder, 1).id[:8]
    scratch.on_branch("left", None, "annotate", identity, "--note-code", "environment_changed", "--note", "see driver")
    scratch.on_branch("right", None, "waive", identity, "--rule", "CG605", "--reason", "environment_changed")

    scratch.merged("left", "right")
    regenerate_all(folder)

    assert gate([folder]).findings == ()
    assert [event.kind for event in sorted_events(folder)] == ["annotate", "waive"]


def test_withdrawn_here_and_superseded_there_is_named_and_mended(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    folder = scratch.folder
    file(folder, good(1))
    scratch.commit("a pass")
    first = by_run(folder, 1).id
    scratch.on_branch("left", None, "withdraw", first[:8], "--reason", "harness_bug")
    scratch.on_branch("right", good(2))

    scratch.merged("left", "right")
    regenerate_all(folder)
    report = gate([folder])
    second = by_run(folder, 2).id
    assert report.exit_code is ExitCode.INVALID
    assert "withdrew" in told(report) or "excludes" in told(report)
    assert first in told(report)
    assert second in told(report)

    assert scratch.command("supersede", first[:8], "--by", second[:8], "--reason", "rerun_same_inputs", "--mend") == 0
    assert states(folder) == {1: "superseded", 2: "current"}
    assert gate([folder]).findings == ()


def sorted_events(folder: Path) -> list:  # type: ignore[type-arg]
    from harness.certifying.store import read_store

    return sorted(read_store(folder).events, key=lambda event: str(event.kind))
