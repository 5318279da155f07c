"""The Triton kernels give the oracle's bits, in Triton's interpreter on the CPU; without the extra the path is refused.

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


def asked(*cases: str, folder: Path, interpreted: bool) -> None:
    """Run cases of `tests.codec.in_triton`."""
    own = {"TRITON_INTERPRET": "1"} if interpreted else {}
    rest = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env = {**rest, **own, "TRITON_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tests.codec.in_triton", *cases]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr[-2000:]


@NO_TRITON
def test_the_kernels_give_the_oracles_bits_in_the_interpreter(tmp_path: Path) -> None:
    asked("equal", "both_bins", folder=tmp_path, interpreted=True)


@NO_TRITON
def test_a_tile_that_is_refused_is_named_by_its_record(tmp_path: Path) -> None:
    asked("refused", folder=tmp_path, interpreted=True)


@NO_TRITON
def test_an_archive_is_sent_once_and_decoded_in_one_launch_for_each_type_of_its_rows(tmp_path: Path) -> None:
    asked("launches", folder=tmp_path, interpreted=True)


@NO_TRITON
def test_an_archive_lands_in_resident_rows_by_the_declared_path_and_by_no_other(tmp_path: Path) -> None:
    asked("declared", folder=tmp_path, interpreted=True)


@NO_TRITON
def test_the_matrix_asks_of_a_path_without_version_1_what_it_can_hold(tmp_path: Path) -> None:
    asked("probes", folder=tmp_path, interpreted=True)


@NO_TRITON
def test_the_kernels_compile_for_cuda_and_rocm_without_a_device_and_nothing_is_fused(tmp_path: Path) -> None:
    asked("compiled", folder=tmp_path, interpreted=False)


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
