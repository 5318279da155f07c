"""Whether files that a certificate speaks of are still what they were, in the trees at hand.

Digests are made by :mod:`harness.digest.tree`, as the producer made them. What a record says of its patterns is a
stranger's word: a pattern that leaves its tree is refused and no file outside a tree is read.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.digest.tree import tree_of_folder
from harness.errors import StatecertError

_PACKAGE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_MOST: Final = 8
_MOST_COMMITS: Final = 200
_PATIENCE_S: Final = 60
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=", "-c", "core.quotePath=false")


class Freshness:
    """Digests of path sets as they are now; each is made once.

    Args:
        roots: Folders that packages lie below, like a checkout or ``site-packages``; the first that has one counts.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = [Path(root) for root in roots]
        self._known: dict[tuple[str, tuple[str, ...]], tuple[str, str]] = {}
        self._patches: dict[str, str] = {}
        self._head: str | None = None

    def fault(self, path_set: Mapping[str, Any], commit: str) -> str:
        """Say why a path set is not fresh; empty: its files are what they were.

        Args:
            path_set: As a body has it: name, digest, files, patterns.
            commit: At which it was measured; empty, or not at hand: changed files are not named.
        """
        name, patterns = path_set["name"], tuple(path_set.get("patterns", ()))
        if not patterns:
            return f"the record has no patterns of the path set {name}; nobody can tell"
        if (name, patterns) not in self._known:
            self._known[name, patterns] = self._now(patterns)
        digest, trouble = self._known[name, patterns]
        if trouble:
            return f"path set {name}: {trouble}"
        if digest == path_set["digest"]:
            return ""
        return f"path set {name} is {digest[:12]} now, {path_set['digest'][:12]} then{self._changed(patterns, commit)}"

    def carried(self, path_sets: Sequence[Mapping[str, Any]], commit: str) -> str:
        """Return the commit that carries a measurement of another one: every path set is byte for byte the same.

        However it came there: a later commit, a squash, a rebase. Empty: not carried, or measured right here.
        """
        head = self._head_commit()
        if not head or not commit or head == commit or not path_sets:
            return ""
        return "" if any(self.fault(path_set, commit) for path_set in path_sets) else head

    def _head_commit(self) -> str:
        if self._head is None:
            said = _said(self._roots[0], "rev-parse", "--verify", "--quiet", "HEAD") if self._roots else ""
            self._head = said.strip()
        return self._head

    def _same_patch(self, commit: str) -> str:
        """Say whether the commit was applied again on another base: a reader wants to know; fresh it is not."""
        if commit not in self._patches:
            self._patches[commit] = ""
            root = self._roots[0]
            wanted = patch_ids(root, "show", commit)
            if wanted and not _said(root, "merge-base", commit, "HEAD").startswith(commit):
                known = patch_ids(root, "log", "-p", "--no-merges", f"-{_MOST_COMMITS}", "HEAD")
                again = next((known[one] for one in wanted if one in known), "")
                self._patches[commit] = again
        again = self._patches[commit]
        return f"; {again[:12]} is the same patch on another base, which does not keep it fresh" if again else ""

    def _now(self, patterns: Sequence[str]) -> tuple[str, str]:
        try:
            found = self._placed(patterns)
            if found is None:
                return "", "its package is in no tree at hand; name one with --root"
            return tree_of_folder(*found).digest, ""
        except StatecertError as problem:
            return "", str(problem)

    def _placed(self, patterns: Sequence[str]) -> tuple[Path, list[str]] | None:
        """Return the root that has the packages of all patterns, and the patterns below it."""
        steps = [steps_of(pattern) for pattern in patterns]
        for root in self._roots:
            if all((root / package).is_dir() for package, _ in steps):
                return root, [f"{package}/{glob}" for package, glob in steps]
        return None

    def _changed(self, patterns: Sequence[str], commit: str) -> str:
        """Name files that differ from a commit, where git has it."""
        found = self._placed(patterns)
        if found is None or _COMMIT.fullmatch(commit) is None:
            return ""
        root, below = found
        paths = [f":(glob){pattern}" for pattern in below]
        differing = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--name-only",
            "--relative",
            "-z",
            commit,
        ]
        names = {*_git(root, *differing, "--", *paths), *_git(root, "ls-files", "--others", "-z", "--", *paths)}
        kept = sorted(name for name in names if "__pycache__" not in name)
        more = f" and {len(kept) - _MOST} more" if len(kept) > _MOST else ""
        told = f"; changed since {commit[:12]}: {', '.join(kept[:_MOST])}{more}" if kept else ""
        return told + self._same_patch(commit)


def steps_of(pattern: str) -> tuple[str, str]:
    """Return the folder of the package, and the glob inside it.

    Raises:
        StatecertError: The pattern is malformed, or leaves the package.
    """
    package, colon, glob = pattern.partition(":")
    inside = not glob.startswith("/") and not {"", ".", ".."} & set(glob.split("/"))
    if not (colon and inside and _PACKAGE.fullmatch(package)):
        raise StatecertError(f"the pattern {pattern[:80]!a} is none; one is like package.module:**/*.py")
    return package.replace(".", "/"), glob


def patch_ids(root: Path, *arguments: str) -> Mapping[str, str]:
    """Return the ids of patches, by what they change and not by where, each with its commit."""
    text = _said(root, arguments[0], "--no-ext-diff", "--no-textconv", *arguments[1:])
    command = [*_GIT, "-C", str(root), "patch-id", "--stable"]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, timeout=_PATIENCE_S, check=False, text=True, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.split() for line in done.stdout.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _said(root: Path, *arguments: str) -> str:
    """Return what git says; empty where there is no git, no repository, or it refuses."""
    try:
        done = subprocess.run(
            [*_GIT, "-C", str(root), *arguments],
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _git(root: Path, *arguments: str) -> Iterator[str]:
    """Yield the names that git lists; none where there is no git, no repository, or no such commit."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = [*_GIT, "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == 0:
        yield from (name for name in done.stdout.decode("utf-8", "backslashreplace").split("\0") if name)
