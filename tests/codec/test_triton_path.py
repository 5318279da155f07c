"""The Triton kernel gives the oracle's bits, in Triton's interpreter on the CPU; without the extra the path is refused.

Triton reads ``TRITON_INTERPRET`` when it is imported, so that each question has a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness import cli
from harness.codec.errors import PathError
from harness.errors import ExitCode
from harness.torch_engine.archives import Archiver
from harness.torch_engine.coded import restoring
from harness.torch_engine.errors import OptionError

ROOT = Path(__file__).parents[2]
NO_TRITON = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="statecert[triton] is not installed")

EQUAL = """
import torch
from harness.codec import paths
from harness.codec.errors import ValueRefusedError
from harness.codec.segments import read_segment
from harness.torch_engine.coded import triton_kernels as kernels
from tests.codec import pages
numpy = paths.coder("numpy")
for bins in (16, 32):
    for rows, channels in ((1, 1), (3, 5), (255, 7), (200, 33)):
        data = paths.encode_tile(pages.random_tile(rows + 2, rows, channels), bins=bins, version=2, path=numpy)
        segment, wanted = read_segment(data), paths.as_f16(paths.decode_tile(data, path=numpy))
        packed, maxima = torch.from_numpy(segment.payload.copy()), torch.from_numpy(segment.maxima.copy())
        for dtype in (torch.float16, torch.float32):
            for target in (torch.empty((rows, channels), dtype=dtype), torch.empty((channels, rows), dtype=dtype).T):
                kernels.restore_into(packed, maxima, bins, target)
                found = target.contiguous().numpy()
                assert found.tobytes() == wanted.astype(found.dtype).tobytes(), (bins, rows, channels, dtype)
    for symbols, largest, words in (([bins - 1, 0], 1.0, "symbols up to"), ([bins - 2, 0], 7e4, "range of f16")):
        import numpy as np
        packed = torch.from_numpy(numpy.pack(np.array(symbols, np.uint8), 4 if bins == 16 else 5))
        try:
            kernels.restore_into(packed, torch.tensor([largest]), bins, torch.empty((1, 2), dtype=torch.float16))
        except ValueRefusedError as refused:
            assert words in str(refused)
        else:
            raise AssertionError(words)
"""

ARCHIVE = """
import torch
from harness.codec.archive import decode_page, read_archive
from harness import cli
from harness.codec.errors import PathError
from harness.codec.paths import coder
from harness.selfcheck import codecs
from harness.torch_engine.coded import restoring
seeds = {one[68 + 3 : 68 + 4]: one for one in codecs._archives() if read_archive(one).raw == 3 * 3 * 2 + 3 * 2 * 4}
rows = torch.empty((3, 3), dtype=torch.float16), torch.empty((3, 2))
restoring.require_path("triton", torch.device("cpu"))
assert restoring.import_page(seeds[b"2"], rows, path="triton") == 42
assert b"".join(one.numpy().tobytes() for one in rows) == bytes(decode_page(seeds[b"2"], path=coder("numpy")))
try:
    restoring.import_page(seeds[b"1"], rows, path="triton")
except PathError as refused:
    assert "version 1" in str(refused)
else:
    raise AssertionError("a version without a kernel was decoded by something else")
from tests.codec.test_torch_path import GOLDEN, bytes_of, targets
data = (GOLDEN / "page-v2.ckg1").read_bytes()
wanted = bytes(decode_page(data, path=coder("oracle")))
pieces = targets(torch.zeros(len(wanted), dtype=torch.uint8))
for declared in ("triton", "triton_interpreted"):
    ran = restoring.fill(restoring.place(data, pieces), declared)
    assert ran == "triton_interpreted", "an interpreted kernel is not called by the name of a compiled one"
assert bytes_of(pieces) == wanted, "every element type, a transposed V, exact bytes"
"""

COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from harness.torch_engine.coded import triton_kernels as kernels
types = {"packed": "*u8", "maxima": "*fp32", "table": "*fp32", "out": "*fp16", "wrong": "*i32", "count": "i32",
         "size": "i32", "channels": "i32", "row_stride": "i32", "channel_stride": "i32"}
for bits in (4, 5):
    constants = {"BITS": bits, "BLOCK": kernels.BLOCK}
    signature = {**types, "BITS": "constexpr", "BLOCK": "constexpr"}
    for target, code in ((GPUTarget("cuda", 90, 32), "cubin"), (GPUTarget("hip", "gfx1151", 32), "hsaco"),
                         (GPUTarget("hip", "gfx942", 64), "hsaco")):
        source = ASTSource(fn=kernels._KERNEL, signature=signature, constexprs=constants)
        made = triton.compile(source, target=target, options={"num_warps": 4, "enable_fp_fusion": False})
        assert len(made.asm[code]) > 1000, (target, code)
        text = made.asm.get("ptx", made.asm.get("amdgcn", ""))
        assert "fma.rn.f32" not in text and "v_fma_f32" not in text and "v_fmac_f32" not in text
"""


def asked(code: str, folder: Path, *, interpreted: bool) -> None:
    own = {"TRITON_INTERPRET": "1"} if interpreted else {}
    rest = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env = {**rest, **own, "TRITON_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr[-2000:]


@NO_TRITON
def test_the_kernel_gives_the_oracles_bits_in_the_interpreter(tmp_path: Path) -> None:
    asked(EQUAL, tmp_path, interpreted=True)


@NO_TRITON
def test_an_archive_lands_in_resident_rows_by_the_declared_path_and_by_no_other(tmp_path: Path) -> None:
    asked(ARCHIVE, tmp_path, interpreted=True)


@NO_TRITON
def test_the_kernel_compiles_for_cuda_and_rocm_without_a_device_and_nothing_is_fused(tmp_path: Path) -> None:
    asked(COMPILED, tmp_path, interpreted=False)


def test_the_path_is_refused_where_its_library_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PathError, match=r"statecert\[triton\]"):
        restoring.require_path("triton", torch.device("cpu"))
    with pytest.raises(OptionError, match="archive_path"):
        Archiver("triton")


@pytest.mark.parametrize("path", ["triton", "triton_interpreted"])
def test_a_matrix_is_not_begun_on_a_path_that_does_not_run_here(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = ["--scale", "400", "--type", "f16", "--model", "wide", "--lcg", "2", "--path", "numpy"]

    assert cli.main(["kv", *words, "--restore", path, "--out", str(tmp_path)]) == ExitCode.USAGE
    assert "expected the library triton, found none" in capsys.readouterr().err
    assert not list(tmp_path.rglob("kv.jsonl"))


def test_a_path_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(PathError, match="expected torch or triton"):
        restoring.require_path("cuda-c", torch.device("cpu"))


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter runs on the CPU")
@NO_TRITON
def test_the_path_is_refused_on_a_processor() -> None:
    with pytest.raises(PathError, match="CUDA or ROCm"):
        restoring.require_path("triton", torch.device("cpu"))
