"""What `test_triton_path` asks of the kernels, each in a process of its own: ``python -m tests.codec.in_triton NAME ...``.

Triton reads ``TRITON_INTERPRET`` when it is imported, so one process is either in the interpreter or is not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.adapters.torch_adapter import TorchAdapter
from harness.campaigning.kv_probes import Paths, probe_all
from harness.codec import archive, blocks, paths
from harness.codec.errors import PathError, ValueRefusedError
from harness.codec.segments import write_lcg2
from harness.selfcheck import codecs
from harness.torch_engine.coded import restoring, tiles
from harness.torch_engine.coded import triton_kernels as kernels
from tests.codec import pages
from tests.codec.test_torch_path import FLOATS, bytes_of, targets

GOLDEN = Path(__file__).parent / "golden"
NUMPY = paths.coder("numpy")


def rows_of(element: str, tokens: int, channels: int, *, turned: bool = False) -> torch.Tensor:
    """Rows of a layer; ``turned``: channel by channel in memory."""
    dtype = FLOATS.get(element, torch.uint8)
    width = archive.row_bytes(element, channels) // dtype.itemsize
    return torch.zeros((width, tokens), dtype=dtype).T if turned else torch.zeros((tokens, width), dtype=dtype)


def equal() -> None:
    """Tiles of every size and type, in rows of any strides, are the oracle's, bit for bit."""
    shapes = [(1, 1), (3, 5), (258, 7), (3, 96), (257, 32)]
    for element in archive.ELEMENTS:
        for tokens, channels in [one for one in shapes if element in FLOATS or one[1] % blocks.BLOCK == 0]:
            made = archive.Component(
                layers=1, tokens=tokens, k_element=element, v_element="f16", k_channels=channels, v_channels=6
            )
            data = archive.encode_page(pages.layers(made, tokens), [made], version=2, path=NUMPY)
            wanted = bytes(archive.decode_page(data, path=NUMPY))
            for turned in (False, True):
                found = [rows_of(kind.element, tokens, wide, turned=turned) for _, _, kind, wide in made.sides()]
                assert restoring.import_page(data, found, path="triton") == len(wanted)
                held = b"".join(one.contiguous().numpy().tobytes() for one in found)
                assert held == wanted, (element, tokens, channels, turned)


def both_bins() -> None:
    """Tiles of 4 and of 5 bits lie side by side in one launch."""
    coarse, fine = (pages.random_tile(seed, 7, 9) for seed in (1, 2))
    segments = [
        paths.encode_tile(tile, bins=bins, version=2, path=NUMPY)
        for tile, bins in ((coarse, 16), (fine, 32), (coarse, 32), (fine, 16))
    ]
    data = pages.archive_of("f16", segments, rows=7, channels=9)
    found = rows_of("f16", 28, 9)
    restoring.import_page(data, [found], path="triton")
    assert found.numpy().tobytes() == bytes(archive.decode_page(data, path=NUMPY))


