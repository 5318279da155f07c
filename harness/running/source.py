"""Where the harness's and the engine's files came from: digests of path sets, and whether git has the same.

The tree state is computed once, at the start of a run, and over path sets only: a run, its logs and its certificates
never make a tree dirty. Contents are hashed here; git is only asked what the commit holds.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from harness.engines.subject import HARNESS_SETS, files_of, path_sets_of
from harness.errors import StatecertError
from harness.model.target import Source
from harness.model.values import TreeState

Stamps = Mapping[Path, Sequence[int]]
"""Of files, what changes when they are written to."""
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def source_of(engine_sets: Mapping[str, Sequence[str]]) -> Source:
    """Return the state of the tree that this process imports from.

    Args:
        engine_sets: Path sets that the engine declares.

    Raises:
        UsageError: A path set is malformed, or its package is not there.
        NothingToDoError: A pattern matches no file.
        StorageError: A file cannot be read.
    """
    declared = {**HARNESS_SETS, **engine_sets}
    files = {path.resolve() for patterns in declared.values() for path in files_of(patterns).values()}
    state, commit = tree_state(files)
    return Source(tree=state, commit=commit, harness_version=_version(), path_sets=path_sets_of(declared))


def stamps_of(engine_sets: Mapping[str, Sequence[str]]) -> Stamps:
    """Return when the files of the harness and of an engine were changed last, to see later whether they were since.

    Args:
        engine_sets: Path sets that the engine declares.

    Raises:
        StatecertError: As :func:`source_of`.
    """
    declared = {**HARNESS_SETS, **engine_sets}
    return {path: _stamp(path) for patterns in declared.values() for path in files_of(patterns).values()}


def changed_since(source: Source, engine_sets: Mapping[str, Sequence[str]], stamps: Stamps) -> bool:
    """Tell whether files of the path sets are others than when a source was taken of them.

    They are read again only where one was touched meanwhile: its time of change is one that nobody can set back.

    Args:
        source: From :func:`source_of`.
        engine_sets: As it was given.
        stamps: From :func:`stamps_of`, before the source was taken.
    """
    if all(_stamp(path) == stamp for path, stamp in stamps.items()):
        return False
    try:
        return list(path_sets_of({**HARNESS_SETS, **engine_sets})) != list(source.path_sets)
    except StatecertError:  # a file is gone, or a whole package
        return True


def _stamp(path: Path) -> Sequence[int]:
    """What a write to a file, or another file in its place, changes; nothing where there is none."""
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def tree_state(files: Iterable[Path]) -> tuple[TreeState, str]:
    """Return whether files equal what git has at the commit that is checked out, and that commit.

    Files of installed packages belong to no work tree and are passed over.

    Args:
        files: Resolved paths.
    """
    own = sorted(path for path in files if not _INSTALLED & set(path.parts))
    root = _work_tree(own[0].parent) if own else None
    if root is None:
        return TreeState.NO_REPOSITORY, ""
    held = _blobs(root)
    commit = _git(root, "rev-parse", "HEAD").strip()
    clean = all(path.is_relative_to(root) and _is_held(path, root, held) for path in own)
    return (TreeState.CLEAN if clean else TreeState.DIRTY), commit


def _is_held(path: Path, root: Path, held: Mapping[str, str]) -> bool:
    wanted = held.get(path.relative_to(root).as_posix())
    return wanted is not None and wanted == _blob(path.read_bytes(), wanted)


def _blob(content: bytes, like: str) -> str:
    """Return git's id of a content, in the hash that ``like`` is written in."""
    kind = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(kind, b"blob %d\x00" % len(content) + content, usedforsecurity=False).hexdigest()


def _work_tree(folder: Path) -> Path | None:
    root = _git(folder, "rev-parse", "--show-toplevel").strip()
    return Path(root).resolve() if root and _git(folder, "rev-parse", "--verify", "HEAD") else None


def _blobs(root: Path) -> Mapping[str, str]:
    """Return path to blob id of everything in the commit."""
    found: dict[str, str] = {}
    for entry in _git(root, "ls-tree", "-r", "-z", "HEAD").split("\0"):
        about, tab, path = entry.partition("\t")
        if tab:
            found[path] = about.split(" ")[2]
    return found


def _git(folder: Path, *arguments: str) -> str:
    """Return what git says; empty where there is no git or no repository."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""


def _version() -> str:
    try:
        return version("statecert")
    except PackageNotFoundError:
        return "0+unknown"
