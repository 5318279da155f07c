"""Write a start that works at once: a scenario with a control, an adapter with a toy engine, or a driver of one.

Nothing is ever overwritten: if the file, the folder or the id is there already, nothing is written (exit code 4).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from harness.commands.common import add_action
from harness.errors import ExitCode, StorageError, UsageError

EXAMPLE = 'example: statecert new scenario A30 --title "A prompt served twice"\n         statecert new adapter mine\n'
EXAMPLE += "         statecert new driver mine --language rust"

TITLE: Final = "A prompt served twice"
FIRST_SCENARIO: Final = "Z01"
"""Id of the scenario that travels with a new adapter."""
LANGUAGES: Final = {
    "c": "cc -std=c11 -O1 -Wall -o driver *.c",
    "rust": "rustc --edition 2021 -O -o driver driver.rs",
}
"""Languages that there is a driver in, and how it is built."""
_ID: Final = re.compile(r"[A-Z][0-9]{2,3}")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MOST: Final = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """What to write, its name, where."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="scenario|adapter|driver")
    scenario = add_action(kinds, "scenario", does="a scenario file that passes on the torch engine", examples=EXAMPLE)
    scenario.add_argument("id", help="family letter and number, like A30")
    scenario.add_argument("--title", default=TITLE, help="what is shown, in a few words (default: %(default)s)")
    scenario.add_argument("--dir", type=Path, default=Path("scenarios"), help="folder (default: %(default)s)")
    adapter = add_action(kinds, "adapter", does="a package with a toy engine behind the seam", examples=EXAMPLE)
    adapter.add_argument("name", help="name of the engine: lower-case letters, digits, dashes")
    adapter.add_argument("--dir", type=Path, default=Path(), help="folder that takes the package (default: here)")
    driver = add_action(
        kinds, "driver", does="a program with a toy engine that speaks the stdio protocol", examples=EXAMPLE
    )
    driver.add_argument("name", help="name of the engine: lower-case letters, digits, dashes")
    driver.add_argument("--language", choices=sorted(LANGUAGES), default="c", help="default: %(default)s")
    driver.add_argument("--dir", type=Path, default=Path(), help="folder that takes the driver's (default: here)")


def run(args: argparse.Namespace) -> ExitCode:
    """Write, and say what to do next."""
    if args.kind == "scenario":
        path = new_scenario(args.id, args.title, args.dir)
        sys.stdout.write(f"{path}\nnext  statecert run {path}\n")
        return ExitCode.GOOD
    if args.kind == "driver":
        folder = new_driver(args.name, args.language, args.dir)
        build = f"cd {folder} && {LANGUAGES[args.language]}"
        sys.stdout.write(f"{folder}\nnext  {build}\nnext  statecert conform --command ./driver\n")
        return ExitCode.GOOD
    folder = new_adapter(args.name, args.dir)
    sys.stdout.write(f"{folder}\n" + "".join(f"next  {command}\n" for command in next_commands(args.name, folder.name)))
    return ExitCode.GOOD


def next_commands(name: str, folder: str) -> tuple[str, ...]:
    """What to type after a new adapter was written."""
    return (
        f"cd {folder} && pip install -e .",
        f"statecert conform {name}",
        f"statecert run {scenario_path(FIRST_SCENARIO, TITLE, Path('scenarios'))} --target {name}",
    )


def new_scenario(identity: str, title: str, folder: Path) -> Path:
    """Write a scenario file; return where it is.

    Raises:
        UsageError: The id or the title is no such thing, or the id is taken.
        StorageError: The disk refuses.
    """
    if not _ID.fullmatch(identity):
        raise UsageError(f"found the id {identity!r}; allowed are a capital letter and two or three digits, like A30")
    if not title.strip() or not title.isprintable() or len(title) > _MOST * 5:
        raise UsageError(f"found the title {title[:_MOST]!r}; allowed is one line of at most {_MOST * 5} characters")
    taken = sorted(folder.rglob(f"{identity}-*.yaml")) if folder.is_dir() else []
    if taken:
        raise UsageError(f"the id {identity} is taken by {taken[0]}; choose another")
    path = scenario_path(identity, title, folder)
    _write_tree(path, scenario_text(identity, title))
    return path


