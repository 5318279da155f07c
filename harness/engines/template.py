"""A process that has imported an adapter and runs nothing: of it children are forked.

Started as ``python -m harness.engines.template <control fd> <adapter> <group>`` by :mod:`harness.engines.forking`. It
opens no engine and computes nothing, so a fork of it begins where a started child is once its imports are done.

Rules kept here:

- One request is one message with four descriptors: the child's two pipes, its log, and where its exit status goes.
- A child is reaped when whoever asked for it has read its status and lets go, so its process id is nobody else's until
  then.
- When the parent is gone this process ends at once; its children see that for themselves.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import socket
import struct
import sys
import traceback
import warnings
from typing import Final, NoReturn

from harness.engines import child, registry
from harness.engines.interface import Importing

STATUS: Final = struct.Struct("<i")
"""What the last descriptor of a request gets: the exit status, below zero for a signal."""
DESCRIPTORS: Final = 4
"""Of a request: to the child, from the child, its log, its status."""
_REQUEST_BYTES: Final = 16


class _Children:
    """Children that were forked and not reaped."""

    def __init__(self) -> None:
        self.running: dict[int, tuple[int, int]] = {}
        """Process id and status descriptor by process descriptor."""
        self.ended: dict[int, int] = {}
        """Process id by status descriptor, of children whose status nobody has let go of."""

    def report(self, watched: int) -> int:
        """Tell how a child ended, without reaping it; return the descriptor that shows when it may be reaped."""
        pid, status = self.running.pop(watched)
        os.close(watched)
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        code = 0 if found is None else found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        with contextlib.suppress(OSError):
            os.write(status, STATUS.pack(code))
        self.ended[status] = pid
        return status

    def reap(self, status: int) -> None:
        """Let go of a child whose status was read."""
        os.waitpid(self.ended.pop(status), 0)
        os.close(status)

    def forget(self) -> None:
        """Close, in a forked child, what belongs to those before it."""
        for watched, (_, status) in self.running.items():
            os.close(watched)
            os.close(status)
        for status in self.ended:
            os.close(status)


def main(control: int, adapter: str, group: str) -> NoReturn:
    """Import, then fork whenever it is asked for, until the other end is gone."""
    child.stay()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of forks beside the idle threads of a library
    engine = registry.load(adapter, group)
    for module in engine.imports() if isinstance(engine, Importing) else ():
        with contextlib.suppress(ImportError):  # whoever opens the engine says what is missing
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    line, children, poll = socket.socket(fileno=control), _Children(), select.poll()
    poll.register(line, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == control:
                poll.register(_forked(line, children), select.POLLIN)
            elif descriptor in children.running:
                poll.unregister(descriptor)
                poll.register(children.report(descriptor), 0)  # tells only that the other end is closed
            else:
                poll.unregister(descriptor)
                children.reap(descriptor)


def _forked(line: socket.socket, children: _Children) -> int:
    """Answer one request; return the process descriptor of the new child."""
    asked, descriptors, _, _ = socket.recv_fds(line, _REQUEST_BYTES, DESCRIPTORS)
    if not asked:
        os._exit(0)
    to_child, from_child, log, status = descriptors
    pid = os.fork()
    if not pid:
        line.close()
        children.forget()
        os.close(status)
        _become_child(to_child, from_child, log)
    for one in (to_child, from_child, log):
        os.close(one)
    watched = os.pidfd_open(pid)
    children.running[watched] = pid, status
    line.send(str(pid).encode())
    return watched


def _become_child(reader: int, writer: int, log: int) -> NoReturn:
    try:
        os.setsid()
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
        os.close(log)
        child.main(reader, writer)
    except BaseException:  # noqa: BLE001 - the frames above belong to the template
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
