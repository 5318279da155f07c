"""The process that `tests.fakes.warm` forks programs of; its text is run with ``python -c``. Standard library only."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from harness.engines.process import Process

HEAD: Final = struct.Struct("<I")
"""Before a request: its bytes. With it come two descriptors, for output and errors."""
CODE: Final = struct.Struct("<i")
"""The answer: an exit code, below zero for a signal."""


def main(line: socket.socket, imports: Sequence[str]) -> None:
    """Import, then answer requests until nobody asks any more; return in the process of a program, to run it."""
    for module in imports:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    while True:
        head, descriptors, _, _ = socket.recv_fds(line, HEAD.size, 2)
        if not head:
            os._exit(0)
        text = b""
        while len(text) < HEAD.unpack(head)[0]:
            text += line.recv(HEAD.unpack(head)[0] - len(text))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks beside the idle threads of a library
            pid = os.fork()
        if not pid:
            line.close()
            become(json.loads(text), descriptors)
            return
        for one in descriptors:
            os.close(one)
        line.sendall(CODE.pack(ended(pid)))


def ended(pid: int) -> int:
    """Wait for a program; one that still runs when this process is asked to end, ends first."""

    def end(_number: int, _frame: object) -> None:
        os.kill(pid, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return code


def become(asked: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Take the place of ``python -m module words``: folder, environment, output, arguments, import path."""
    for target, one in zip((1, 2), descriptors, strict=True):
        os.dup2(one, target)
        os.close(one)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = asked["first"]
    importlib.invalidate_caches()  # what was installed meanwhile
    sys.argv = [sys.argv[0], *asked["words"]]
    PROGRAM.append(asked["module"])
    if asked["engine"]:
        fork_children(asked["engine"])


def fork_children(engine: str) -> None:
    """Let the children of this program's engines be forked of a twin of it, which runs nothing: a template."""
    from harness.engines import forking, host

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        ours.close()
        become_template(theirs.detach(), engine)
    theirs.close()
    twin = forking.Template.__new__(forking.Template)
    twin._line, twin._lock, twin._beside = ours, threading.Lock(), 1

    def started(log: Path, to_child: int, from_child: int, *, beside: int = 1) -> Process:
        return twin.spawn(log, to_child, from_child)

    vars(host)["started"] = started


def become_template(line: int, engine: str) -> NoReturn:
    """Take the place of ``python -m harness.engines.template``; it ends when the program does."""
    try:
        from harness.engines import process, registry, template

        os.setsid()
        with Path(os.devnull).open("ab") as nowhere:
            for target in (1, 2):
                os.dup2(nowhere.fileno(), target)
        os.environ.update(process.process_environment(2))
        template.main(line, engine, registry.ENGINES)
    finally:
        os._exit(1)


PROGRAM: Final[list[str]] = []
"""What this process has become."""

if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    runpy.run_module(PROGRAM[0], run_name="__main__", alter_sys=True)
