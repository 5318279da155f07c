"""Facts of the machine around a run. Nothing here names a host, a user or a path.

What cannot be told is ``unknown`` or left out; asking never ends a run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from harness.model.target import FORKED, Environment
from harness.model.values import Sha256

UNKNOWN: Final = "unknown"
_SALT: Final = b"statecert/machine/v1\n"
_ID_FILES: Final = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_PACKAGES: Final = ("statecert", "torch", "numpy", "orjson", "jsonschema", "jsonschema-rs", "pyyaml")
_MAC_UUID: Final = re.compile(r'"IOPlatformUUID" = "([0-9A-F-]{36})"')


def probe_environment(jobs: int = 1, *, forked: bool = False) -> Environment:
    """Return the facts of this machine, as they are now.

    Args:
        jobs: How many children of this run work at a time. Above 1 they take time from one another, so that times of
            the run are not those of a quiet machine.
        forked: Whether children after the first one are forked of a process that has imported the engine.
    """
    facts: dict[str, str | int] = {
        "os": sys.platform,
        "kernel": platform.release() or UNKNOWN,
        "machine": platform.machine() or UNKNOWN,
        "libc": " ".join(part for part in platform.libc_ver() if part) or UNKNOWN,
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 0,
        "cores_usable": _usable_cores(),
        "memory_bytes": _memory_bytes(),
        "jobs": jobs,
        **({"children": FORKED} if forked else {}),
        **_load(),
        **{f"package.{name}": found for name in _PACKAGES if (found := _version(name))},
    }
    identity, kind = _machine_id()
    return Environment(machine=machine_digest(identity), facts={**facts, "machine_id_kind": kind})


def machine_digest(identity: str) -> Sha256:
    """Return the salted hash of a machine's id: it tells two machines apart and names neither."""
    return Sha256(hashlib.sha256(_SALT + identity.strip().encode()).hexdigest())


def _machine_id() -> tuple[str, str]:
    """Return an id of this machine, and what kind of id it is."""
    for name in _ID_FILES:
        with contextlib.suppress(OSError, ValueError):
            found = Path(name).read_text(encoding="ascii").strip()
            if found:
                return found, "machine_id"
    if sys.platform == "darwin":
        match = _MAC_UUID.search(_told("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"))
        if match:
            return match.group(1), "platform_uuid"
    return f"{platform.machine()} {_cpu_name()} {_memory_bytes()}", "hardware"


def _cpu_name() -> str:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "Hardware")):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return _told("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string").strip() or UNKNOWN
    return platform.processor() or UNKNOWN


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 0


def _memory_bytes() -> int:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0


def _load() -> Mapping[str, int]:
    """Return the load before the run, in thousandths."""
    with contextlib.suppress(OSError, AttributeError):
        return {"load_1min_milli": int(os.getloadavg()[0] * 1000)}
    return {}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _told(*command: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    return ""
