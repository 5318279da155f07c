"""How much memory a process has, as the system tells it."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from pathlib import Path

from harness.errors import NothingToDoError


def resident_kib(pid: int) -> int:
    """Return the resident set of a process in KiB.

    Raises:
        NothingToDoError: This system does not tell.
    """
    status = Path(f"/proc/{pid}/status")
    if status.is_file():
        line = next((one for one in status.read_text().splitlines() if one.startswith("VmRSS:")), "")
        if line:
            return int(line.split()[1])
    try:
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)  # noqa: S607 - where ps lies differs
        return int(told.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        raise NothingToDoError("this system does not tell how much memory a process has") from None


def reset_peak() -> None:
    """Let the peak of this process begin anew; where the system cannot, the peak is that of its whole life.

    Freed memory that the allocator keeps is given back first: taken again, it would not be seen to grow.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    place = Path("/proc/self/clear_refs")
    if place.exists():
        with contextlib.suppress(OSError):
            place.write_text("5")


def peak_kib() -> int:
    """Return the most resident memory of this process since `reset_peak`, in KiB; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    line = next((one for one in lines if one.startswith("VmHWM:")), "")
    return int(line.split()[1]) if line else 0
