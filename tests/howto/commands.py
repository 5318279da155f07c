"""The commands of pages in processes that are forked of one that has done their imports; see `tests.fakes.warm`.

A page starts ``statecert`` from a shell, some ten times. Here a script of that name stands first on the path: it hands
its folder, arguments, environment and output to a warm process, which forks the program, whose engines are in children
that are forked as well. The warm process is started by the first block that has such a command: what a page wrote into
a copy of the sources until then is what it imports, and what it installs is found since nothing of it was looked up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from harness.engines.forking import can_fork
from tests.commands.command_support import USUAL
from tests.fakes import warm

COMMAND = "statecert"
_LINE = "STATECERT_TEST_LINE"
_SCRIPT = """\
#!{python} -IS
import json, os, socket, struct, sys
line = socket.socket(fileno=int(os.environ.pop({line!r})))
line.settimeout(600)  # others wait at this socket too, and it is they who say that it does not block
asked = {{
    "module": "harness",
    "words": sys.argv[1:],
    "cwd": os.getcwd(),
    "first": os.path.dirname(sys.executable),
    "environment": dict(os.environ),
    "engine": {engine!r},
}}
text = json.dumps(asked).encode()
socket.send_fds(line, [struct.pack("<I", len(text))], [1, 2])
line.sendall(text)
code = struct.unpack("<i", line.recv(4))[0]
os._exit(code if code >= 0 else 128 - code)
"""


class Commands:
    """Runs blocks of a page whose commands are forked.

    Args:
        folder: Takes the script.
        engine: What most children load.
        imports: What is imported beside what most commands import.
    """

    def __init__(self, folder: Path, engine: str, *imports: str) -> None:
        self._folder, self._engine = folder, engine
        self._imports = (*USUAL, "harness.commands.conform", "harness.engines.conformance", *imports)

    def lent(self, text: str, environment: Mapping[str, str]) -> tuple[dict[str, str], tuple[int, ...]]:
        """Return the environment of a block, and the descriptors that it is given."""
        if COMMAND not in text or not can_fork("cpu"):
            return dict(environment), ()
        script = self._folder / COMMAND
        if not script.exists():
            self._folder.mkdir(exist_ok=True)
            script.write_text(_SCRIPT.format(python=sys.executable, line=_LINE, engine=self._engine))
            script.chmod(0o755)
        line = warm.warmed(environment, self._imports).fileno()
        return {**environment, "PATH": f"{self._folder}:{environment['PATH']}", _LINE: str(line)}, (line,)
