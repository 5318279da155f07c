"""Freshness: the producer's digest, the changed files by name, and nothing outside the trees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.certifying.issue import issue
from harness.cli import main
from harness.digest.tree import tree_of_folder
from harness.engines.subject import HARNESS_SETS, path_sets_of
from harness.errors import ExitCode
from harness.gating.freshness import Freshness
from harness.gating.gate import gate
from harness.gating.outputs import text
from tests.commands.command_support import ROOT
from tests.gating.fixtures import valid
from tests.gating.fresh_fixtures import PATTERN, another_tree, in_the_tree, make_tree, measured, the_tree, valid_fresh


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(root), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(root: Path, what: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", what)


def test_the_gate_digests_as_the_producer_does() -> None:
    [made] = path_sets_of(HARNESS_SETS)

    assert made.patterns == HARNESS_SETS["harness"]
    as_held = {"name": made.name, "digest": str(made.digest), "files": made.files, "patterns": list(made.patterns)}
    assert Freshness([str(ROOT)]).fault(as_held, "") == ""
    below = [pattern.replace(":", "/") for pattern in made.patterns]
    assert tree_of_folder(ROOT, below).digest == made.digest


def test_files_at_hand_are_fresh_and_changed_ones_are_not(tmp_path: Path) -> None:
    valid_fresh(tmp_path)

    assert gate([tmp_path], **in_the_tree()).findings == ()
    report = gate([tmp_path], fresh_in=[str(another_tree())])
    assert report.exit_code is ExitCode.FINDINGS
    [finding] = report.findings
    assert finding.where.endswith("#/body/harness/path_sets/0")
    assert "is stale: path set engine is " in finding.message
    assert gate([tmp_path]).findings == ()


def test_the_first_tree_that_has_the_package_counts(tmp_path: Path) -> None:
    valid_fresh(tmp_path)
    empty = tmp_path / "evidence"

    assert gate([tmp_path], fresh_in=[str(empty), str(the_tree()), str(another_tree())]).findings == ()
    assert gate([tmp_path], fresh_in=[str(empty), str(another_tree())]).exit_code is ExitCode.FINDINGS


def test_changed_new_and_deleted_files_are_named_where_git_has_the_commit(tmp_path: Path) -> None:
    root, folder = make_tree(tmp_path / "tree"), tmp_path / "certificates"
    folder.mkdir()
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "measured")
    issue(measured(PATTERN, commit=git(root, "rev-parse", "HEAD"), root=root).data(), folder)
    assert gate([folder], fresh_in=[str(root)]).findings == ()
    (root / "pkg" / "engine" / "one.py").write_text("ONE = 3\n")
    (root / "pkg" / "engine" / "deep" / "two.py").unlink()
    (root / "pkg" / "engine" / "three.py").write_text("THREE = 3\n")
    (root / "pkg" / "other.py").write_text("no part of the set\n")

    [finding] = gate([folder], fresh_in=[str(root)]).findings

    assert finding.message.endswith("pkg/engine/deep/two.py, pkg/engine/one.py, pkg/engine/three.py")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "changed, in a commit of its own")
    assert gate([folder], fresh_in=[str(root)]).findings == (finding,)


def test_a_rebased_tree_with_the_same_bytes_is_fresh(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    issue(measured(PATTERN, commit="ab" * 20).data(), folder)

    assert gate([folder], **in_the_tree()).findings == ()


@pytest.mark.parametrize(
    "pattern",
    ["pkg.engine:/etc/*", "pkg.engine:a//b", "pkg.engine:./x.py", "pkg/../..:*.py", "--output:x", ":x", "pkg"],
)
def test_a_pattern_that_leaves_its_package_is_refused(pattern: str) -> None:
    held = {"name": "engine", "digest": "0" * 64, "files": 1, "patterns": [pattern]}

    fault = Freshness([str(the_tree())]).fault(held, "")

    assert "is none; one is like" in fault


def test_a_link_in_a_set_is_refused(tmp_path: Path) -> None:
    root = make_tree(tmp_path)
    (root / "pkg" / "engine" / "link.py").symlink_to(root / "pkg" / "engine" / "one.py")
    held = {"name": "engine", "digest": "0" * 64, "files": 1, "patterns": [PATTERN]}

    assert "symbolic link" in Freshness([str(root)]).fault(held, "")


def test_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    valid_fresh(folder)

    assert main(["gate", str(folder), "--fresh", "--root", str(the_tree())]) == 0
    assert main(["gate", str(folder), "--fresh", "--root", str(another_tree())]) == 1
    monkeypatch.chdir(the_tree())
    assert main(["gate", str(folder), "--fresh"]) == 0
    assert main(["gate", str(folder), "--root", str(the_tree())]) == 4
    assert main(["gate", str(folder), "--fresh", "--root", str(tmp_path / "nowhere")]) == 4


def test_a_record_without_patterns_is_not_called_fresh(tmp_path: Path) -> None:
    valid(tmp_path)

    assert gate([tmp_path]).exit_code is ExitCode.GOOD
    assert "nobody can tell" in gate([tmp_path], **in_the_tree()).findings[0].message


def a_repository(root: Path) -> str:
    """A tree in a repository; return its commit."""
    make_tree(root)
    git(root, "init", "-q", "-b", "main")
    committed(root, "measured here")
    return git(root, "rev-parse", "HEAD").strip()


def test_a_later_commit_with_the_same_files_carries_the_measurement(tmp_path: Path) -> None:
    root, folder = tmp_path / "tree", tmp_path / "certificates"
    commit = a_repository(root)
    folder.mkdir()
    issue(measured(PATTERN, commit=commit, root=root).data(), folder)
    assert gate([folder], fresh_in=[str(root)]).carried == ()

    (root / "README").write_text("other words\n")
    committed(root, "words")
    head = git(root, "rev-parse", "HEAD").strip()
    report = gate([folder], fresh_in=[str(root)])

    assert report.exit_code is ExitCode.GOOD
    assert report.carried == (f"measured at {commit}, carried to {head}: 1 certificates",)
    assert f"fresh  measured at {commit}" in text(report)


def test_a_squash_of_the_same_files_carries_it_too(tmp_path: Path) -> None:
    root, folder = tmp_path / "tree", tmp_path / "certificates"
    a_repository(root)
    git(root, "checkout", "-q", "-b", "work")
    (root / "pkg" / "engine" / "one.py").write_text("ONE = 11\n")
    committed(root, "one")
    (root / "pkg" / "engine" / "one.py").write_text("ONE = 12\n")
    committed(root, "two")
    commit = git(root, "rev-parse", "HEAD").strip()
    folder.mkdir()
    issue(measured(PATTERN, commit=commit, root=root).data(), folder)

    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--squash", "work")
    committed(root, "both")

    assert len(gate([folder], fresh_in=[str(root)]).carried) == 1


def test_the_same_patch_on_another_base_is_shown_and_is_stale(tmp_path: Path) -> None:
    root, folder = tmp_path / "tree", tmp_path / "certificates"
    a_repository(root)
    git(root, "checkout", "-q", "-b", "work")
    (root / "pkg" / "engine" / "one.py").write_text("ONE = 11\n")
    committed(root, "one")
    commit = git(root, "rev-parse", "HEAD").strip()
    folder.mkdir()
    issue(measured(PATTERN, commit=commit, root=root).data(), folder)
    git(root, "checkout", "-q", "main")
    (root / "pkg" / "engine" / "deep" / "two.py").write_text("TWO = 22\n")
    committed(root, "the base moved")
    git(root, "cherry-pick", commit)
    head = git(root, "rev-parse", "HEAD").strip()

    report = gate([folder], fresh_in=[str(root)])

    assert report.exit_code is ExitCode.FINDINGS
    assert report.carried == ()
    assert f"{head[:12]} is the same patch on another base" in report.findings[0].message
