"""Follows a page: runs its ``bash`` blocks and writes its files, in the order in which they stand.

Fences of a page::

    ```bash                                        runs; the page goes on only if it ends in 0
    ```bash exit=1                                 must end in 1
    ```bash held                                   is not run, but held to its words (tests/howto/holding.py)
    ```python file=path/to/it.py                   is written to that file (any language)
    ```python file=path/to/it.py after="a line"    is put below the first line that holds these words

Other fences are shown only. A block that begins with ``cd`` is left there, as in a terminal.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.howto.commands import Commands

REPOSITORY = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\S+)[ \t]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PIP = """\
#!/bin/sh
# pip without network: the build backend is the one that is installed, and what is imported are the sources themselves
set -e
{python} -m pip install --quiet --no-build-isolation --no-deps --no-index --target {site} --upgrade .
for package in statecert_*/; do
  rm -rf "{site}/$package" build
  ln -s "$PWD/${{package%/}}" "{site}/${{package%/}}"
done
"""


@dataclass(frozen=True, kw_only=True)
class Block:
    language: str
    text: str
    file: str = ""
    after: str = ""
    code: int = 0
    held: bool = False
    """Not run: it needs a library, the network or minutes."""

    @property
    def acts(self) -> bool:
        return (self.language == "bash" and not self.held) or bool(self.file)


def blocks(page: Path) -> Iterator[Block]:
    for language, info, text in _FENCE.findall(page.read_text("utf-8")):
        words = dict(word.partition("=")[::2] for word in shlex.split(info))
        yield Block(
            language=language,
            text=text,
            file=words.get("file", ""),
            after=words.get("after", ""),
            code=int(words.get("exit", "0")),
            held="held" in words,
        )


def follow(page: Path, folder: Path, environment: Mapping[str, str], commands: Commands | None = None) -> list[str]:
    """Do what the page says; return what each command printed."""
    printed, here = [], folder
    for block in blocks(page):
        if block.file:
            write(block, folder)
        elif block.acts:
            printed.append(ran(block, here, environment, commands))
            first = block.text.splitlines()[0]
            here = here / first.removeprefix("cd ") if first.startswith("cd ") else here
    return printed


def write(block: Block, folder: Path) -> None:
    path = folder / block.file
    if not block.after:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
        return
    lines = path.read_text("utf-8").splitlines(keepends=True)
    at = [index for index, line in enumerate(lines) if block.after in line]
    assert at, f"{block.file} has no line with {block.after!r}: the page is out of date"
    lines.insert(at[0] + 1, block.text)
    path.write_text("".join(lines), "utf-8")


def ran(block: Block, folder: Path, environment: Mapping[str, str], commands: Commands | None) -> str:
    given, lent = commands.lent(block.text, environment) if commands else (dict(environment), ())
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=given,
        pass_fds=lent,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == block.code, f"{block.text}\nended in {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment(*import_path: Path) -> dict[str, str]:
    """This environment with the project's commands, and folders that are imported from first."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join(folders),
        "PYTHONPATH": os.pathsep.join(map(str, import_path)),
        "PYTHONDONTWRITEBYTECODE": "",
        "NO_COLOR": "1",
    }


def offline_pip(tools: Path) -> dict[str, str]:
    """An environment in which ``pip install -e .`` works without network and installs into a folder of the test."""
    site = tools / "site"
    tools.mkdir()
    pip = tools / "pip"
    pip.write_text(_PIP.format(python=sys.executable, site=site))
    pip.chmod(0o755)
    made = environment(site, REPOSITORY)
    return {**made, "PATH": f"{tools}{os.pathsep}{made['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
