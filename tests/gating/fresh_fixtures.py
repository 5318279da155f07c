"""Folders whose certificates name files of a tree: as they were measured, and changed since.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.digest.tree import tree_of_folder
from tests.fakes.evidence import Recorded
from tests.gating.fixtures import VALID, a_run, fixture

PATTERN = "pkg.engine:**/*.py"


def make_tree(root: Path) -> Path:
    """A tree with one package of two files."""
    for name, text in (("pkg/engine/one.py", "ONE = 1\n"), ("pkg/engine/deep/two.py", "TWO = 2\n")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@cache
def the_tree() -> Path:
    root = Path(tempfile.mkdtemp(prefix="fresh-tree-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return make_tree(root)


@cache
def another_tree() -> Path:
    root = make_tree(Path(tempfile.mkdtemp(prefix="fresh-tree-")))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    (root / "pkg" / "engine" / "one.py").write_text("ONE = 2\n")
    return root


def in_the_tree() -> dict[str, Any]:
    return {"fresh_in": [str(the_tree())]}


def in_another_tree() -> dict[str, Any]:
    return {"fresh_in": [str(another_tree())]}


def measured(*patterns: str, commit: str = "", root: Path | None = None) -> Recorded:
    """A run on the files of the tree, with these patterns in its record."""
    tree = tree_of_folder(root or the_tree(), ["pkg/engine/**/*.py"])
    path_set = {"name": "engine", "digest": tree.digest, "files": tree.files, "patterns": list(patterns)}
    run = a_run()
    source = {**run.header.source, "path_sets": [path_set], **({"commit": commit} if commit else {})}
    return run.with_header(source=source)


def valid_fresh(folder: Path) -> None:
    """Measured on the tree at hand."""
    issue(measured(PATTERN).data(), folder)


VALID.update(valid_fresh=valid_fresh)


@fixture("CG601", options=in_another_tree)
def stale_files(folder: Path) -> None:
    valid_fresh(folder)


@fixture("CG601", options=in_the_tree)
def stale_nobody_can_tell(folder: Path) -> None:
    """No patterns."""
    issue(measured().data(), folder)


@fixture("CG601", options=in_the_tree)
def stale_package_gone(folder: Path) -> None:
    issue(measured("pkg.elsewhere:**/*.py").data(), folder)


@fixture("CG601", options=in_the_tree)
def stale_pattern_leaves(folder: Path) -> None:
    issue(measured("pkg.engine:../../**/*.py").data(), folder)
