"""A model on a device, made once per process: weights, digests and the decoder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from harness.torch_engine.models.config import ModelConfig, model_digest
from harness.torch_engine.models.decoder import Decoder, weight_specs
from harness.torch_engine.models.draft import DraftHead, draft_specs
from harness.torch_engine.weights import make_weights, weights_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedModel:
    """What an engine needs of a model; shared by all engines of a process."""

    config: ModelConfig
    """Its sizes."""
    decoder: Decoder
    """Weights on the device and the forward passes; stateless."""
    weights_sha256: str
    """SHA-256 (64 hex) of all weights."""
    digest: str
    """SHA-256 (64 hex) of configuration and weights."""


@lru_cache(maxsize=32)
def _host_weights(config: ModelConfig) -> tuple[dict[str, torch.Tensor], str]:
    """Weights on the host and their digest."""
    arrays = make_weights(config.seed, weight_specs(config))
    return {n: torch.from_numpy(a) for n, a in arrays.items()}, weights_digest(arrays)


@lru_cache(maxsize=32)
def load_model(config: ModelConfig, device: torch.device, length: int) -> LoadedModel:
    """The model of a configuration on a device, for sequences of up to ``length`` tokens."""
    weights, sha256 = _host_weights(config)
    with torch.inference_mode():
        placed = {name: tensor.to(device) for name, tensor in weights.items()}
        decoder = Decoder(config, placed, length)
    digest = model_digest(config, sha256)
    return LoadedModel(config=config, decoder=decoder, weights_sha256=sha256, digest=digest)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedDraft:
    """The draft head of a model; shared by all engines of a process."""

    head: DraftHead
    """Weights on the device and the passes; stateless."""
    weights_sha256: str
    """SHA-256 (64 hex) of the head's own weights."""


def draft_digest(config: ModelConfig) -> str:
    """SHA-256 (64 hex) of the head's own weights."""
    return _host_draft(config)[1]


@lru_cache(maxsize=32)
def _host_draft(config: ModelConfig) -> tuple[dict[str, torch.Tensor], str]:
    arrays = make_weights(config.seed, draft_specs(config))
    return {n: torch.from_numpy(a) for n, a in arrays.items()}, weights_digest(arrays)


@lru_cache(maxsize=32)
def load_draft(config: ModelConfig, device: torch.device, length: int) -> LoadedDraft:
    """The draft head of a configuration on a device; it shares embedding, output matrix and rotary table."""
    weights, sha256 = _host_draft(config)
    target, _ = _host_weights(config)
    decoder = load_model(config, device, length).decoder
    with torch.inference_mode():
        placed = {name: tensor.to(device) for name, tensor in weights.items()}
        head = decoder.embed.T if config.tied_head else target["head"].to(device)
        made = DraftHead(config, placed, decoder.embed, head, decoder.rope)
    return LoadedDraft(head=made, weights_sha256=sha256)
