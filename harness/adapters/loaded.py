"""What a running program has really loaded: its own file and its libraries, as one digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

BUILD: Final = "build_sha256"
"""Fact of an identity: SHA-256 of what an engine has loaded; tells two builds apart."""
_SYSTEM: Final = ("/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/")
_INTERPRETERS: Final = ("python", "node", "ruby", "perl", "bash", "sh", "dash")


def loaded_digest(pid: int, words: Sequence[str]) -> str:
    """Return the SHA-256 over what a process has loaded; empty: the system does not tell.

    It is taken over the digests, as raw bytes in ascending order, of the program and of every library that it has
    mapped from outside the folders of the system. Of an interpreter no libraries count, and its script does.

    Args:
        pid: Of the process.
        words: Of the command that started it.

    Raises:
        OSError: A file cannot be read.
    """
    program = Path(f"/proc/{pid}/exe")
    if not program.exists():
        return ""
    scripted = program.resolve().name.startswith(_INTERPRETERS)
    files = [program, *(_scripts(words) if scripted else _libraries(pid, program.resolve()))]
    return hashlib.sha256(b"".join(sorted(_digest(path) for path in files))).hexdigest()


def _scripts(words: Sequence[str]) -> Iterator[Path]:
    yield from (path for word in words[:4] if (path := Path(word)).suffix and path.is_file())


def _libraries(pid: int, program: Path) -> list[Path]:
    rows = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    mapped = {row.split(maxsplit=5)[5] for row in rows if len(row.split(maxsplit=5)) == 6}
    found = (Path(name) for name in sorted(mapped) if name.startswith("/") and ".so" in Path(name).name)
    return [path for path in found if not str(path).startswith(_SYSTEM) and path != program and path.is_file()]


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
