"""The pages of ``docs/how-to`` are followed, step by step, by a machine: what they say is true and complete.

Those about an engine of one's own are followed in `test_pages_of_own_engines`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.howto.commands import Commands
from tests.howto.following import REPOSITORY, blocks, environment, follow

PAGES = REPOSITORY / "docs" / "how-to"
SOURCES = ("harness", "schemas", "docs", "tests/fakes", "tests/deriving")
TORCH = "harness.adapters.torch_adapter"
FILES = ("pyproject.toml", "tests/__init__.py")


def copy_of_the_sources(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


def test_add_a_check(tmp_path: Path) -> None:
    clone = copy_of_the_sources(tmp_path / "clone")

    printed = follow(
        PAGES / "add-a-check.md", clone, environment(clone), Commands(tmp_path / "commands", "torch", TORCH)
    )

    assert "4 passed" in printed[0]
    assert "9/9" in printed[1]
    assert "bytes-back:" in printed[2]
    assert "other_count" in printed[2]


def test_add_a_scenario(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "commands", "torch", TORCH)

    printed = " ".join(follow(PAGES / "add-a-scenario.md", tmp_path, environment(REPOSITORY), commands))

    assert "A90[scale=16,arch=attention]" in printed
    assert "cached:" in printed
    assert "other_count" in printed
    assert "wrong-text-seen" in printed


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_does_something_and_is_short_enough_to_read(page: Path) -> None:
    found = list(blocks(page))
    text = page.read_text("utf-8")

    assert sum(block.acts for block in found) >= 6
    assert text.count("```") == 2 * len(found)
    assert len(text.split()) < 1800
