"""Everything that differs between cpu, cuda (ROCm included) and mps, in one place.

Facts are strings, and a fact that cannot be had is ``unknown``: asking never raises.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from harness.torch_engine.errors import OptionError

UNKNOWN = "unknown"
DEVICE_TYPES = ("cpu", "cuda", "mps")


def best_device() -> str:
    """``cuda`` if there is one (ROCm counts), else ``mps``, else ``cpu``."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def open_device(name: str) -> torch.device:
    """The device of a name, shown to be there.

    Raises:
        OptionError: an unknown name, or a device that this host lacks.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise OptionError(f"device: expected one of {DEVICE_TYPES}, found {name!r}") from error
    if device.type not in DEVICE_TYPES:
        raise OptionError(f"device: expected one of {DEVICE_TYPES}, found {name!r}")
    absent = {"cuda": not torch.cuda.is_available(), "mps": not torch.backends.mps.is_available()}
    if absent.get(device.type, False):
        raise OptionError(f"device: expected one that this host has, found {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise OptionError(f"device: expected below {torch.cuda.device_count()}, found {name!r}")
    return device


def device_kind(device: torch.device) -> str:
    """What two devices have in common that give the same bits: their type and architecture, not their number."""
    return device.type if device.type == "cpu" else f"{device.type} {device_facts(device).get('arch', UNKNOWN)}"


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def sorts_stably(device: torch.device) -> bool:
    """Whether a stable sort keeps equal elements in order there; not relied on for mps."""
    return device.type != "mps"


def device_facts(device: torch.device) -> dict[str, str]:
    """Name, architecture, memory and versions of a device, all strings.

    Keys: ``type``, ``name``, ``arch`` (like ``sm_90``, ``gfx1151``, ``avx512``), ``memory_kind``
    (``host``, ``discrete`` or ``unified``), ``memory_bytes``, ``driver``, ``runtime``, ``torch``.
    """
    asked: dict[str, Callable[[torch.device], str]] = {
        "name": _name,
        "arch": _arch,
        "memory_kind": _memory_kind,
        "memory_bytes": _memory_bytes,
        "driver": _driver,
        "runtime": _runtime,
    }
    facts = {"type": device.type, "torch": str(torch.__version__)}
    for key, ask in asked.items():
        facts[key] = _or_unknown(ask, device)
    return facts


def memory_available() -> int:
    """Bytes of host memory available now.

    Raises:
        OSError: this host does not say.
    """
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("MemAvailable: expected a line in /proc/meminfo, found none")


def _or_unknown(ask: Callable[[torch.device], str], device: torch.device) -> str:
    with contextlib.suppress(Exception):
        return ask(device) or UNKNOWN
    return UNKNOWN


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _processor()


@cache
def _processor() -> str:
    """The processor of the host, which stays the same."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _arch(device: torch.device) -> str:
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        if torch.version.hip:
            return str(properties.gcnArchName).split(":")[0]
        return f"sm_{properties.major}{properties.minor}"
    if device.type == "mps":
        return platform.machine()
    return str(torch.backends.cpu.get_cpu_capability()).lower()


def _memory_kind(device: torch.device) -> str:
    if device.type == "cuda":
        unified = getattr(torch.cuda.get_device_properties(device), "is_integrated", None)
        return UNKNOWN if unified is None else ("unified" if unified else "discrete")
    return "unified" if device.type == "mps" else "host"


def _memory_bytes(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_properties(device).total_memory)
    if device.type == "mps":
        return str(torch.mps.recommended_max_memory())
    return _host_memory()


@cache
def _host_memory() -> str:
    """Bytes of the host's memory, which stay the same."""
    first = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0]
    return str(int(first.split()[1]) * 1024)


def _driver(device: torch.device) -> str:
    if device.type == "mps":
        return platform.mac_ver()[0]
    if device.type != "cuda":
        return platform.release()
    if torch.version.hip:
        return Path("/sys/module/amdgpu/version").read_text(encoding="ascii").strip()
    text = Path("/proc/driver/nvidia/version").read_text(encoding="ascii")
    words = text.splitlines()[0].split()
    return next((word for word in words if word[:1].isdigit() and "." in word), UNKNOWN)


def _runtime(device: torch.device) -> str:
    if device.type == "cuda":
        return f"hip {torch.version.hip}" if torch.version.hip else f"cuda {torch.version.cuda}"
    if device.type == "mps":
        return f"metal on macos {platform.mac_ver()[0]}"
    return "mkl" if torch.backends.mkl.is_available() else "no mkl"  # type: ignore[no-untyped-call]
