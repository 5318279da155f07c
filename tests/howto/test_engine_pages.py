"""The pages of ``docs/engines``, and what was found: followed where nothing need be installed, else held to their words."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import distribution
from pathlib import Path

import pytest

from harness.engines.registry import ENGINES
from tests.howto.commands import Commands
from tests.howto.following import REPOSITORY, Block, blocks, environment, follow
from tests.howto.holding import hold

PAGES = REPOSITORY / "docs" / "engines"
FOUND = REPOSITORY / "docs" / "FOUND.md"
UNTRIED = ("geist", "hipfire", "lucebox", "mesh-llm")
"""Engines that cannot be had here: their pages map calls, and have no commands."""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_stdio(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "commands", "stdio")

    printed = " ".join(follow(PAGES / "stdio.md", tmp_path, environment(REPOSITORY), commands))

    assert "archive        pass" in printed
    assert "A61[scale=16]" in printed
    assert "R11[scale=16]" in printed


@pytest.mark.parametrize(
    ("page", "least"),
    [
        (PAGES / "README.md", 0),
        (PAGES / "llamacpp.md", 3),
        (PAGES / "mlx.md", 2),
        (PAGES / "server.md", 7),
        (PAGES / "transformers.md", 5),
        (FOUND, 9),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_every_command_is_one(page: Path, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(blocks(page))

    assert sum(hold(block, tmp_path) for block in found) >= least
    assert not any(block.acts for block in found)


@pytest.mark.parametrize("engine", UNTRIED)
def test_what_could_not_be_tried_is_said(engine: str) -> None:
    page = PAGES / f"{engine}.md"

    assert "Not tried" in page.read_text("utf-8")
    assert not list(blocks(page))


@pytest.mark.parametrize("engine", ["llamacpp", "mlx", "server", "transformers"])
def test_a_page_says_with_which_version_it_was_tried(engine: str) -> None:
    text = (PAGES / f"{engine}.md").read_text("utf-8")

    assert re.search(r"[Tt]ried with\b[^.\n]* [0-9]+\.[0-9]+", text)


def test_every_engine_has_a_page_that_is_asked_here() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README", *UNTRIED}

    assert pages == {point.name for point in distribution("statecert").entry_points.select(group=ENGINES)} - {"torch"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("statecert runs A01", "no command"),
        ("statecert run A01 --target server --option packages=older", "no such|unknown"),
        ("statecert run Z99 --target torch", "Z99"),
        ("statecert conform llamacpp --option arch=cubic", "arch is"),
        ("statecert conform mlx --option arc=hybrid", "no options"),
        ("statecert conform torhc", "torhc"),
        ("pip install 'statecert[transformer]'", "no extra"),
        ("python -m harness.adapters.tiny_guff x", "no such module"),
        ("statecret run A01", "what is this"),
    ],
)
def test_a_command_that_is_none_is_seen(text: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((Exception, SystemExit), match=what):
        hold(Block(language="bash", text=text, held=True), tmp_path)