def refused() -> None:
    """What only a tile shows is refused, and its record named."""
    for element, bins in (("f16", 16), ("f16", 32), ("q8_0", 16), ("q4_0", 32)):
        for symbol, largest, words in (
            (bins - 1, 1.0, f"record 1: expected symbols up to {bins - 2}, found {bins - 1}"),
            (bins - 2, 7e4, "record 1: expected values in the range of f16"),
        ):
            symbols, maxima = np.full((3, 32), bins // 2 - 1, np.uint8), np.ones(3, np.float32)
            segments = []
            for place in (0, 1, 0):
                symbols[2, 17], maxima[2] = (symbol, largest) if place else (bins // 2 - 1, 1)
                packed = NUMPY.pack(symbols.reshape(-1), 4 if bins == 16 else 5).tobytes()
                segments.append(write_lcg2(bins=bins, maxima=maxima, channels=32, packed=packed))
            data = pages.archive_of(element, segments, rows=3, channels=32)
            with pytest.raises(ValueRefusedError, match=words):
                restoring.import_page(data, [rows_of(element, 9, 32)], path="triton")


def launches() -> None:
    """An archive is sent once, and each type of its rows takes one launch, however many tiles it has."""
    made: list[tuple[str, int]] = []
    sent: list[int] = []
    launch, send = kernels.launch, tiles.send

    def counted(kernel: object, one: tiles.Launch, sent: tiles.Sent, constants: dict[str, object]) -> None:
        made.append((one.element, one.count))
        launch(kernel, one, sent, constants)

    def sending(batch: tiles.Batch, device: torch.device) -> tiles.Sent:
        sent.append(len(batch.records))
        return send(batch, device)

    kernels.launch, tiles.send = counted, sending
    for tokens, k, v, wanted in (  # two caches alike, so that tiles of a type do not lie together
        (40, "f16", "f16", [("f16", 4)]),
        (257, "f16", "q8_0", [("f16", 4), ("q8_0", 4)]),
        (257, "q4_0", "f32", [("f32", 4), ("q4_0", 4)]),
    ):
        one = archive.Component(layers=1, tokens=tokens, k_element=k, v_element=v, k_channels=32, v_channels=32)
        data = archive.encode_page(pages.layers(one) + pages.layers(one, 6), [one, one], version=2, path=NUMPY)
        found = [rows_of(kind.element, tokens, wide) for _, _, kind, wide in (*one.sides(), *one.sides())]
        told: list[int] = []
        restoring.fill(restoring.place(data, found), "triton", wrote=told.append)
        count = sum(many for _, many in wanted)
        assert sorted(made) == wanted, made
        assert sent == [count], sent
        assert told == list(range(1, count + 1)), told
        assert bytes_of(found) == bytes(archive.decode_page(data, path=NUMPY))
        made.clear()
        sent.clear()


def declared() -> None:
    """An archive lands by the declared path, which is told by its own name, and by no other one."""
    seeds = {one[71:72]: one for one in codecs._archives() if archive.read_archive(one).raw == 3 * 3 * 2 + 3 * 2 * 4}
    rows = torch.zeros((3, 3), dtype=torch.float16), torch.zeros((3, 2))
    assert restoring.import_page(seeds[b"2"], rows, path="triton") == 42
    assert bytes_of(list(rows)) == bytes(archive.decode_page(seeds[b"2"], path=NUMPY))
    for row in rows:
        row.fill_(7)
    with pytest.raises(PathError, match="version 1"):
        restoring.import_page(seeds[b"1"], rows, path="triton")
    assert all(bool((row == 7).all()) for row in rows), "refused, and written"
    data = (GOLDEN / "page-v2.ckg1").read_bytes()
    wanted = bytes(archive.decode_page(data, path=paths.coder("oracle")))
    pieces = targets(torch.zeros(len(wanted), dtype=torch.uint8))
    for path in ("triton", "triton_interpreted"):
        ran = restoring.fill(restoring.place(data, pieces), path)
        assert ran == "triton_interpreted", "interpreted kernels are not called by the name of compiled ones"
    assert bytes_of(pieces) == wanted, "every element type, a transposed V, exact bytes"
    with pytest.raises(PathError, match="expected cpu"):  # the interpreter would read addresses of a device
        restoring.require_path("triton", torch.device("meta"))


def probes() -> None:
    """What the matrix asks of a path holds, though it knows no segments of version 1."""
    engine = TorchAdapter().open_pages({"device": "cpu"})
    for entry, names in (("H02", ["rows f16/f16", "rows f32/q8_0"]), ("H10", ["restored f16/q8_0"])):
        found = {one["name"]: one for one in probe_all(engine, Paths("numpy", "triton_interpreted"), only=entry)}
        for name in names:
            assert not str(found[name]["observed"]).startswith("refused"), found[name]
            assert found[name]["observed"] == found[name]["expected"], found[name]


def compiled() -> None:
    """The kernels compile for CUDA and ROCm without a device, and nothing is fused or divided by approximation."""
    sent = {"table": "*i64", "refused": "*i32", "values": "*fp32", "maxima": "*fp32", "symbols": "*u8", "first": "i32"}
    for kernel, constants in kernels.KERNELS.values():
        own = {**constants, "BLOCK": kernels.BLOCK}
        signature = {**sent, **dict.fromkeys(own, "constexpr")}
        for target, code in (
            (GPUTarget("cuda", 90, 32), "cubin"),
            (GPUTarget("hip", "gfx1151", 32), "hsaco"),
            (GPUTarget("hip", "gfx942", 64), "hsaco"),
        ):
            source = ASTSource(fn=kernel, signature=signature, constexprs=own)
            made = triton.compile(source, target=target, options={"num_warps": 4, "enable_fp_fusion": False})
            assert len(made.asm[code]) > 1000, (target, code)
            fused = re.findall(r"fmuladd|llvm\.fma|\bcontract\b|\bfast\b", made.asm["llir"])
            assert not fused, (target, constants, fused)
            text = made.asm.get("ptx", made.asm.get("amdgcn", ""))
            found = set(re.findall(r"fma\.rn\.f32|div\.full|div\.approx|div\.rn\.f32|v_div_fixup_f32", text))
            exact = {"ptx": {"div.rn.f32"}, "amdgcn": {"v_div_fixup_f32"}}["ptx" if "ptx" in made.asm else "amdgcn"]
            assert found == (exact if kernel is kernels.BLOCKS else set()), (target, constants, found)


CASES = {one.__name__: one for one in (equal, both_bins, refused, launches, declared, probes, compiled)}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        CASES[name]()
