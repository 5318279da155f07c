"""What a torch build can run on here, and what to call it; and which library is really loaded.

A device that is not built in is another thing than one that is not there, and the reason says which.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import torch

from harness.engines.filedigests import file_digest

UNKNOWN: Final = "unknown"
_NOT_SLUG: Final = re.compile(r"[^a-z0-9_.]+")
_SYSCTL: Final = "/usr/sbin/sysctl"


def torch_devices() -> Sequence[tuple[str, str]]:
    """Return the devices of this build, best first: ``(name, "")``, or ``(name, reason)`` for an absent one."""
    return [*_cuda_devices(), ("mps", _mps_absence()), ("cpu", "")]


def hw_class(device_type: str, arch: str, memory_kind: str) -> str:
    """Return the hardware class slug.

    Args:
        device_type: ``cpu``, ``cuda`` or ``mps``.
        arch: ``avx512``, ``sm_90``, ``gfx1151`` …
        memory_kind: ``host``, ``discrete`` or ``unified``.
    """
    if device_type == "cuda" and torch.version.hip:
        unified = "-unified" if memory_kind == "unified" else ""
        return f"rocm-{slug(arch)}{unified}"
    if device_type == "cuda":
        return f"cuda-{slug(arch)}"
    if device_type == "mps":
        return f"metal-{slug(_apple_chip())}"
    return f"cpu-{slug(platform.machine())}-{slug(arch)}"


def slug(text: str) -> str:
    """Return ``text`` as a slug: lower case, everything unusual a hyphen."""
    return _NOT_SLUG.sub("-", text.lower()).strip("-") or UNKNOWN


@cache
def library_digests(device_type: str) -> Mapping[str, str]:
    """Return the SHA-256 of the torch libraries that this process has loaded, by name; once per process.

    Args:
        device_type: ``cuda`` also digests the device library.
    """
    names = ["libtorch_cpu", *(["libtorch_hip" if torch.version.hip else "libtorch_cuda"] * (device_type == "cuda"))]
    return {f"library.{name}": _file_digest(path) for name in names if (path := _loaded(name)) is not None}


def _file_digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError:
        return UNKNOWN


def _loaded(name: str) -> Path | None:
    """Return the file of a loaded library: from the memory map where there is one, else where torch keeps it."""
    try:
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            path = Path(line.partition("/")[1] + line.partition("/")[2])
            if path.name.startswith(f"{name}."):
                return path
    except OSError:
        pass
    folder = Path(torch.__file__).parent / "lib"
    return next(iter(sorted(folder.glob(f"{name}.*"))), None)


def _cuda_devices() -> Sequence[tuple[str, str]]:
    if torch.version.cuda is None and torch.version.hip is None:
        return [("cuda", "this torch build has neither CUDA nor ROCm")]
    if not torch.cuda.is_available():
        return [("cuda", "built in, but no device or driver is there")]
    return [("cuda", ""), *((f"cuda:{index}", "") for index in range(torch.cuda.device_count()))]


def _mps_absence() -> str:
    if not torch.backends.mps.is_built():
        return "this torch build has no MPS"
    return "" if torch.backends.mps.is_available() else "built in, but no Metal device is there"


def _apple_chip() -> str:
    try:
        told = subprocess.run(
            [_SYSCTL, "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, timeout=5, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return told.removeprefix("Apple ").strip() or UNKNOWN
