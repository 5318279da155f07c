"""Declared path sets: ``<package>:<glob>`` patterns to files as imported, and their digest.

Files are found where the interpreter would import them from, without importing them, and are named by their import
path (``harness/torch_engine/cache.py``). So a checkout and an installed wheel give one digest, and in a checkout whose
root is on the import path the names are those that git knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harness.digest.tree import MODE, Tree, tree_digest
from harness.errors import NothingToDoError, StorageError, UsageError
from harness.model.target import PathSet
from harness.model.values import Sha256

HARNESS_SETS: Final[Mapping[str, Sequence[str]]] = {
    "harness": (
        "harness:errors.py",
        *(f"harness:{folder}/**/*.py" for folder in ("model", "wire", "digest", "deriving", "engines", "running")),
    )
}
"""The harness's files that decide what an observation means."""
_COMPILED: Final = frozenset({".pyc", ".pyo"})


def files_of(patterns: Sequence[str]) -> Mapping[str, Path]:
    """Return the files of a path set: import path with ``/`` to the file.

    Args:
        patterns: Like ``harness.torch_engine:**/*.py``; each must match something.

    Raises:
        UsageError: A pattern is malformed, or its package is not there.
        NothingToDoError: A pattern matches no file.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        package, colon, glob = pattern.partition(":")
        if not (package and colon and glob):
            raise UsageError(f"found the pattern {pattern!r}; expected '<package>:<glob>'")
        matches = _matches(package, glob)
        if not matches:
            raise NothingToDoError(f"pattern {pattern!r} matches no file; a subject has files")
        found.update(matches)
    return found


def tree_of(patterns: Sequence[str]) -> Tree:
    """Return the tree digest of a path set.

    Raises:
        UsageError: As :func:`files_of`.
        NothingToDoError: As :func:`files_of`, or there are no patterns.
        StorageError: A file cannot be read.
    """
    return tree_digest({name: (MODE, _content(path)) for name, path in files_of(patterns).items()})


def path_sets_of(declared: Mapping[str, Sequence[str]]) -> Sequence[PathSet]:
    """Return the digests of named path sets, sorted by name.

    Raises:
        UsageError: As :func:`tree_of`.
        NothingToDoError: As :func:`tree_of`.
        StorageError: As :func:`tree_of`.
    """
    trees = {name: tree_of(declared[name]) for name in sorted(declared)}
    return [
        PathSet(name=name, digest=Sha256(tree.digest), files=tree.files, patterns=tuple(declared[name]))
        for name, tree in trees.items()
    ]


def _matches(package: str, glob: str) -> Mapping[str, Path]:
    prefix = package.replace(".", "/")
    found: dict[str, Path] = {}
    for folder in _folders(package):
        for path in sorted(folder.glob(glob)):
            relative = path.relative_to(folder)
            if path.is_file() and "__pycache__" not in relative.parts and path.suffix not in _COMPILED:
                found.setdefault(f"{prefix}/{relative.as_posix()}", path)
    return found


def _folders(package: str) -> Sequence[Path]:
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        raise UsageError(f"the package {package!r} of a path set is not on the import path")
    return [Path(location) for location in spec.submodule_search_locations]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path.name}: cannot be read ({error.strerror})") from error
