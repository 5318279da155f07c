"""The disk tier of the torch engine, as engine options of the adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from harness.engines.interface import Options
from harness.errors import RefusedError
from harness.model.values import RefusalCode
from harness.torch_engine.disk_tier import DiskTier
from harness.torch_engine.engine import ENGINE_NAME, ENGINE_VERSION, TorchEngine
from harness.torch_engine.store import DiskStore

DISK_OPTIONS: Final = ("disk", "disk_bytes", "disk_min_free", "disk_build")
"""Engine options: the folder (none: no disk), its byte budget, bytes to leave free, and a text added to the build."""
_BYTES: Final = 1 << 34


def open_tier(
    engine: TorchEngine, options: Mapping[str, str | int | bool], store_class: type[DiskStore] = DiskStore
) -> DiskTier | None:
    """Open the folder that the options name; None: they name none.

    Raises:
        RefusedError: An option is out of range, or stands there without a folder.
        StoreError: The folder is locked, or cannot be used.
    """
    folder = str(options.get("disk", ""))
    if not folder:
        if options:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"found {sorted(options)} without a disk")
        return None
    budget, free = (options.get(name, default) for name, default in (("disk_bytes", _BYTES), ("disk_min_free", 0)))
    if not isinstance(budget, int) or not isinstance(free, int) or min(budget, free) < 0:
        raise RefusedError(RefusalCode.UNSUPPORTED, "disk_bytes and disk_min_free: expected numbers from 0 on")
    build = f"{ENGINE_NAME} {ENGINE_VERSION} torch {torch.__version__} {options.get('disk_build', '')}".strip()
    store = store_class.open(Path(folder), build=build, budget_bytes=budget, min_free_bytes=free)
    return DiskTier(store, engine.device)


def disk_files(tier: DiskTier | None) -> Sequence[Options]:
    """Return the links of this build that lie in the folder, by file name."""
    rows = [] if tier is None else tier.store.entries()
    found: list[Options] = [
        {
            "file": str(row["name"]),
            "boundary": int(str(row["boundary"])),
            "bytes": int(str(row["bytes"])),
            "payload_at": int(str(row["payload_at"])),
        }
        for row in rows
        if "key" in row
    ]
    return sorted(found, key=lambda row: str(row["file"]))
