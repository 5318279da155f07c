"""What the processor of this machine is called in a hardware class; no library needed."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Final

_ISAS: Final = (("avx512f", "avx512"), ("avx2", "avx2"), ("asimd", "neon"))
"""Flag of the kernel to the name of the instruction set, widest first."""


@cache
def cpu_class() -> str:
    """Return the hardware class slug, like ``cpu-x86_64-avx512``; ``generic`` where no vector set is told."""
    machine = platform.machine().lower()
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        flags = {"asimd"} if machine in {"arm64", "aarch64"} else set()
    return f"cpu-{machine}-{next((name for flag, name in _ISAS if flag in flags), 'generic')}"
