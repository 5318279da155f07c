"""Deterministic settings: set, then read back, because a setting that was only asked for proves nothing.

Process-wide settings of torch are changed on purpose; an identity reports what holds afterwards.
"""

from __future__ import annotations

import os

import torch

from harness.torch_engine.options import EngineOptions

ENVIRONMENT = (
    "CUBLAS_WORKSPACE_CONFIG",
    "OMP_DYNAMIC",
    "MKL_DYNAMIC",
    "MKL_CBWR",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "PYTORCH_TUNABLEOP_ENABLED",
    "PYTORCH_MPS_FAST_MATH",
    "PYTORCH_MPS_PREFER_METAL",
    "PYTORCH_ENABLE_MPS_FALLBACK",
)
"""Environment variables that can change bits; reported, empty where unset."""
_FILL = "fill_uninitialized_memory"
_DEFAULTS = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "PYTORCH_TUNABLEOP_ENABLED": "0",
    "PYTORCH_ENABLE_MPS_FALLBACK": "0",
}


def apply_settings(options: EngineOptions) -> None:
    """Make torch repeatable: before CUDA starts, and again for every engine."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    use_threads(options.threads)
    torch.set_deterministic_debug_mode("error")  # the same switch, without the import of a compiler that takes seconds
    setattr(torch.utils.deterministic, _FILL, options.poison == "nan")
    torch.set_float32_matmul_precision("highest")
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = False
    matmul.allow_fp16_reduced_precision_reduction = False
    matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    _math_attention_only()


def _math_attention_only() -> None:
    torch.backends.cuda.enable_flash_sdp(enabled=False)
    torch.backends.cuda.enable_mem_efficient_sdp(enabled=False)
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    torch.backends.cuda.enable_math_sdp(enabled=True)


def use_threads(count: int) -> None:
    """Pin the host's intra-operation threads, where they are not pinned already."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def read_settings() -> dict[str, str | int]:
    """What holds now, asked of torch and of the environment."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    effective: dict[str, str | int] = {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "deterministic_algorithms": int(torch.are_deterministic_algorithms_enabled()),
        "fill_uninitialized_memory": int(getattr(torch.utils.deterministic, _FILL)),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "matmul_tf32": int(cuda.matmul.allow_tf32),
        "cudnn_tf32": int(cudnn.allow_tf32),
        "fp16_reduced_precision_reduction": int(cuda.matmul.allow_fp16_reduced_precision_reduction),
        "bf16_reduced_precision_reduction": int(cuda.matmul.allow_bf16_reduced_precision_reduction),
        "cudnn_benchmark": int(cudnn.benchmark),
        "cudnn_deterministic": int(cudnn.deterministic),
        "sdpa_flash": _enabled("flash_sdp"),
        "sdpa_mem_efficient": _enabled("mem_efficient_sdp"),
        "sdpa_cudnn": _enabled("cudnn_sdp"),
        "sdpa_math": _enabled("math_sdp"),
        "attention_backend": "matmul_softmax_matmul",
    }
    return effective | {f"env.{name}": os.environ.get(name, "") for name in ENVIRONMENT}


def _enabled(backend: str) -> int:
    """Whether a scaled-dot-product attention backend may be chosen."""
    return int(getattr(torch.backends.cuda, f"{backend}_enabled")())
