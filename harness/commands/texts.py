"""Texts that a command was given: files, and Markdown files below folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.deriving.prose import Prose, read_prose
from harness.errors import StorageError, UsageError


def read_texts(names: Sequence[str]) -> Sequence[Prose]:
    """Return the texts, each once, in the order of their names.

    Raises:
        UsageError: There is no such file or folder.
        StorageError: A file cannot be read.
    """
    paths = [path for name in names for path in _below(Path(name))]
    return [read_prose(path.as_posix(), read_text(path)) for path in dict.fromkeys(paths)]


def read_text(path: Path) -> bytes:
    """Return the bytes of a text.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as problem:
        raise StorageError(f"cannot read {path}: {problem.strerror}") from problem


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(one for one in path.rglob("*.md") if one.is_file())
    elif path.is_file():
        yield path
    else:
        raise UsageError(f"no text {str(path)!r}; name a file, or a folder of Markdown files")
