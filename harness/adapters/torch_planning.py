"""A plan of memory of the embedded engine, for those who ask before they open it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

import torch

from harness.adapters.torch_words import refusals
from harness.engines.interface import Options
from harness.torch_engine.devices import memory_available
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.planning import WORKSPACE_ROWS, plan_options

_OWN: Final = frozenset(field.name for field in fields(EngineOptions))


def planned(asked: Options, *, memory: int, context: int) -> Mapping[str, int]:
    """Return who gets how many bytes; see :class:`harness.engines.interface.Planning`.

    Args:
        asked: Engine options.
        memory: Bytes there are; 0: what is free on the device now.
        context: Tokens that a session is to hold.

    Raises:
        RefusedError: An option is out of range.
        OSError: The host does not say how much is free.
    """
    own = {name: value for name, value in asked.items() if name in _OWN}
    with refusals():
        options = EngineOptions(**{**own, "max_seq_len": context})  # type: ignore[arg-type] # validated by the engine
        plan, measured = plan_options(options, memory or _free(options.device))
    return {
        "total": plan.total,
        "weights": plan.weights,
        "state": plan.state,
        "workspace": plan.workspace,
        "workspace_rows": min(WORKSPACE_ROWS, context),
        "workspace_measured_at": measured,
        "snapshots": plan.snapshots,
        "prefix": plan.prefix,
        "prefixes": plan.prefixes,
        "fits_up_to": plan.fits_up_to,
    }


def _free(device: str) -> int:
    if device.partition(":")[0] == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return memory_available()
