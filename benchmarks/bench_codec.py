"""The codec's paths over K/V-like tiles, beside one memcpy of the f16 payload; rates are bytes of that payload.

``peaky`` has log-normal channel scales and a few outlier channels, as K/V rows have; ``gauss`` is i.i.d. normal and
printed beside it, since an entropy coder's speed depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.runner import Group, main
from harness.codec import blocks, paths
from harness.codec.bins import bins_of
from harness.codec.segments import read_segment
from harness.torch_engine.coded import lockstep, packing

ROWS, CHANNELS = 256, 1024
MEMCPY = "memcpy of the f16 tiles"


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

    def torch_decode() -> None:
        for one, most, b in zip(packed, maxima, bins, strict=True):
            flat = packing.unpack(one, ROWS * CHANNELS, b)
            packing.dequantise_into(flat.view(ROWS, CHANNELS), most, b, target)

    def compiled_decode() -> None:
        for one, most, b in zip(packed, maxima, bins, strict=True):
            flat = compiled.unpack(one.numpy(), ROWS * CHANNELS, 4 if b == 16 else 5).reshape(ROWS, CHANNELS)
            np.copyto(copy, compiled.dequantise(flat, most.numpy(), b), casting="same_kind")

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
    )


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

    cases: dict[str, Callable[[], object]] = {MEMCPY: memcpy}
    for kind in sorted(stored):
        cases[f"{kind} quantise"] = lambda kind=kind: [blocks.quantise(kind, one) for one in floats] and None  # type: ignore[misc]
        cases[f"{kind} read"] = lambda kind=kind: [blocks.dequantise(kind, one) for one in stored[kind]] and None  # type: ignore[misc]
    return Group(title=f"block types: {count} tiles", cases=cases, reference=MEMCPY, size=count * ROWS * CHANNELS * 2)


def groups(*, quick: bool) -> Sequence[Group]:
    """Return all groups."""
    torch.set_num_threads(1)
    return [coding_group("peaky", quick=quick), coding_group("gauss", quick=quick), block_group(quick=quick)]


if __name__ == "__main__":
    raise SystemExit(main(groups))
