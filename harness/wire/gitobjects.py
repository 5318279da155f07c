"""What git holds: commits, trees and contents, read from its objects and never from the files of a work tree.

Whoever asks may stand in a checkout of somebody else's change. So git is started without hooks, without replacement
objects, and with fixed arguments; names that come from outside stand behind ``--end-of-options``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

from harness.errors import StorageError, UsageError

_PATIENCE_S: Final = 120
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=", "-c", "core.quotePath=false")


class Blob(NamedTuple):
    """One file of a tree."""

    mode: str
    """Like ``100644``; ``120000`` is a link, ``160000`` a submodule."""
    name: str
    """Git's id of the content."""


class Gone(NamedTuple):
    """A path that a commit took away."""

    path: str
    commit: str


class Repository:
    """A work tree and the objects behind it.

    Args:
        folder: Any folder inside the work tree.

    Raises:
        UsageError: There is no git, or the folder lies in no work tree.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder
        top = self._text("rev-parse", "--show-toplevel").strip()
        if not top:
            raise UsageError(f"{folder} lies in no git repository")
        self.root = Path(top).resolve()

    def commit(self, name: str) -> str:
        """Return the id of the commit that a name stands for.

        Raises:
            UsageError: There is none; in a shallow clone it may not have been fetched.
        """
        found = self._text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        if not found:
            raise UsageError(f"git knows no commit {name[:80]!a} here; fetch it, with the history up to it")
        return found

    def merge_base(self, one: str, other: str) -> str:
        """Return the best common ancestor of two commits; empty where there is none.

        Raises:
            UsageError: None is at hand, and the clone is shallow: it may have been cut off.
        """
        found = self._text("merge-base", one, other).strip()
        if not found and self._text("rev-parse", "--is-shallow-repository").strip() == "true":
            raise UsageError("the clone is shallow, so the common ancestor cannot be told; fetch the whole history")
        return found

    def is_ancestor(self, old: str, new: str) -> bool:
        """Tell whether a commit is another one or lies before it."""
        return self._run("merge-base", "--is-ancestor", old, new).returncode == 0

    def tree(self, commit: str, below: str) -> Mapping[str, Blob]:
        """Return the files of a commit below a path, by their paths below the root."""
        found: dict[str, Blob] = {}
        listed = self._bytes("ls-tree", "-r", "-z", "--full-tree", commit, "--", *([below] if below else []))
        for entry in listed.split(b"\0"):
            about, tab, path = entry.partition(b"\t")
            if tab:
                mode, _, name = about.decode("ascii").split(" ")
                found[os.fsdecode(path)] = Blob(mode=mode, name=name)
        return found

    def blob(self, commit: str, path: str) -> bytes | None:
        """Return the content of one file of a commit; None where the commit has no regular file there."""
        held = self.tree(commit, path).get(path)
        if held is None or not held.mode.startswith("100"):
            return None
        return next(iter(self.contents([held.name])))

    def contents(self, names: Iterable[str]) -> Iterator[bytes]:
        """Return contents by git's ids, in their order, by one process.

        Raises:
            StorageError: Git does not have one of them.
        """
        command = [*_GIT, "-C", str(self.root), "cat-file", "--batch"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment()
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise StorageError("git cat-file has no pipes")
            for name in names:
                process.stdin.write(f"{name}\n".encode())
                process.stdin.flush()
                yield _content(process.stdout, name)
            process.stdin.close()

    def changed(self, commit: str) -> tuple[str, ...]:
        """Return paths in which the work tree differs from a commit, files that git does not know yet included."""
        differing = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--name-only", "-z", commit, "--")
        names = {*self._names(*differing), *self._names("ls-files", "--others", "--exclude-standard", "-z", "--")}
        return tuple(sorted(names))

    def taken_away(self, old: str, new: str, below: str) -> tuple[Gone, ...]:
        """Return every path below a path that a commit between two took away, renames included.

        A merge that keeps one side and drops what another one had takes that away too.

        Raises:
            StorageError: Git cannot tell.
        """
        log = ("log", "--full-history", "-m", "--no-renames", "--no-ext-diff", "--diff-filter=D", "--name-only", "-z")
        found: list[Gone] = []
        commit = ""
        done = self._run(*log, "--format=%x01%H", f"{old}..{new}", "--", below or ".")
        if done.returncode:
            raise StorageError(f"git log failed between {old[:12]} and {new[:12]}, so nobody knows what was taken away")
        for piece in done.stdout.split(b"\0"):
            word = piece.strip(b"\n")
            if word.startswith(b"\x01"):
                commit = word[1:].decode("ascii", "replace")
            elif word:
                found.append(Gone(path=os.fsdecode(word), commit=commit))
        return tuple(found)

    def _names(self, *arguments: str) -> Iterator[str]:
        yield from (os.fsdecode(name) for name in self._bytes(*arguments).split(b"\0") if name)

    def _text(self, *arguments: str) -> str:
        return self._bytes(*arguments).decode("utf-8", "surrogateescape")

    def _bytes(self, *arguments: str) -> bytes:
        done = self._run(*arguments)
        return done.stdout if done.returncode == 0 else b""

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [*_GIT, "-C", str(self.root), *arguments]
        try:
            return subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False, env=_environment())
        except OSError as problem:
            raise UsageError(f"git cannot be started here ({problem.strerror})") from None
        except subprocess.TimeoutExpired:
            raise StorageError(f"git did not answer within {_PATIENCE_S} s") from None


def _environment() -> dict[str, str]:
    return {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}


def _content(stream: IO[bytes], name: str) -> bytes:
    head = stream.readline().split(b" ")
    if len(head) != 3:
        raise StorageError(f"git has no content {name[:64]}; fetch the whole history")
    data = stream.read(int(head[2]))
    stream.read(1)
    return data
