"""How memory is divided: weights, one session's state, the workspace of a prefill; snapshots get the rest.

The workspace comes first: a prefill that cannot run is worse than a snapshot that does not fit. What a state and a
prefix take is computed from layouts, which may lie on torch's ``meta`` device, so nothing is allocated; what a prefill
takes is measured by running one.

``python -m harness.torch_engine.planning --memory 8000000000 --context 131072`` shows a plan, and so does
``statecert doctor``, for what is free now.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import OptionError
from harness.torch_engine.models.config import TILE, ModelConfig, model_config
from harness.torch_engine.models.decoder import weight_specs
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.snapshot import Snapshotter
from harness.torch_engine.state import StateLayout

WORKSPACE_ROWS = 4096
"""Rows of the prefill for which memory is reserved."""
MOST_TOKENS = 1 << 26
"""Longest context that a plan looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPlan:
    """Who gets how many bytes. All numbers are bytes but those that say otherwise."""

    total: int
    context: int
    """Tokens that the session's buffers hold."""
    weights: int
    state: int
    """Buffers of one session at this context."""
    workspace: int
    """What a prefill takes besides."""
    snapshots: int
    """What is left, and may be the byte budget of the session cache; 0 where nothing is."""
    prefix: int
    """One snapshot of the whole context."""
    fits_up_to: int
    """Longest context in tokens at which one snapshot of all of it still fits into what is left; 0 for none."""

    @property
    def prefixes(self) -> int:
        """Snapshots of the whole context that fit."""
        return self.snapshots // self.prefix

    @property
    def fits(self) -> bool:
        """Whether one does."""
        return self.prefixes > 0


def plan_memory(
    *,
    total: int,
    context: int,
    layout_at: Callable[[int], StateLayout],
    weights: int = 0,
    workspace: int = 0,
) -> MemoryPlan:
    """Divide memory.

    Args:
        total: bytes there are.
        context: tokens that a session is to hold.
        layout_at: the state after so many tokens, in buffers of just that capacity; ``meta`` tensors will do.
        weights: bytes of the weights.
        workspace: bytes of a prefill, like those of `measured_workspace`.

    Raises:
        OptionError: a number below its least.
    """
    if context < 1 or min(total, weights, workspace) < 0:
        raise OptionError(f"plan: expected bytes from 0 on and a context from 1 on, found {total}, {context}")
    fixed = weights + workspace

    def sizes(tokens: int) -> tuple[int, int]:
        layout = layout_at(tokens)
        whole = Snapshotter().size(layout, (0,) * len(layout.rows), b"")
        return sum(part.nbytes for part in layout.parts()), whole

    def room(tokens: int) -> bool:
        state, whole = sizes(tokens)
        return fixed + state + whole <= total

    state, prefix = sizes(context)
    return MemoryPlan(
        total=total,
        context=context,
        weights=weights,
        state=state,
        workspace=workspace,
        snapshots=max(0, total - fixed - state),
        prefix=prefix,
        fits_up_to=_largest(room),
    )


