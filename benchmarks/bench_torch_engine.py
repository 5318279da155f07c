"""The torch engine: restores and captures against one memcpy, warm turns against their suffix alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch

from benchmarks.runner import Goal, Group, main
from harness.torch_engine import EngineOptions, RowStream, Snapshot, Snapshotter, StateLayout, TorchEngine
from harness.torch_engine.weights import mix64

STREAMS, LINKS = 48, 8
MEMCPY = "one memcpy of the same bytes"


def _layout(segment_bytes: int, rows: int) -> StateLayout:
    """Streams of 1 KiB rows with ``rows`` valid ones; room for all links."""
    capacity = LINKS * segment_bytes // 1024
    streams = tuple(
        RowStream(
            name=f"layer{i}.k",
            family="kv",
            layer=i,
            element_type="bf16",
            tensor=torch.ones((capacity, 512), dtype=torch.bfloat16),
            rows=rows,
        )
        for i in range(STREAMS)
    )
    return StateLayout(fixed=(), rows=streams)


def _at(layout: StateLayout, rows: int) -> StateLayout:
    """The same buffers with other row counts."""
    streams = [
        RowStream(name=r.name, family=r.family, layer=r.layer, element_type=r.element_type, tensor=r.tensor, rows=rows)
        for r in layout.rows
    ]
    return StateLayout(fixed=(), rows=tuple(streams))


def restore_group(segment_bytes: int, limit: float) -> Group:
    """A chain of links back into warm buffers."""
    take, step = Snapshotter(), segment_bytes // 1024
    layout = _layout(segment_bytes, step)
    chain: list[Snapshot] = []
    for i in range(LINKS):
        parent = chain[-1] if chain else None
        grown = _at(layout, (i + 1) * step)
        chain.append(take.capture(grown, b"", take.starts(grown, parent)))
    whole = _at(layout, LINKS * step)
    source = torch.ones(STREAMS * LINKS * segment_bytes, dtype=torch.uint8)
    target = torch.zeros_like(source)
    restore = f"restore of {STREAMS * LINKS} segments"
    return Group(
        title=f"restore: {STREAMS} streams x {LINKS} links of {segment_bytes >> 10} KiB",
        cases={MEMCPY: lambda: target.copy_(source).numel(), restore: lambda: take.restore(chain, whole)},
        reference=MEMCPY,
        size=source.numel(),
        goals=(Goal(case=restore, time_at_most=limit),),
        check=_same,
    )


def capture_group(*, quick: bool) -> Group:
    """A capture into memory that an earlier link gave back, against one memcpy; at any depth only new rows may cost."""
    step = 64 if quick else 2048
    take, layout = Snapshotter(), _layout(step * 1024, step)
    first, eighth = _at(layout, step), _at(layout, LINKS * step)
    starts = tuple((LINKS - 1) * step for _ in layout.rows)
    source = torch.ones(STREAMS * step * 1024, dtype=torch.uint8)
    target = torch.zeros_like(source)
    at_first, at_eighth = "capture of the first chunk", "capture of the eighth chunk"

    def captured(state: StateLayout, from_rows: tuple[int, ...]) -> int:
        link = take.capture(state, b"", from_rows)
        take.arenas.give_back(link.arena)
        return int(link.arena.numel())

    return Group(
        title=f"capture into warm memory: {STREAMS} streams, {step} KiB of new rows each",
        cases={
            MEMCPY: lambda: target.copy_(source).numel(),
            at_first: lambda: captured(first, (0,) * STREAMS),
            at_eighth: lambda: captured(eighth, starts),
        },
        reference=MEMCPY,
        size=source.numel(),
        goals=() if quick else (Goal(case=at_first, time_at_most=1.2), Goal(case=at_eighth, time_at_most=1.2)),
        check=_same,
    )


def depth_group(*, quick: bool) -> Group:
    """Capture and digest of the first and of the eighth link: only the new rows may be copied and hashed."""
    step = 64 if quick else 2048
    take, layout = Snapshotter(), _layout(step * 1024, step)
    first, eighth = _at(layout, step), _at(layout, LINKS * step)
    starts = tuple((LINKS - 1) * step for _ in layout.rows)

    def captured(state: StateLayout, from_rows: tuple[int, ...]) -> int:
        link = take.capture(state, b"", from_rows)
        hashlib.sha256(link.arena.numpy().data).digest()
        take.arenas.give_back(link.arena)
        return int(link.arena.numel())

    at_first, at_eighth = "depth 1", "depth 8"
    return Group(
        title=f"capture and digest: {STREAMS} streams, {step} KiB of new rows each",
        cases={at_first: lambda: captured(first, (0,) * STREAMS), at_eighth: lambda: captured(eighth, starts)},
        reference=at_first,
        size=STREAMS * step * 1024,
        goals=(Goal(case=at_eighth, time_at_most=1.1),),
        check=_same,
    )


def turn_group(*, quick: bool) -> Group:
    """A warm turn against forwarding the same suffix on top of a resident state."""
    chunk, suffix = (512, 200) if quick else (8192, 5166)
    engine = TorchEngine(EngineOptions(chunk=chunk, threads=1))
    prompt = [mix64(i) % 512 for i in range(2 * chunk + suffix)]
    warm, resident = engine.open_session(), engine.open_session()
    warm.begin(prompt, use_cache=True)
    warm.prefill(len(prompt))
    warm.commit()

    def suffix_alone() -> int:
        resident.buffers.set_lengths(resident.buffers.lengths_at(2 * chunk))
        resident.buffers.history_rows = resident.position = 2 * chunk
        resident.prefill(len(prompt))
        return resident.position

    def warm_turn() -> int:
        warm.begin(prompt, use_cache=True)
        warm.prefill(len(prompt))
        return warm.position

    resident.begin(prompt, use_cache=False)
    resident.prefill(len(prompt))
    alone, turn = "the suffix alone", "restore and suffix"
    return Group(
        title=f"warm turn: {2 * chunk} tokens restored, {suffix} forwarded",
        cases={alone: suffix_alone, turn: warm_turn},
        reference=alone,
        goals=(Goal(case=turn, time_at_most=1.05),),
        check=_same,
    )


def _same(results: Mapping[str, object]) -> None:
    """Every case reports the same amount of work."""
    if len(set(results.values())) != 1:
        raise ValueError(f"cases disagree: {dict(results)}")


def groups(*, quick: bool) -> Sequence[Group]:
    """All groups."""
    torch.set_num_threads(1)
    sizes = ((64 << 10, 1.3), (4 << 10, 9.0)) if quick else ((2 << 20, 1.15), (256 << 10, 1.15), (4 << 10, 2.0))
    restores = [restore_group(size, limit) for size, limit in sizes]
    return [*restores, capture_group(quick=quick), depth_group(quick=quick), turn_group(quick=quick)]


if __name__ == "__main__":
    raise SystemExit(main(groups))
