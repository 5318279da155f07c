"""Waiting for processes that a test has started, and finding their children."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 600
"""How long anything may take on a machine that is busy with other things."""


def wait_for(what: Callable[[], bool], name: str) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, f"{name} did not come"
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    """Processes that this one started and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has collected yet has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
