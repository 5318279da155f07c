"""Tree digest v1: one digest for the contents of a set of files.

The manifest has one line per file, sorted by path as bytes: ``mode SP sha256 SP path LF``. The
digest is the SHA-256 of the manifest. Contents are read as they are imported, so an installed wheel
and a checkout give the same digest, and blobs read from git give it too. The mode is always
``100644``: an installer drops the executable bit, and the subject is what the interpreter reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.errors import NothingToDoError, StorageError, UsageError

ALGORITHM: Final = "tree-sha256-v1"
"""The id that every record of a tree digest names."""

MODE: Final = "100644"
"""The one mode of a file in a manifest."""

_NORMALISED: Final = frozenset({"100644", "100755"})
_STEP: Final = re.compile(r"[^\x00-\x1f\x7f/\\]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A set of files, as it was read."""

    digest: str
    """SHA-256 of ``manifest``, 64 hex digits."""
    manifest: bytes
    """One line per file; what a person compares when two digests differ."""
    files: int
    """How many files; never zero."""


def tree_digest(files: Mapping[str, tuple[str, bytes]]) -> Tree:
    """Return the digest of files that are at hand as bytes.

    Args:
        files: Path with ``/`` to mode and content; a mode of ``100755`` counts as ``100644``.

    Raises:
        NothingToDoError: There is no file; an empty subject would match every other empty one.
        UsageError: A path is absolute, leaves the tree or cannot stand on one line, or a mode is
            that of a link or submodule.
    """
    return _tree((path, mode, sha256(content).hexdigest()) for path, (mode, content) in files.items())


def tree_of_folder(root: Path, patterns: Sequence[str]) -> Tree:
    """Return the digest of the files below ``root`` that any of ``patterns`` names.

    Args:
        root: The folder that paths are relative to.
        patterns: Glob patterns such as ``harness/**/*.py``; each must match something.
            ``__pycache__`` folders and compiled files never count.

    Raises:
        NothingToDoError: A pattern matches no file.
        StorageError: A file is a symbolic link or cannot be read.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        matches = {path.relative_to(root).as_posix(): path for path in _sources(root, pattern)}
        if not matches:
            raise NothingToDoError(f"pattern {pattern!r} matches no file; a subject has files")
        found.update(matches)
    return _tree((name, MODE, _file_digest(path)) for name, path in found.items())


def changed_paths(earlier: bytes, later: bytes) -> tuple[str, ...]:
    """Return the paths whose line differs between two manifests, sorted; both directions."""
    lines = set(earlier.splitlines()) ^ set(later.splitlines())
    return tuple(sorted({line.split(b" ", 2)[2].decode() for line in lines}))


def _sources(root: Path, pattern: str) -> Iterable[Path]:
    for path in root.glob(pattern):
        relative = path.relative_to(root)
        if "__pycache__" in relative.parts or path.suffix in {".pyc", ".pyo"}:
            continue
        if path.is_symlink():
            raise StorageError(f"{relative}: found a symbolic link; allowed are regular files")
        if path.is_file():
            yield path


def _file_digest(path: Path) -> str:
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"{path.name}: cannot be read ({error.strerror})") from error


def _tree(entries: Iterable[tuple[str, str, str]]) -> Tree:
    lines = sorted(_line(*entry) for entry in entries)
    if not lines:
        raise NothingToDoError("found no file; a tree digest needs at least one")
    manifest = b"".join(line for _, line in lines)
    return Tree(digest=sha256(manifest).hexdigest(), manifest=manifest, files=len(lines))


def _line(path: str, mode: str, content: str) -> tuple[bytes, bytes]:
    """Return the path to sort by, and the manifest line."""
    steps = path.split("/")
    if any(step in {".", ".."} or _STEP.match(step) is None for step in steps):
        raise UsageError(f"found path {path[:120]!r}; allowed are relative paths on one line")
    if mode not in _NORMALISED:
        raise UsageError(f"found mode {mode!r} at {path!r}; allowed are regular files")
    name = path.encode("utf-8", "surrogateescape")
    return name, f"{MODE} {content} ".encode() + name + b"\n"
