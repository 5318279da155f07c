"""The embedded snapshot/restore engine: decoders made of a seed, delta snapshots, a session cache.

It imports nothing of the rest of the harness. Importing this package does not import torch; its
names do when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.torch_engine.cache import SessionCache
    from harness.torch_engine.cache_types import CachePlan, Restorable, Turn
    from harness.torch_engine.chat import ChatFormat, chat_format
    from harness.torch_engine.engine import TorchEngine
    from harness.torch_engine.errors import TorchEngineError
    from harness.torch_engine.handles import SessionHandle
    from harness.torch_engine.keys import CacheKey, Schedule, encode_domain
    from harness.torch_engine.options import EngineOptions, SessionOptions
    from harness.torch_engine.planning import MemoryPlan, measured_workspace, plan_engine, plan_memory
    from harness.torch_engine.sampling import Greedy, Sampling
    from harness.torch_engine.session import TorchSession
    from harness.torch_engine.snapshot import Snapshot, Snapshotter
    from harness.torch_engine.state import FixedPart, RowStream, StateLayout

__all__ = [
    "CacheKey",
    "CachePlan",
    "ChatFormat",
    "EngineOptions",
    "FixedPart",
    "Greedy",
    "MemoryPlan",
    "Restorable",
    "RowStream",
    "Sampling",
    "Schedule",
    "SessionCache",
    "SessionHandle",
    "SessionOptions",
    "Snapshot",
    "Snapshotter",
    "StateLayout",
    "TorchEngine",
    "TorchEngineError",
    "TorchSession",
    "Turn",
    "chat_format",
    "encode_domain",
    "measured_workspace",
    "plan_engine",
    "plan_memory",
]

_HOMES = {
    "CacheKey": "keys",
    "CachePlan": "cache_types",
    "ChatFormat": "chat",
    "EngineOptions": "options",
    "FixedPart": "state",
    "Greedy": "sampling",
    "MemoryPlan": "planning",
    "Restorable": "cache_types",
    "RowStream": "state",
    "Sampling": "sampling",
    "Schedule": "keys",
    "SessionCache": "cache",
    "SessionHandle": "handles",
    "SessionOptions": "options",
    "Snapshot": "snapshot",
    "Snapshotter": "snapshot",
    "StateLayout": "state",
    "TorchEngine": "engine",
    "TorchEngineError": "errors",
    "TorchSession": "session",
    "Turn": "cache_types",
    "chat_format": "chat",
    "encode_domain": "keys",
    "measured_workspace": "planning",
    "plan_engine": "planning",
    "plan_memory": "planning",
}


def __getattr__(name: str) -> object:
    """Import a public name's module when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
