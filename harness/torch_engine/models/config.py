"""What a model is: its sizes, its layers in order, and the presets.

A configuration is data; `decoder.py` turns it into calls. Layer kinds are ``delta`` (gated delta
net), ``attention`` (full attention with a sparse index) and ``sliding`` (a ring of the last tokens).
Architecture ``ple`` is ``hybrid`` with per-layer embeddings; ``embedding`` is ``attention`` that makes one vector of a
prompt and decodes nothing, so between calls it has no state at all.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from harness.torch_engine.errors import OptionError

LayerKind = Literal["delta", "attention", "sliding"]
StateKind = Literal["delta", "attention", "sliding", "ple"]
Arch = Literal["hybrid", "attention", "recurrent", "sliding", "ple", "embedding"]
Preset = Literal["tiny", "small", "deep"]

TILE = 64
"""Tokens per query tile and per delta-rule chunk; every schedule is aligned to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Sizes of one decoder. All counts are positive integers."""

    preset: str
    """Name of the preset that the sizes come from."""
    arch: str
    """Name of the architecture that the layer kinds come from."""
    seed: int
    """Seed of the weight streams."""
    layers: tuple[LayerKind, ...]
    """Kind of each layer, first to last."""
    vocab: int = 512
    """Number of token ids."""
    d_model: int = 64
    """Width of the residual stream."""
    d_ff: int = 128
    """Hidden width of the gated MLP."""
    q_heads: int = 4
    """Query heads; a multiple of ``kv_heads``."""
    kv_heads: int = 2
    """Key and value heads of attention and sliding layers."""
    head_dim: int = 32
    """Width of an attention head, even."""
    index_dim: int = 16
    """Width of an index key."""
    pool: int = 32
    """Tokens per pooled index row; divides `TILE`."""
    top_blocks: int = 4
    """Pooled blocks that a query tile may attend to besides its local window."""
    window: int = 128
    """Tokens of the ring of a sliding layer; a multiple of `TILE`."""
    delta_key_heads: int = 1
    """Key heads of a gated-delta layer."""
    delta_value_heads: int = 2
    """Value heads of a gated-delta layer; a multiple of the key heads."""
    delta_dim: int = 32
    """Key and value width of a gated-delta head."""
    conv_kernel: int = 4
    """Taps of the causal convolution; its state holds one column fewer."""
    panel: int = 1024
    """Tokens forwarded by one pass inside a chunk, aligned to absolute positions."""
    rope_base: int = 10_000
    """Base of the rotary frequencies."""
    tied_head: bool = False
    """Whether logits come from the embedding matrix."""
    ple_dim: int = 0
    """Width of a layer's embedding of its own; 0 where there is none."""
    ple_rows: int = 1024
    """Rows of the table that a token and the two before it pick one of."""

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: q, k and v side by side."""
        return (2 * self.delta_key_heads + self.delta_value_heads) * self.delta_dim

    @property
    def decodes(self) -> bool:
        """Whether tokens can be decoded, so that a session has state to go on from."""
        return self.arch != "embedding"

    @property
    def states(self) -> tuple[StateKind, ...]:
        """Kinds of the states of a session: those of the layers, then that of the per-layer embeddings."""
        return (*self.layers, "ple") if self.ple_dim else self.layers

    def canonical_json(self) -> bytes:
        """The configuration as sorted JSON, for digests; sizes of what a model does not have are left out."""
        told = {name: value for name, value in asdict(self).items() if self.ple_dim or not name.startswith("ple_")}
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"depth": 4, "every": 2},
    "small": {"depth": 8, "every": 4, "d_model": 96, "d_ff": 192, "vocab": 1024},
    "deep": {"depth": 12, "every": 4},
}

_PLE_DIM = 8


def _layer_kinds(arch: str, depth: int, every: int) -> tuple[LayerKind, ...]:
    """The layers of an architecture; mixed ones end each group of ``every`` with attention."""
    base: dict[str, LayerKind] = {"hybrid": "delta", "ple": "delta", "recurrent": "delta", "sliding": "sliding"}
    mixed = arch in {"hybrid", "ple", "sliding"}  # the others are all one kind
    return tuple("attention" if (mixed and (i + 1) % every == 0) else base.get(arch, "attention") for i in range(depth))


def model_config(preset: str, arch: str, seed: int = 0) -> ModelConfig:
    """The configuration of a preset and an architecture.

    Raises:
        OptionError: an unknown preset or architecture, named together with the known ones.
    """
    if preset not in get_args(Preset):
        raise OptionError(f"preset: expected one of {get_args(Preset)}, found {preset!r}")
    if arch not in get_args(Arch):
        raise OptionError(f"arch: expected one of {get_args(Arch)}, found {arch!r}")
    sizes = _SIZES[preset] | ({"ple_dim": _PLE_DIM} if arch == "ple" else {})
    layers = _layer_kinds(arch, sizes.pop("depth"), sizes.pop("every"))
    return ModelConfig(preset=preset, arch=arch, seed=seed, layers=layers, **sizes)  # type: ignore[arg-type]


def model_digest(config: ModelConfig, weights_sha256: str) -> str:
    """SHA-256 (64 hex) over the configuration's JSON and the digest of all weights."""
    sha = hashlib.sha256(config.canonical_json())
    sha.update(bytes.fromhex(weights_sha256))
    return sha.hexdigest()
