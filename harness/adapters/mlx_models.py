"""Models of mlx-lm: tiny ones by name with weights from a seed, and real ones from a local folder.

Nothing is ever downloaded: a path that is not there is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.torch_engine.errors import OptionError, UnsupportedError

VOCAB: Final = 512
GROUP: Final = 32
"""Elements that share a scale in a quantised cache; a head has at least so many."""
_COMMON: Final = {"vocab_size": VOCAB, "hidden_size": 32}
"""Of every tiny model: small, since products of matrices are most of what a run on a processor costs."""
_ATTENTION: Final = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 1 << 17,
    "head_dim": 16,
}
_DELTA: Final = {
    "num_hidden_layers": 3,
    "full_attention_interval": 3,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
}
"""Two layers of the delta rule, whose heads are as wide as its kernel on Metal asks for, and one of attention."""


@dataclass(frozen=True, slots=True)
class Tiny:
    """A model that is made, not loaded."""

    module: str
    """Module of ``mlx_lm.models``."""
    arch: str
    """Kind of its state, in the words that scenarios use."""
    args: Mapping[str, Any]
    args_class: str = "ModelArgs"
    model_class: str = "Model"


TINY: Final[Mapping[str, Tiny]] = {
    "llama": Tiny("llama", "attention", {**_ATTENTION, "num_hidden_layers": 2, "head_dim": GROUP}),
    "qwen3": Tiny(
        "qwen3",
        "attention",
        {**_ATTENTION, "num_hidden_layers": 2, "tie_word_embeddings": True, "rope_theta": 10000.0},
    ),
    "qwen3_next": Tiny(
        "qwen3_next",
        "hybrid",
        {
            **_ATTENTION,
            **_DELTA,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "decoder_sparse_step": 1,
            "shared_expert_intermediate_size": 32,
            "mlp_only_layers": [],
            "moe_intermediate_size": 32,
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
    ),
    "qwen3_5": Tiny("qwen3_5", "hybrid", {**_ATTENTION, **_DELTA}, "TextModelArgs", "TextModel"),
    "lfm2": Tiny(
        "lfm2",
        "hybrid",
        {
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 1 << 17,
            "norm_eps": 1e-6,
            "conv_bias": False,
            "conv_L_cache": 3,
            "block_dim": 32,
            "block_ff_dim": 64,
            "block_multiple_of": 32,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "mamba2": Tiny(
        "mamba2",
        "recurrent",
        {
            "num_hidden_layers": 2,
            "num_heads": 4,
            "head_dim": 16,
            "intermediate_size": 64,
            "state_size": 16,
            "layer_norm_epsilon": 1e-6,
            "conv_kernel": 4,
            "n_groups": 1,
            "use_bias": False,
            "use_conv_bias": True,
            "tie_word_embeddings": True,
            "time_step_limit": [0.0, 100.0],
            "time_step_rank": 4,
        },
    ),
    "gemma3": Tiny(
        "gemma3_text",
        "sliding",
        {
            **_ATTENTION,
            "num_hidden_layers": 3,
            "query_pre_attn_scalar": 16,
            "sliding_window": 64,
            "sliding_window_pattern": 3,
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
    type: str
    vocab: int
    digest: str
    weights_sha256: str
    seeded: bool


def preset_of(preset: str, arch: str) -> str:
    """Return the name of the tiny model of a preset and a kind of state.

    Raises:
        OptionError: There is no such preset.
        UnsupportedError: The preset's state is of another kind.
    """
    if preset == "tiny":
        if arch and arch not in BY_ARCH:
            raise OptionError(f"arch: expected one of {sorted(BY_ARCH)}, found {arch!r}")
        return BY_ARCH[arch or "hybrid"]
    if preset not in TINY:
        raise OptionError(f"preset: expected one of {sorted(('tiny', *TINY))}, or a path; found {preset!r}")
    if arch and arch != TINY[preset].arch:
        raise UnsupportedError(f"arch: preset {preset} is {TINY[preset].arch}, found {arch!r}")
    return preset


@lru_cache(maxsize=16)
def tiny(name: str, seed: int, dtype: str) -> Found:
    """Make a tiny model."""
    import mlx.core as mx

    chosen = TINY[name]
    module = import_module(f"mlx_lm.models.{chosen.module}")
    given = {"model_type": chosen.module, **_COMMON, **chosen.args}
    mx.random.seed(seed)
    made = getattr(module, chosen.model_class)(getattr(module, chosen.args_class).from_dict(given))
    return _found(made, chosen.module, VOCAB, given, dtype, seeded=True)


@lru_cache(maxsize=2)
def local(path: str, dtype: str) -> Found:
    """Load a model from a folder.

    Raises:
        OptionError: There is no such folder.
    """
    from mlx_lm.utils import load_model

    place = Path(path)
    if not place.is_dir():
        raise OptionError("path: expected a folder of a model, found none there")
    made, config = load_model(place)
    return _found(made, str(config["model_type"]), int(config["vocab_size"]), config, dtype, seeded=False)


def mlx_dtype(name: str) -> Any:
    """The library's element type of a name."""
    import mlx.core as mx

    return {"f32": mx.float32, "bf16": mx.bfloat16, "f16": mx.float16}[name]


def _found(
    made: Any,
    kind: str,
    vocab: int,
    config: Mapping[str, Any],
    dtype: str,
    *,
    seeded: bool,
) -> Found:
    import mlx.core as mx
    from mlx.utils import tree_flatten

    made.set_dtype(mlx_dtype(dtype))
    mx.eval(made.parameters())
    weights = hashlib.sha256()
    for name, array in sorted(tree_flatten(made.parameters())):
        weights.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        weights.update(host(array).tobytes())
    words = json.dumps(dict(config), sort_keys=True, default=str).encode()
    digest = hashlib.sha256(words + weights.digest()).hexdigest()
    return Found(made, kind, vocab, digest, weights.hexdigest(), seeded)


def host(array: Any) -> np.ndarray[Any, Any]:
    """A copy of an array's bytes on the host, computed now; 16-bit floats as their bits."""
    import mlx.core as mx

    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array)