def _largest(room: Callable[[int], bool]) -> int:
    """The largest number up to `MOST_TOKENS` for which there is room, 0 if there is none; room only shrinks."""
    low, high = 0, 1
    while high < MOST_TOKENS and room(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if room(middle) else (low, middle)
    return low


def measured_workspace(work: Callable[[], object]) -> int:
    """The most bytes that tensors made by some work held at once; what kernels use inside themselves is not seen.

    Args:
        work: called once.
    """
    with _Peak() as seen:
        work()
    return int(seen.peak)


class _Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages that operations make, for as long as somebody holds them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak: int = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {leaf.untyped_storage()._cdata for leaf in _tensors((args, kwargs))}  # noqa: SLF001 - its identity
        out = func(*args, **(kwargs or {}))
        self._live = {number: held for number, held in self._live.items() if not _gone(held[0])}
        for leaf in _tensors(out):
            storage = leaf.untyped_storage()
            if storage._cdata not in given and storage._cdata not in self._live:  # noqa: SLF001 - its identity
                self._live[storage._cdata] = (_watched(storage), storage.nbytes())  # noqa: SLF001
        self.peak = max(self.peak, sum(size for _, size in self._live.values()))
        return out


def _watched(storage: torch.UntypedStorage) -> StorageWeakRef:
    return StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _gone(watched: StorageWeakRef) -> bool:
    return bool(watched.expired())  # type: ignore[no-untyped-call]


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


# -- the embedded engine -----------------------------------------------------------------------


def engine_layouts(config: ModelConfig, options: EngineOptions) -> Callable[[int], StateLayout]:
    """What `plan_memory` asks, for the embedded engine; allocates nothing on the device."""

    def layout_at(tokens: int) -> StateLayout:
        plain = replace(options, max_seq_len=tokens, poison="none")
        buffers = SessionBuffers(config, plain, torch.device("meta"))
        return buffers.layout("prefix", buffers.lengths_at(tokens))

    return layout_at


def engine_workspace(engine: TorchEngine, rows: int = WORKSPACE_ROWS) -> int:
    """Bytes of a prefill of so many rows at the end of an engine's context, measured on a session of its own."""
    session = engine.open_session()
    count = min(rows, session.buffers.capacity)
    start = (session.buffers.capacity - count) // TILE * TILE
    ids = torch.zeros(count, dtype=torch.int64, device=session.buffers.device)
    session.buffers.set_lengths(session.buffers.lengths_at(start))

    def work() -> None:
        with torch.inference_mode():
            session.decoder.logits(session.decoder.prefill(ids, start, session.buffers.layers))

    try:
        return measured_workspace(work)
    finally:
        session.close()


def plan_engine(engine: TorchEngine, total: int, rows: int = WORKSPACE_ROWS) -> MemoryPlan:
    """Divide memory for an engine as its options have it.

    Args:
        engine: its ``max_seq_len`` is the context.
        total: bytes there are.
        rows: of the prefill for which workspace is reserved.
    """
    config, options = engine.model.config, engine.options
    weights = sum(4 * math.prod(spec.shape) for spec in weight_specs(config).values())
    return plan_memory(
        total=total,
        context=options.max_seq_len,
        layout_at=engine_layouts(config, options),
        weights=weights,
        workspace=engine_workspace(engine, rows),
    )


def plan_options(options: EngineOptions, total: int, rows: int = WORKSPACE_ROWS) -> tuple[MemoryPlan, int]:
    """Divide memory for an engine that is not open: its workspace is measured on one of a shorter context.

    Args:
        options: the engine's; its ``max_seq_len`` is the context.
        total: bytes there are.
        rows: of the prefill for which workspace is reserved.

    Returns:
        The plan, and the context in tokens at which the workspace was measured.

    Raises:
        OptionError: an option out of range, or a number below its least.
    """
    measured = min(options.max_seq_len, 4 * rows)  # the scores of a longer index are all that a later one adds
    engine = TorchEngine(replace(options, max_seq_len=measured))
    config = model_config(options.preset, options.arch)
    plan = plan_memory(
        total=total,
        context=options.max_seq_len,
        layout_at=engine_layouts(config, options),
        weights=sum(4 * math.prod(spec.shape) for spec in weight_specs(config).values()),
        workspace=engine_workspace(engine, rows),
    )
    return plan, measured


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a plan of the embedded engine."""
    parser = argparse.ArgumentParser(prog="python -m harness.torch_engine.planning", description=main.__doc__)
    parser.add_argument("--memory", type=int, required=True, help="bytes there are")
    parser.add_argument("--context", type=int, required=True, help="tokens that a session holds")
    parser.add_argument("--preset", default="tiny", help="model preset (default: %(default)s)")
    parser.add_argument("--arch", default="hybrid", help="architecture (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=WORKSPACE_ROWS, help="rows of a prefill (default: %(default)s)")
    asked = parser.parse_args(arguments)
    options = EngineOptions(preset=asked.preset, arch=asked.arch, max_seq_len=asked.context)
    plan, measured = plan_options(options, asked.memory, asked.rows)
    rows = {
        "weights": f"{plan.weights:,} B",
        "state of one session": f"{plan.state:,} B at {plan.context:,} tokens",
        "workspace": f"{plan.workspace:,} B for {asked.rows:,} rows, measured at {measured:,} tokens",
        "left for snapshots": f"{plan.snapshots:,} B",
        "one prefix": f"{plan.prefix:,} B; {plan.prefixes} fit",
        "prefixes fit up to": f"{plan.fits_up_to:,} tokens" if plan.fits_up_to else "no context",
    }
    for name, value in rows.items():
        print(f"{name:<22}{value}")  # noqa: T201 - the command's output


if __name__ == "__main__":
    main()
