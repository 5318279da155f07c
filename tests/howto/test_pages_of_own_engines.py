"""The pages of ``docs/how-to`` about an engine of one's own are followed like the others, see `test_pages`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.howto.commands import Commands
from tests.howto.following import REPOSITORY, environment, follow, offline_pip

PAGES = REPOSITORY / "docs" / "how-to"


def test_write_an_adapter(tmp_path: Path) -> None:
    printed = follow(
        PAGES / "write-an-adapter.md",
        tmp_path,
        offline_pip(tmp_path / "tools"),
        Commands(tmp_path / "commands", "mine"),
    )

    missing = " ".join(printed[4].split())
    assert "layer1.recurrent" in missing


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_qualify_your_engine(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "commands", "stdio")

    printed = " ".join(follow(PAGES / "qualify-your-engine.md", tmp_path, environment(REPOSITORY), commands))

    assert "7/7" in printed
    assert "complete" in printed
    assert "engine_options" in printed or "not_supported" in printed