def scenario_path(identity: str, title: str, folder: Path) -> Path:
    """Where a scenario goes: ``<folder>/<family>/<ID>-<slug>.yaml``."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:_MOST].strip("-") or "scenario"
    return folder / identity[0] / f"{identity}-{slug}.yaml"


def scenario_text(identity: str, title: str) -> str:
    """The scenario, filled in."""
    quoted = "'" + title.replace("'", "''") + "'"
    return _SCENARIO.replace("@ID@", identity).replace("@TITLE@", quoted)


def new_adapter(name: str, folder: Path) -> Path:
    """Write the package of an adapter; return its folder.

    Raises:
        UsageError: The name is none, or is taken by an engine or a folder.
        StorageError: The disk refuses.
    """
    from harness.engines import registry

    if not _NAME.fullmatch(name) or len(name) > _MOST:
        raise UsageError(f"found the name {name!r}; allowed are lower-case letters, digits and single dashes")
    if name in registry.names():
        raise UsageError(f"the engine {name!r} is installed already; choose another name")
    target = folder / f"statecert-{name}"
    if target.exists():
        raise UsageError(f"{target} is there already; nothing was written")
    _write_folder(target, adapter_files(name))
    return target


def new_driver(name: str, language: str, folder: Path) -> Path:
    """Write the sources of a driver; return their folder.

    Raises:
        UsageError: The name is none, or is taken by a folder.
        StorageError: The disk refuses.
    """
    from harness.wire.resources import resource_names, resource_text

    if not _NAME.fullmatch(name) or len(name) > _MOST:
        raise UsageError(f"found the name {name!r}; allowed are lower-case letters, digits and single dashes")
    target = folder / name
    if target.exists():
        raise UsageError(f"{target} is there already; nothing was written")
    start = f"stdio/{language}/"
    sources = [one for one in resource_names("examples") if one.startswith(start)]
    slug = name.replace("-", "_")
    files = {one.removeprefix(start): resource_text("examples", one).decode() for one in sources}
    _write_folder(target, {one: text.replace(f"toy_{language}", slug) for one, text in files.items()})
    return target


def adapter_files(name: str) -> Mapping[str, str]:
    """Contents of the package, by path."""
    package = f"statecert_{name.replace('-', '_')}"
    words = {"@NAME@": name, "@PACKAGE@": package, "@CLASS@": _class_name(name)}
    first = scenario_path(FIRST_SCENARIO, TITLE, Path("scenarios"))
    words["@SCENARIO@"] = first.as_posix()
    return {
        "pyproject.toml": _filled(_PYPROJECT, words),
        "README.md": _filled(_README, words),
        first.as_posix(): scenario_text(FIRST_SCENARIO, TITLE),
        f"{package}/__init__.py": f'"""Adapter of the engine {name} for statecert."""\n',
        f"{package}/adapter.py": adapter_source(name, package),
    }


def adapter_source(name: str, package: str) -> str:
    """The toy engine under another name."""
    source = (resources.files("harness") / "adapters" / "starter.py").read_text("utf-8")
    head, _, rest = source.partition('"""\n')
    head = head.replace(
        "A toy engine behind the seam, whole and small: what ``statecert new adapter`` copies as a start.",
        f"The engine {name} behind the seam: a toy, until you put yours in its place.",
    )
    rest = rest.replace("harness.adapters:starter.py", f"{package}:*.py")
    rest = rest.replace("Starter", _class_name(name)).replace("starter", name)
    return f'{head}"""\n{rest}'


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _write_tree(path: Path, text: str) -> None:
    """Write one new file, whole or not at all, and the folders above it."""
    from harness.wire.files import write_new

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make {path.parent}: {error.strerror}") from error
    try:
        write_new(path, text.encode())
    except StorageError:
        if path.exists():
            raise UsageError(f"{path} is there already; nothing was written") from None
        raise


def _write_folder(target: Path, files: Mapping[str, str]) -> None:
    """Write a new folder beside its place, then put it there in one step."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise StorageError(f"cannot make a folder in {target.parent}: {error.strerror}") from error
    try:
        hidden.chmod(0o755)
        for name, text in files.items():
            path = hidden / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        os.rename(hidden, target)  # noqa: PTH104 - Path.rename is this, and reads as if it replaced
    except OSError as error:
        if target.exists():
            raise UsageError(f"{target} is there already; nothing was written") from None
        raise StorageError(f"cannot write {target}: {error.strerror}; nothing was left behind") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


_SCENARIO: Final = """\
schema: statecert/scenario/v1
id: @ID@
title: @TITLE@
why: >-
  A prompt that is served a second time starts from the snapshot of its second chunk. If a part of the state is not
  brought back, the text goes on fluently and is wrong. Say here which bug your scenario shows, and what it does to a
  user.
suites: {default: [16], full: [1], hw: [1]}     # suite to scales; a scale divides lengths
procedure:                                      # everything below is hashed
  observability: parts
  requires: [parts, logits, boundaries, prefix_cache]
  families: [kv]                                # must be in the inventory
  chunk: 8192
  prompts:
    A: [{seed: 30, length: {chunks: 2, tokens: 900}}]
  arms:
    - id: cold                                  # what is right: nothing restored; runs twice
      role: reference
      steps: [{run: {prompt: A, decode: 16, as: a}}]
    - id: warm                                  # what is judged
      role: candidate
      steps:
        - {run: {prompt: A, cache: true, decode: 16, as: first}}
        - {run: {prompt: A, cache: true, decode: 16, as: again}}
    - id: flipped                               # a corruption that must be seen
      role: control
      requires: [corrupt, store]
      steps:
        - {run: {prompt: A, cache: true, as: first}}
        - {corrupt: {where: store, boundary: {chunks: 2}, part: kv, byte: 6, mask: 4, as: flip}}
        - {run: {prompt: A, cache: true, decode: 16, as: again}}
  checks:
    - {id: first-cold, cached: {at: warm.first, equals: 0}}
    - {id: first, exact: {candidate: warm.first, reference: cold.a, witness: none}}
    - {id: again-cached, cached: {at: warm.again, equals: {chunks: 2}}}
    - {id: again, exact: {candidate: warm.again, reference: cold.a, witness: copied}}
    - {id: flip-seen, seen: {candidate: flipped.again, reference: cold.a, part: kv, phases: [restored]}}
"""

_PYPROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "statecert-@NAME@"
version = "0.1.0"
description = "The engine @NAME@ behind the seam of statecert."
requires-python = ">=3.11"
dependencies = ["statecert"]

[project.entry-points."harness.engines"]
@NAME@ = "@PACKAGE@.adapter:@CLASS@Adapter"

[tool.setuptools]
packages = ["@PACKAGE@"]
"""

_README: Final = """\
# statecert-@NAME@

The engine @NAME@ behind the seam of statecert. `@PACKAGE@/adapter.py` is a toy engine that meets every obligation;
replace its `State` by your engine's session, then the calls into it.

```bash
pip install -e .
statecert conform @NAME@
statecert run @SCENARIO@ --target @NAME@
```

1. makes the engine known by its entry point,
2. tells what the adapter still owes, one row each, with what to do,
3. runs the first scenario on it, with a control that must be seen.

The seam is `harness/engines/interface.py`. Declare in `capabilities()` what is implemented, and nothing else.
"""
