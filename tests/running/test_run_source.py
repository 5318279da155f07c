"""Where files came from: digests of what is imported, and git's word on it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.engines.subject import HARNESS_SETS, files_of, path_sets_of
from harness.errors import NothingToDoError, UsageError
from harness.model.values import TreeState
from harness.running.probe import machine_digest, probe_environment
from harness.running.source import changed_since, source_of, stamps_of, tree_state
from harness.wire import privacy


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("one = 1\n", encoding="utf-8")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "a.py")
    _git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x")
    return tmp_path.resolve()


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_files_as_committed_are_clean(repository: Path) -> None:
    state, commit = tree_state([repository / "a.py"])

    assert state is TreeState.CLEAN
    assert len(commit) == 40


def test_other_files_never_make_a_path_set_dirty(repository: Path) -> None:
    (repository / "run.log").write_text("noise", encoding="utf-8")

    assert tree_state([repository / "a.py"])[0] is TreeState.CLEAN


def test_a_changed_file_is_dirty_also_where_it_is_staged(repository: Path) -> None:
    (repository / "a.py").write_text("one = 2\n", encoding="utf-8")
    _git(repository, "add", "a.py")

    assert tree_state([repository / "a.py"])[0] is TreeState.DIRTY


def test_a_file_that_git_does_not_have_is_dirty(repository: Path) -> None:
    (repository / "b.py").write_text("", encoding="utf-8")

    assert tree_state([repository / "a.py", repository / "b.py"])[0] is TreeState.DIRTY


def test_a_file_that_is_written_to_while_a_run_lasts_is_seen_and_one_that_is_only_touched_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = _package(tmp_path, monkeypatch)
    sets = {"engine": ["rests_on:*.py"]}
    stamps, source = stamps_of(sets), source_of(sets)
    before = changed_since(source, sets, stamps)
    part.touch()
    touched = changed_since(source, sets, stamps)
    part.write_text("two = 2\n")
    written = changed_since(source, sets, stamps)
    shutil.rmtree(part.parent)

    assert (before, touched, written) == (False, False, True)
    assert changed_since(source, sets, stamps)


def _package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    part = folder / "rests_on" / "part.py"
    part.parent.mkdir()
    (part.parent / "__init__.py").touch()
    part.write_text("one = 1\n")
    monkeypatch.syspath_prepend(folder)
    return part


def test_files_outside_of_a_repository_have_no_commit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("", encoding="utf-8")

    assert tree_state([tmp_path / "a.py"]) == (TreeState.NO_REPOSITORY, "")


def test_the_source_of_this_run_names_every_declared_set() -> None:
    source = source_of({"engine": ["harness.torch_engine:**/*.py"]})

    assert [one.name for one in source.path_sets] == ["engine", "harness"]
    assert all(one.files > 5 for one in source.path_sets)


def test_files_are_named_by_their_import_path() -> None:
    names = list(files_of(HARNESS_SETS["harness"]))

    assert "harness/errors.py" in names
    assert "harness/model/values.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_a_pattern_without_a_file_is_refused() -> None:
    with pytest.raises(NothingToDoError, match="matches no file"):
        files_of(["harness:nothing/*.py"])


@pytest.mark.parametrize("pattern", ["harness", ":*.py", "no_such_package:*.py"])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        path_sets_of({"x": [pattern]})


def test_the_environment_names_no_host_user_or_path() -> None:
    found = probe_environment()

    assert privacy.findings({"machine": found.machine, "facts": dict(found.facts)}) == []
    assert {"os", "kernel", "libc", "python", "cpu", "cores", "memory_bytes"} <= set(found.facts)


def test_a_machine_is_told_by_a_salted_hash() -> None:
    assert machine_digest("abc\n") == machine_digest("abc")
    assert machine_digest("abc") != machine_digest("abd")
    assert machine_digest("abc") != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
