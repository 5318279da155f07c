"""The codec's paths over K/V-like tiles, beside one memcpy of the f16 payload; rates are bytes of that payload.

``peaky`` has log-normal channel scales and a few outlier channels, as K/V rows have; ``gauss`` is i.i.d. normal and
printed beside it, since an entropy coder's speed depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.runner import Goal, Group, main
from harness.codec import blocks, paths
from harness.codec.bins import bins_of
from harness.codec.segments import Segment, read_segment
from harness.torch_engine.coded import lockstep, packing

ROWS, CHANNELS = 256, 1024
MEMCPY = "memcpy of the f16 tiles"
GOALS = (
    Goal(case="LCG2 decode, torch", gb_per_core_at_least=1.4),
    Goal(case="LCG2 decode, compiled", gb_per_core_at_least=3.0),
    Goal(case="quantise + CDF, compiled", gb_per_core_at_least=1.4),
    Goal(case="LCG1 decode, compiled", gb_per_core_at_least=0.1),
    Goal(case="LCG1 encode, compiled", gb_per_core_at_least=0.14),
)
BLOCKS = {"q8_0 quantise": 1.55, "q8_0 read": 3.95, "q4_0 quantise": 1.3, "q4_0 read": 1.85}
"""Half of what a compiled prototype reached."""


def tiles(kind: str, count: int) -> list[npt.NDArray[np.float16]]:
    """Seeded tiles of 256 tokens x 1,024 channels."""
    rng = np.random.default_rng(1)
    out = []
    for _ in range(count):
        values = rng.standard_normal((ROWS, CHANNELS), dtype=np.float32)
        if kind == "peaky":
            scale = np.exp(rng.standard_normal(CHANNELS, dtype=np.float32) * 0.5)
            scale[rng.random(CHANNELS) < 0.004] *= 40
            values *= scale
        out.append(values.astype(np.float16))
    return out


def coding_group(kind: str, *, quick: bool) -> Group:
    """Every step of both segment formats; all paths must give the same symbols."""
    count = 4 if quick else 28
    halves = tiles(kind, count)
    bins = [bins_of(layer=index, layers=count, side="k") for index in range(count)]
    compiled = paths.coder("compiled")
    floats = [tile.astype(np.float32) for tile in halves]
    tensors = [torch.from_numpy(tile) for tile in halves]
    symbols = [compiled.quantise(tile, b)[0] for tile, b in zip(floats, bins, strict=True)]
    maxima = [torch.from_numpy(compiled.quantise(tile, b)[1]) for tile, b in zip(floats, bins, strict=True)]
    cdfs = [compiled.cdfs(one) for one in symbols]
    first = [
        read_segment(paths.encode_tile(t, bins=b, version=1, path=compiled)) for t, b in zip(halves, bins, strict=True)
    ]
    packed = [packing.pack(torch.from_numpy(one).view(-1), b) for one, b in zip(symbols, bins, strict=True)]
    target = torch.empty((ROWS, CHANNELS), dtype=torch.float16)
    copy = np.empty_like(halves[0])

    def memcpy() -> None:
        for tile in halves:
            np.copyto(copy, tile)

    second = [
        read_segment(paths.encode_tile(t, bins=b, version=2, path=compiled)) for t, b in zip(halves, bins, strict=True)
    ]

    def torch_decode() -> None:
        for one, most, b in zip(packed, maxima, bins, strict=True):
            packing.restore_into(one, most, b, target)

    def compiled_decode() -> None:
        for one in second:
            paths.half_values(one, path=compiled)

    cases: Mapping[str, Callable[[], object]] = {
        MEMCPY: memcpy,
        "LCG2 decode, torch": torch_decode,
        "LCG2 decode, compiled": compiled_decode,
        "quantise, torch": lambda: [packing.quantise(one, b) for one, b in zip(tensors, bins, strict=True)] and None,
        "quantise + CDF, compiled": lambda: (
            [compiled.cdfs(compiled.quantise(one, b)[0]) for one, b in zip(floats, bins, strict=True)] and None
        ),
        "LCG1 encode, compiled": lambda: (
            [compiled.encode(one, cdf) for one, cdf in zip(symbols, cdfs, strict=True)] and None
        ),
        "LCG1 decode, compiled": lambda: [compiled.decode(one) for one in first] and None,
        "LCG1 decode, torch lockstep": lambda: lockstep.decode(first[0], torch.device("cpu")) is None,
    }
    return Group(
        title=f"CacheGen, {kind}: {count} tiles of {ROWS} x {CHANNELS} (lockstep: one tile)",
        cases=cases,
        reference=MEMCPY,
        size=count * ROWS * CHANNELS * 2,
        goals=GOALS if kind == "peaky" else (),
        kept={
            "LCG2 decode, torch": _kept(second),
            "LCG2 decode, compiled": _kept(second),
            "LCG1 decode, compiled": _kept(first),
        },
    )


def _kept(segments: Sequence[Segment]) -> float:
    """Stored bytes by those of the f16 tiles."""
    stored = sum(16 + one.maxima.nbytes + one.cdfs.nbytes + one.lengths.nbytes + one.payload.nbytes for one in segments)
    return stored / sum(2 * one.rows * one.channels for one in segments)


def block_group(*, quick: bool) -> Group:
    """ggml blocks in arrays."""
    count = 2 if quick else 8
    floats = [tile.astype(np.float32) for tile in tiles("gauss", count)]
    stored = {kind: [blocks.quantise(kind, one) for one in floats] for kind in blocks.BLOCK_BYTES}
    copy = np.empty((ROWS, CHANNELS), np.float16)
    halves = tiles("gauss", count)

    def memcpy() -> None:
        for tile in halves:
            np.copyto(copy, tile)

    def each(step: Callable[..., object], kind: str, of: Sequence[object], path: paths.Coder) -> Callable[[], None]:
        def run() -> None:
            for one in of:
                step(kind, one, path=path)

        return run

    cases: dict[str, Callable[[], object]] = {MEMCPY: memcpy}
    for name in ("numpy", "compiled"):
        path = paths.coder(name)
        for kind in sorted(stored):
            cases[f"{kind} quantise, {name}"] = each(paths.quantised_blocks, kind, floats, path)
            cases[f"{kind} read, {name}"] = each(paths.block_values, kind, stored[kind], path)
    return Group(
        title=f"block types: {count} tiles",
        cases=cases,
        reference=MEMCPY,
        size=count * ROWS * CHANNELS * 2,
        goals=[Goal(case=f"{case}, compiled", gb_per_core_at_least=rate) for case, rate in BLOCKS.items()],
        kept={f"{kind} read, compiled": blocks.BLOCK_BYTES[kind] / 64 for kind in stored},
    )


def groups(*, quick: bool) -> Sequence[Group]:
    """Return all groups."""
    torch.set_num_threads(1)
    return [coding_group("peaky", quick=quick), coding_group("gauss", quick=quick), block_group(quick=quick)]


if __name__ == "__main__":
    raise SystemExit(main(groups))
