"""Caches of transformers onto the stage and back: tensors, and the flags without which they mean nothing.

Kinds of entries in the lengths (first word of four):

- attention (32 dynamic, 33 sliding, 34 static, 35 static sliding, 36 fp8): tokens, rows stored, flags
  (1 initialised);
- linear state (37), one for each state of a layer: kernel size, width stored, flags (1 convolution, 2 recurrent state
  initialised, 4 a state is there).

What a cache keeps beyond that while it records its past is none of the state: the next token does not depend on it, a
restore does not bring it back, and a crop lets go of it. So it is not seen, and neither is whether a cache records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from harness.adapters.staged import PartSpec
from harness.torch_engine.buffers import LayerLengths, Lengths
from harness.torch_engine.errors import SessionStateError, UnsupportedError
from harness.torch_engine.state import HOST_LAYER

DYNAMIC, SLIDING, STATIC, STATIC_SLIDING, FP8, LINEAR = range(32, 38)
BUILDS: Final = ("attributes", "tensors", "update")
"""Ways to make a cache of stored tensors: with every attribute; tensors alone; through ``update``."""
SCALES: Final = "kv_scales"
"""The part with the scales (layers, 2) of a quantised cache."""
_INITIALISED: Final = 1
_CONV, _RECURRENT, _PREVIOUS = 1, 2, 4


class CacheShape:
    """What the caches of one model look like, found out by forwarding two tokens.

    Args:
        probe: A cache of the model with two tokens in it.
        build: How a cache is made of stored tensors; see :data:`BUILDS`.
    """

    def __init__(self, probe: Any, build: str) -> None:
        self.build = build
        self.kinds = [_kinds(layer) for layer in probe.layers]
        fixed: list[PartSpec] = []
        rows: list[PartSpec] = []
        for index, layer in enumerate(probe.layers):
            for part in self._parts(index, layer):
                (rows if part.rows else fixed).append(part)
        if any(kind == FP8 for kinds in self.kinds for kind, _ in kinds):
            shape = (len(self.kinds), 2)
            fixed.append(PartSpec(name=SCALES, family="kv", layer=HOST_LAYER, dtype=torch.float32, shape=shape))
        self.parts: Sequence[PartSpec] = (*fixed, *rows)

    def lengths(self, cache: Any) -> Lengths:
        """Lengths and flags of every layer."""
        found: list[LayerLengths] = []
        for layer, kinds in zip(cache.layers, self.kinds, strict=True):
            for kind, state in kinds:
                found.append(_linear_lengths(layer, state) if kind == LINEAR else _attention_lengths(layer, kind))
        return tuple(found)

    def fits(self, lengths: Lengths, position: int) -> str:
        """What is wrong with lengths at a position; empty: nothing."""
        kinds = [kind for layer in self.kinds for kind, _ in layer]
        if [entry[0] for entry in lengths] != kinds:
            return f"expected the kinds {kinds}, found {[entry[0] for entry in lengths]}"
        for kind, tokens, stored, flags in lengths:
            if kind != LINEAR and flags & _INITIALISED and tokens != position:
                return f"expected {position} tokens, found {tokens}"
            if kind in (DYNAMIC, STATIC, FP8) and stored != tokens:
                return f"expected {tokens} rows, found {stored}"
            if kind == SLIDING and stored > position:
                return f"expected at most {position} rows, found {stored}"
            if kind == LINEAR and stored > tokens:
                return f"expected at most {tokens} columns, found {stored}"
        return ""

    def stage(self, cache: Any, stage: Mapping[str, Tensor]) -> None:
        """Copy a cache onto the stage."""
        for index, (layer, kinds) in enumerate(zip(cache.layers, self.kinds, strict=True)):
            for kind, state in kinds:
                for name, tensor, valid in _tensors(index, layer, kind, state):
                    _put(stage[name], tensor, valid, kind)
                if kind == FP8:
                    held = (layer._quantized_keys, layer._quantized_values)  # noqa: SLF001 - nothing else has them
                    for side, pair in enumerate(held):
                        stage[SCALES][index, side] = 0 if pair is None else pair[1]

    def install(self, cache: Any, stage: Mapping[str, Tensor], lengths: Lengths) -> Any:
        """Fill a new cache with what lies on the stage, in the way that was chosen."""
        entries = iter(lengths)
        for index, (layer, kinds) in enumerate(zip(cache.layers, self.kinds, strict=True)):
            for kind, state in kinds:
                entry = next(entries)
                if kind == LINEAR:
                    self._install_linear(index, layer, state, stage, entry)
                elif self.build == "update":
                    self._install_by_update(index, layer, kind, stage, entry)
                else:
                    self._install_attention(index, layer, kind, stage, entry)
        return cache

    # -- parts ---------------------------------------------------------------------------------

    def _parts(self, index: int, layer: Any) -> Iterator[PartSpec]:
        for kind, state in self.kinds[index]:
            entry = sum(len(kinds) for kinds in self.kinds[:index]) + self.kinds[index].index((kind, state))
            for name, tensor, _ in _tensors(index, layer, kind, state):
                yield _spec(name, tensor, index, kind, entry, layer)

    # -- making a cache ------------------------------------------------------------------------

    def _install_attention(
        self,
        index: int,
        layer: Any,
        kind: int,
        stage: Mapping[str, Tensor],
        entry: LayerLengths,
    ) -> None:
        _, tokens, stored, flags = entry
        if not flags & _INITIALISED:
            return
        keys, values = (_taken(stage, index, side, kind, stored) for side in "kv")
        whole = self.build == "attributes"
        if kind == FP8:
            scale_k, scale_v = (scale.clone() for scale in stage[SCALES][index])
            if whole:
                layer.lazy_initialization(*(torch.zeros((1, 1, 1, 1), device=keys.device),) * 2)
                layer.cumulative_length = tokens
            layer._quantized_keys = (keys.view(torch.float8_e4m3fn), scale_k)  # noqa: SLF001 - nothing else has them
            layer._quantized_values = (values.view(torch.float8_e4m3fn), scale_v)  # noqa: SLF001
            return
        if kind in (STATIC, STATIC_SLIDING):
            self._install_static(layer, kind, keys, values, tokens)
            return
        if whole:
            layer.lazy_initialization(keys, values)
            if kind == SLIDING:
                layer.cumulative_length = tokens
        layer.keys, layer.values = keys, values

    def _install_static(self, layer: Any, kind: int, keys: Tensor, values: Tensor, tokens: int) -> None:
        layer.lazy_initialization(keys, values)
        layer.keys[:, :, : keys.shape[2]].copy_(keys)
        layer.values[:, :, : values.shape[2]].copy_(values)
        if self.build == "attributes":
            layer.cumulative_length.fill_(tokens if kind == STATIC else 0)
            if kind == STATIC_SLIDING:
                layer.cumulative_length_int = tokens

    def _install_by_update(
        self,
        index: int,
        layer: Any,
        kind: int,
        stage: Mapping[str, Tensor],
        entry: LayerLengths,
    ) -> None:
        if entry[3] & _INITIALISED:
            keys, values = (_taken(stage, index, side, kind, entry[2]) for side in "kv")
            layer.update(keys, values)

    def _install_linear(
        self,
        index: int,
        layer: Any,
        state: int,
        stage: Mapping[str, Tensor],
        entry: LayerLengths,
    ) -> None:
        _, kernel, width, flags = entry
        whole = self.build == "attributes"
        if flags & _CONV:
            conv = stage[_linear_name(index, state, "conv")][..., :width].unsqueeze(0).clone()
            layer.conv_states[state] = conv
            if whole:
                layer.is_conv_states_initialized[state] = True
                layer.conv_kernel_size[state] = kernel
                layer.dtype, layer.device = conv.dtype, conv.device
        if flags & _RECURRENT:
            layer.recurrent_states[state] = stage[_linear_name(index, state, "recurrent")].unsqueeze(0).clone()
            if whole:
                layer.is_recurrent_states_initialized[state] = True
        if whole:
            layer.has_previous_state[state] = bool(flags & _PREVIOUS)


def record(cache: Any) -> None:
    """Let a cache keep what ``crop`` needs.

    Raises:
        UnsupportedError: A quantised cache, which cannot be cropped.
    """
    from transformers.cache_utils import BaseQuantizedLayer

    if any(isinstance(layer, BaseQuantizedLayer) for layer in cache.layers):
        raise UnsupportedError("crop: a quantised cache has none")
    for layer in cache.layers:
        if hasattr(layer, "activate_past_recording"):
            layer.activate_past_recording()


def crop(cache: Any, count: int) -> None:
    """Take tokens back as the library does; a cache that records goes on recording.

    Raises:
        SessionStateError: The library says no.
    """
    try:
        cache.crop(-count)
    except (RuntimeError, ValueError, IndexError) as error:
        raise SessionStateError(f"crop: {error}") from error


def _kinds(layer: Any) -> list[tuple[int, int]]:
    """Kind, and number of the state, of every entry of a layer.

    Raises:
        UnsupportedError: A kind of layer that is not known here.
    """
    from transformers import cache_utils as c

    found: list[tuple[int, int]] = []
    if isinstance(layer, c.LinearAttentionCacheLayerMixin):
        found += [(LINEAR, state) for state in range(layer.number_of_states)]
    known = (
        (c.Fp8QuantizedLayer, FP8),
        (c.StaticSlidingWindowLayer, STATIC_SLIDING),
        (c.StaticLayer, STATIC),
        (c.DynamicSlidingWindowLayer, SLIDING),
        (c.DynamicLayer, DYNAMIC),
    )
    strange = (c.DynamicIndexedLayer, c.StaticIndexedLayer, c.QuantizedLayer)
    if isinstance(layer, strange):
        raise UnsupportedError(f"cache: a layer of type {type(layer).__name__} is not known here")
    found += [(kind, 0) for cls, kind in known if isinstance(layer, cls)][:1]
    if not found and not isinstance(layer, c.DummyLayer):
        raise UnsupportedError(f"cache: a layer of type {type(layer).__name__} is not known here")
    return found


def _attention_lengths(layer: Any, kind: int) -> LayerLengths:
    if not layer.is_initialized:
        return kind, 0, 0, 0
    tokens = layer.cumulative_length_int if kind == STATIC_SLIDING else int(layer.get_seq_length())
    if kind in (SLIDING, STATIC_SLIDING):
        room = layer.sliding_window - 1 if kind == SLIDING else layer.max_cache_len
        return kind, tokens, min(int(layer.keys.shape[-2]), tokens, room), _INITIALISED
    return kind, tokens, tokens, _INITIALISED


def _linear_lengths(layer: Any, state: int) -> LayerLengths:
    conv = layer.conv_states[state]
    flags = (
        _CONV * bool(layer.is_conv_states_initialized[state])
        | _RECURRENT * bool(layer.is_recurrent_states_initialized[state])
        | _PREVIOUS * bool(layer.has_previous_state[state])
    )
    kernel = layer.conv_kernel_size[state] or 0
    return LINEAR, kernel, 0 if conv is None else min(int(conv.shape[-1]), kernel), flags


def _tensors(index: int, layer: Any, kind: int, state: int) -> Iterator[tuple[str, Tensor | None, int]]:
    """Name, tensor and valid length of everything that an entry holds; None: nothing yet."""
    if kind == LINEAR:
        conv, recurrent = layer.conv_states[state], layer.recurrent_states[state]
        last = _linear_lengths(layer, state)[2]
        yield _linear_name(index, state, "conv"), None if conv is None else conv[..., conv.shape[-1] - last :], last
        yield _linear_name(index, state, "recurrent"), recurrent, 0
        return
    _, _, stored, flags = _attention_lengths(layer, kind)
    there = bool(flags & _INITIALISED)
    for side, held in (("k", "keys"), ("v", "values")):
        if kind == FP8:
            quantised, _ = getattr(layer, f"_quantized_{held}") or (None, None)
            yield f"layer{index}.{side}", None if quantised is None else quantised.view(torch.uint8), stored
        else:
            window = "window_" if kind in (SLIDING, STATIC_SLIDING) else ""
            rows = getattr(layer, held) if there else None
            if rows is not None and kind == SLIDING:
                rows = rows[..., rows.shape[-2] - stored :, :]
            yield f"layer{index}.{window}{side}", rows, stored


def _linear_name(index: int, state: int, what: str) -> str:
    return f"layer{index}.{what}" + (f"{state}" if state else "")


def _spec(name: str, tensor: Tensor | None, index: int, kind: int, entry: int, layer: Any) -> PartSpec:
    family = _family(name)
    if tensor is None:
        return PartSpec(name=name, family=family, layer=index, dtype=torch.float32, shape=(0,))
    if kind == LINEAR:
        return PartSpec(name=name, family=family, layer=index, dtype=tensor.dtype, shape=tuple(tensor.shape[1:]))
    _, heads, _, size = tensor.shape
    if kind in (SLIDING, STATIC_SLIDING):
        span = layer.sliding_window - 1 if kind == SLIDING else layer.max_cache_len
        return PartSpec(name=name, family=family, layer=index, dtype=tensor.dtype, shape=(span, heads, size))
    return PartSpec(
        name=name, family=family, layer=index, dtype=tensor.dtype, shape=(heads, size), rows=True, entry=entry
    )


def _family(name: str) -> str:
    last = name.rpartition(".")[2]
    if last.startswith("window"):
        return "window"
    return "conv" if last.startswith("conv") else "recurrent" if last.startswith("recurrent") else "kv"


def _put(place: Tensor, tensor: Tensor | None, valid: int, kind: int) -> None:
    """Copy what is valid to its place, token-major; the rest of a fixed part is zeroed."""
    if tensor is None or not place.numel():
        place.zero_()
        return
    if kind == LINEAR and place.shape[-1] != tensor.shape[-1]:
        if valid > place.shape[-1]:
            raise SessionStateError(f"convolution: expected at most {place.shape[-1]} columns, found {valid}")
        place.zero_()
        place[..., :valid].copy_(tensor[0])
        return
    if kind == LINEAR or place.dim() == 1:
        place.copy_(tensor.reshape(place.shape))
        return
    if valid > place.shape[0]:
        raise SessionStateError(f"rows: expected at most {place.shape[0]}, found {valid}")
    if kind in (SLIDING, STATIC_SLIDING):
        place[valid:].zero_()
    place[:valid].copy_(tensor[0, :, :valid].transpose(0, 1))


def _taken(stage: Mapping[str, Tensor], index: int, side: str, kind: int, stored: int) -> Tensor:
    """A copy (1, heads, rows, size) of what lies on the stage."""
    window = "window_" if kind in (SLIDING, STATIC_SLIDING) else ""
    return (
        stage[f"layer{index}.{window}{side}"][:stored]
        .transpose(0, 1)
        .unsqueeze(0)
        .clone(memory_format=torch.contiguous_format)
    )
