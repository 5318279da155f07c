from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from harness.digest import tree
from harness.errors import NothingToDoError, StorageError, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, content in {"a.py": b"one\n", "b/c.py": b"two\n", "b/d.json": b"{}\n", "b.py": b""}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def test_the_manifest_has_one_line_per_file_sorted_by_path(folder: Path) -> None:
    found = tree.tree_of_folder(folder, ["**/*.py"])

    lines = [
        f"100644 {sha256(content).hexdigest()} {name}\n".encode()
        for name, content in (("a.py", b"one\n"), ("b.py", b""), ("b/c.py", b"two\n"))
    ]
    assert found.manifest == b"".join(lines)
    assert found.digest == sha256(found.manifest).hexdigest()
    assert found.files == 3


def test_a_mapping_of_the_same_files_gives_the_same_digest(folder: Path) -> None:
    files = {"b/c.py": ("100755", b"two\n"), "a.py": ("100644", b"one\n"), "b.py": ("100644", b"")}

    assert tree.tree_digest(files) == tree.tree_of_folder(folder, ["*.py", "b/*.py", "a.py"])


def test_a_copy_elsewhere_gives_the_same_digest(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "installed")
    (tmp_path / "installed" / "a.py").chmod(0o755)

    assert tree.tree_of_folder(tmp_path / "installed", ["**/*"]) == tree.tree_of_folder(folder, ["**/*"])


def test_compiled_files_never_count(folder: Path) -> None:
    before = tree.tree_of_folder(folder, ["**/*"])
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"x")
    (folder / "__pycache__" / "note.py").write_bytes(b"x")
    (folder / "b" / "old.pyc").write_bytes(b"x")

    assert tree.tree_of_folder(folder, ["**/*"]) == before


def test_any_changed_added_removed_or_renamed_file_changes_the_digest(folder: Path) -> None:
    seen = {tree.tree_of_folder(folder, ["**/*"]).digest}

    (folder / "a.py").write_bytes(b"one\r\n")
    seen.add(tree.tree_of_folder(folder, ["**/*"]).digest)
    (folder / "a.py").rename(folder / "e.py")
    seen.add(tree.tree_of_folder(folder, ["**/*"]).digest)
    (folder / "e.py").unlink()
    seen.add(tree.tree_of_folder(folder, ["**/*"]).digest)
    (folder / "new.py").write_bytes(b"")
    seen.add(tree.tree_of_folder(folder, ["**/*"]).digest)

    assert len(seen) == 5


def test_changed_paths_are_named(folder: Path) -> None:
    before = tree.tree_of_folder(folder, ["**/*"])
    (folder / "a.py").write_bytes(b"1\n")
    (folder / "b" / "c.py").rename(folder / "b" / "e f.py")
    after = tree.tree_of_folder(folder, ["**/*"])

    assert tree.changed_paths(before.manifest, after.manifest) == ("a.py", "b/c.py", "b/e f.py")


def test_a_pattern_without_files_is_an_error_and_not_an_empty_subject(folder: Path) -> None:
    with pytest.raises(NothingToDoError, match=r"'\*\*/\*\.cu' matches no file"):
        tree.tree_of_folder(folder, ["**/*.py", "**/*.cu"])
    with pytest.raises(NothingToDoError, match="at least one"):
        tree.tree_digest({})


def test_a_symbolic_link_is_refused(folder: Path) -> None:
    (folder / "link.py").symlink_to(folder / "a.py")

    with pytest.raises(StorageError, match=r"link\.py: found a symbolic link"):
        tree.tree_of_folder(folder, ["*.py"])


@pytest.mark.parametrize("path", ["/a", "../a", "a/../b", "a//b", "a\nb", "a\x00", "", ".", "a\\b", "a/"])
def test_a_path_that_could_forge_a_manifest_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="relative paths on one line"):
        tree.tree_digest({path: ("100644", b"")})


@pytest.mark.parametrize("mode", ["120000", "160000", "040000", "644", ""])
def test_only_regular_files_have_a_place(mode: str) -> None:
    with pytest.raises(UsageError, match="regular files"):
        tree.tree_digest({"a": (mode, b"")})


def test_the_digest_equals_that_of_the_blobs_in_git(folder: Path) -> None:
    def git(*arguments: str) -> bytes:
        command = ["git", "-C", str(folder), "-c", "core.autocrlf=false", *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout

    git("init", "-q")
    git("add", "a.py", "b.py", "b")
    listed = [line.split(maxsplit=3) for line in git("ls-files", "-s").decode().splitlines()]
    files = {name: (mode, git("cat-file", "blob", blob)) for mode, blob, _, name in listed}

    assert tree.tree_digest(files) == tree.tree_of_folder(folder, ["*.py", "b/**/*"])


def test_the_digest_of_a_fixed_set_never_changes() -> None:
    files = {"harness/a.py": ("100644", b"a = 1\n"), "harness/é.py": ("100644", b"")}

    assert tree.tree_digest(files).digest == "6caff37d664bf875d4b50566aa1795f14986a22c192b72f011e5fe513557deef"
