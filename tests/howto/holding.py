"""Holds the commands of a page to their words, without running them: for what needs a library, a network or minutes.

A command of ``statecert`` is parsed; scenarios that it names are planned; its target is looked up, in the lab file that
the page shows above it too, and the options of the target are read by their adapter. An extra that ``pip install`` asks
for must be one of the project's; a module that is started must be there.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harness.adapters import llama_options, server_options
from harness.adapters.mlx_adapter import MlxOptions
from harness.adapters.transformers_adapter import TransformersOptions
from harness.cli import COMMANDS, MODULES
from harness.commands.common import chosen_plans, chosen_target
from harness.commands.parser import Parser
from harness.engines.interface import Options
from harness.wire.lab_doc import parse_lab
from tests.howto.following import REPOSITORY, Block

LAB: Final = "schema: statecert/lab/v1\n"
_CHAINED: Final = frozenset({"&&", "||", ";", "|"})
_EXTRAS: Final = re.compile(r"statecert\[([a-z0-9,]+)\]")
_TOOLS: Final = frozenset({"cc", "cd", "rustc", "true", "make"})


def hold(block: Block, folder: Path) -> int:
    """Hold a block to its words; return how many commands of ``statecert`` it had.

    Args:
        block: A block of commands, or of a lab file, which is written for the commands that follow.
        folder: The present folder.
    """
    if block.language == "yaml" and block.text.startswith(LAB):
        assert parse_lab(block.text.encode(), "lab.yaml")
        (folder / "lab.yaml").write_text(block.text, "utf-8")
        return 0
    if block.language != "bash":
        return 0
    return sum(_held(command) for command in commands(block.text))


def commands(text: str) -> Iterator[Sequence[str]]:
    """Yield the words of each command of a block."""
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in shlex.split(line, comments=True):
            if word in _CHAINED:
                yield words
                words = []
            else:
                words.append(os.path.expandvars(word))
        if words:
            yield words


def _held(words: Sequence[str]) -> bool:
    program, *rest = words
    if program == "statecert":
        _statecert(rest[0], rest[1:])
        return True
    if program == "pip":
        assert rest[0] in ("install", "download"), words
        _require_extras(rest)
    elif program == "python":
        assert rest[0] == "-m", words
        assert find_spec(rest[1]) is not None, f"{words}: there is no such module"
    else:
        assert program in _TOOLS, f"{words}: what is this?"
    return False


def _statecert(name: str, words: Sequence[str]) -> None:
    assert name in COMMANDS, f"there is no command {name}"
    module = importlib.import_module(f"harness.commands.{MODULES.get(name, name)}")
    parser = Parser(prog=f"statecert {name}")
    module.configure(parser)
    args = parser.parse_args(words)
    if name == "run":
        assert chosen_plans(args)
        _read_options(chosen_target(args.target, args).adapter, chosen_target(args.target, args).options)
    elif name == "conform" and args.engine:
        target = chosen_target(args.engine, args)
        _read_options(target.adapter, target.options)
    elif name == "mutants":
        target = chosen_target(args.target, _without_options(args))
        _read_options(target.adapter, target.options)


def _without_options(args: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{"lab": None, "device": None, "preset": None, "option": [], **vars(args)})


def _read_options(adapter: str, options: Options) -> None:
    """Let the adapter read its options; one whose options are a table of names has at least these names."""
    if adapter in _READERS:
        _READERS[adapter](options)
        return
    tables: Mapping[str, type] = {"mlx": MlxOptions, "transformers": TransformersOptions}
    if adapter in tables:
        known = {field.name for field in fields(tables[adapter])}
        assert set(options) <= known, f"{adapter} has no options {sorted(set(options) - known)}"


_READERS: Final[Mapping[str, Callable[[Options], object]]] = {
    "llamacpp": llama_options.completed,
    "server": server_options.checked,
}


def _require_extras(words: Sequence[str]) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    for asked in _EXTRAS.findall(" ".join(words)):
        unknown = set(asked.split(",")) - set(project["optional-dependencies"])
        assert not unknown, f"there is no extra {sorted(unknown)}"
