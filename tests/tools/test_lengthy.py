"""The mark ``lengthy`` takes a test out of ``make check``: only tests of real engines may have it, and something runs them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("llamacpp", "real_engines", "server", "stdio")
"""Folders of tests that go into the library of a real engine."""
HERE = Path(__file__).resolve()


def marked(root: Path, folders: Sequence[str]) -> Mapping[str, int]:
    """How often each file of these folders speaks of the mark; files that do not are left out."""
    found = {path: len(re.findall(r"\blengthy\b", path.read_text("utf-8"))) for path in _sources(root, folders)}
    return {str(path.relative_to(root)): count for path, count in found.items() if count and path != HERE}


def _sources(root: Path, folders: Sequence[str]) -> Sequence[Path]:
    return [*root.glob("*.py"), *(path for folder in folders for path in (root / folder).rglob("*.py"))]


def elsewhere(found: Mapping[str, int]) -> Sequence[str]:
    """Files that are no tests of real engines."""
    return [name for name in found if not name.startswith(tuple(f"tests/{one}/test_" for one in ENGINES))]


def recipe(target: str) -> str:
    text = (ROOT / "Makefile").read_text("utf-8")
    return text.partition(f"\n{target}:")[2].partition("\n\n")[0]


def test_only_tests_of_real_engines_are_lengthy() -> None:
    found = marked(ROOT, ("tests", "scenarios", "harness", "tools"))

    assert elsewhere(found) == []
    assert found


def test_a_lengthy_test_elsewhere_is_seen(tmp_path: Path) -> None:
    for name in ("tests/gating/test_slow.py", "tests/server/test_real.py", "conftest.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pytestmark = pytest.mark.lengthy")

    assert sorted(elsewhere(marked(tmp_path, ("tests",)))) == ["conftest.py", "tests/gating/test_slow.py"]


def test_the_check_leaves_them_out_the_campaign_runs_them_and_the_tests_run_everything() -> None:
    assert "test MARKS='not lengthy'" in recipe("check")
    assert "test MARKS=lengthy T=tests" in recipe("engines")
    assert "lengthy" not in recipe("test")
    assert "MARKS ?=" not in (ROOT / "Makefile").read_text("utf-8")
