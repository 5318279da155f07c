"""Prompt caches of mlx-lm onto the stage and back. Arrays are lazy: what is copied is computed first, and never shared.

Kinds of entries in the lengths (first word of four):

- 40 ``KVCache`` and 42 ``QuantizedKVCache``: tokens, rows, 0;
- 41 ``RotatingKVCache``: tokens, rows stored, index of the next one;
- 43 one array of an ``ArraysCache``: whether it is there, 0, 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from harness.adapters.mlx_models import host
from harness.adapters.staged import PartSpec
from harness.torch_engine.buffers import LayerLengths, Lengths
from harness.torch_engine.errors import SessionStateError, UnsupportedError

PLAIN, ROTATING, QUANTIZED, ARRAY = range(40, 44)
_ARRAYS: Final = ("conv", "recurrent")
"""What the arrays of an ``ArraysCache`` are, by their index."""
_STEP: Final = 256
"""Rows by which the library makes room."""


class CacheShape:
    """What the caches of one model look like, found out by forwarding two tokens.

    Args:
        probe: A cache of the model with two tokens in it.
        chunk: Most tokens that are forwarded at once; a rotating cache holds so many beyond its size for a while.
    """

    def __init__(self, probe: Sequence[Any], chunk: int) -> None:
        self._chunk = chunk
        self.kinds = [_kinds(layer) for layer in probe]
        fixed: list[PartSpec] = []
        rows: list[PartSpec] = []
        entry = 0
        for index, (layer, kinds) in enumerate(zip(probe, self.kinds, strict=True)):
            for kind, number in kinds:
                for name, array in _arrays(index, layer, kind, number):
                    spec = self._spec(name, array, index, kind, entry, layer)
                    (rows if spec.rows else fixed).append(spec)
                entry += 1
        self.parts: Sequence[PartSpec] = (*fixed, *rows)

    @property
    def trims(self) -> bool:
        """Whether the library ever takes tokens back from such a cache; a window only until it rotates."""
        return all(kind != ARRAY for kinds in self.kinds for kind, _ in kinds)

    def lengths(self, cache: Sequence[Any]) -> Lengths:
        """Lengths of every layer."""
        return tuple(
            _lengths(layer, kind, number)
            for layer, kinds in zip(cache, self.kinds, strict=True)
            for kind, number in kinds
        )

    def fits(self, lengths: Lengths, position: int) -> str:
        """What is wrong with lengths at a position; empty: nothing."""
        kinds = [kind for layer in self.kinds for kind, _ in layer]
        if [entry[0] for entry in lengths] != kinds:
            return f"expected the kinds {kinds}, found {[entry[0] for entry in lengths]}"
        wrong = next((entry for entry in lengths if entry[0] != ARRAY and entry[1] != position), None)
        return f"expected {position} tokens, found {wrong[1]}" if wrong is not None else ""

    def stage(self, cache: Sequence[Any], stage: Mapping[str, Tensor]) -> None:
        """Copy a cache onto the stage."""
        for index, (layer, kinds) in enumerate(zip(cache, self.kinds, strict=True)):
            for kind, number in kinds:
                valid = _lengths(layer, kind, number)[2]
                for name, array in _arrays(index, layer, kind, number):
                    _put(stage[name], array, valid, kind)

    def install(self, cache: Sequence[Any], stage: Mapping[str, Tensor], lengths: Lengths) -> Sequence[Any]:
        """Fill a new cache with what lies on the stage."""
        entries = iter(lengths)
        for index, (layer, kinds) in enumerate(zip(cache, self.kinds, strict=True)):
            for _, number in kinds:
                _install(index, layer, number, stage, next(entries))
        return cache

    def _spec(self, name: str, array: Any, index: int, kind: int, entry: int, layer: Any) -> PartSpec:
        dtype = _torch_dtype(array)
        if kind == ARRAY:
            family = name.rpartition(".")[2]
            return PartSpec(name=name, family=family, layer=index, dtype=dtype, shape=tuple(array.shape[1:]))
        _, heads, _, size = array.shape
        if kind == ROTATING:
            shape = (layer.max_size + 3 * self._chunk, heads, size)
            return PartSpec(name=name, family="window", layer=index, dtype=dtype, shape=shape)
        return PartSpec(name=name, family="kv", layer=index, dtype=dtype, shape=(heads, size), rows=True, entry=entry)


def record(cache: Sequence[Any]) -> None:
    """Nothing need be kept for a trim.

    Raises:
        UnsupportedError: The library never trims a cache of this kind.
    """
    kinds = {kind for layer in cache for kind, _ in _kinds(layer)}
    if ARRAY in kinds:
        raise UnsupportedError("trim: a cache with arrays of recurrent state is not trimmable")


def trim(cache: Sequence[Any], count: int) -> None:
    """Take tokens back as the library does.

    Raises:
        UnsupportedError: It took none back, since a window has rotated.
        SessionStateError: It took another number back.
    """
    from mlx_lm.models.cache import trim_prompt_cache

    taken = trim_prompt_cache(list(cache), count)
    if not taken:
        raise UnsupportedError("trim: the library says that this cache is not trimmable")
    if taken != count:
        raise SessionStateError(f"trim: expected {count} tokens, found {taken}")


def _kinds(layer: Any) -> list[tuple[int, int]]:
    """Kind, and number of the array, of every entry of a layer.

    Raises:
        UnsupportedError: A kind of cache that is not known here.
    """
    from mlx_lm.models import cache as c

    if isinstance(layer, c.ArraysCache):
        return [(ARRAY, number) for number in range(len(layer.cache))]
    for cls, kind in ((c.KVCache, PLAIN), (c.RotatingKVCache, ROTATING), (c.QuantizedKVCache, QUANTIZED)):
        if type(layer) is cls:
            return [(kind, 0)]
    raise UnsupportedError(f"cache: a layer of type {type(layer).__name__} is not known here")


def _lengths(layer: Any, kind: int, number: int) -> LayerLengths:
    if kind == ARRAY:
        return kind, int(layer.cache[number] is not None), 0, 0
    offset = int(layer.offset)
    if kind == ROTATING:
        stored = 0 if layer.keys is None else min(int(layer.keys.shape[2]), max(offset, int(layer._idx)))  # noqa: SLF001
        return kind, offset, stored, int(layer._idx)  # noqa: SLF001 - it travels with the rows
    return kind, offset, offset, 0


def _arrays(index: int, layer: Any, kind: int, number: int) -> Iterator[tuple[str, Any]]:
    """Name and array of everything that an entry holds; None: nothing yet."""
    if kind == ARRAY:
        yield f"layer{index}.{_ARRAYS[number]}", layer.cache[number]
        return
    for side, held in (("k", layer.keys), ("v", layer.values)):
        if kind == QUANTIZED:
            for what, array in zip(("", "_scales", "_biases"), held or (None,) * 3, strict=True):
                yield f"layer{index}.{side}{what}", array
        else:
            yield f"layer{index}.{'window_' if kind == ROTATING else ''}{side}", held


def _torch_dtype(array: Any) -> torch.dtype:
    import mlx.core as mx

    known = {
        mx.float32: torch.float32,
        mx.float16: torch.float16,
        mx.bfloat16: torch.bfloat16,
        mx.uint32: torch.int32,
    }
    return known[array.dtype]


def _put(place: Tensor, array: Any, valid: int, kind: int) -> None:
    """Copy what is valid to its place, token-major; the rest of a fixed part is zeroed."""
    if array is None:
        if kind in (ARRAY, ROTATING):
            place.zero_()
        return
    found = torch.from_numpy(host(array)).view(place.dtype)
    if kind == ARRAY:
        place.copy_(found[0])
        return
    if valid > place.shape[0]:
        raise SessionStateError(f"rows: expected at most {place.shape[0]}, found {valid}")
    if kind == ROTATING:
        place[valid:].zero_()
    place[:valid].copy_(found[0, :, :valid].transpose(0, 1))


def _install(index: int, layer: Any, number: int, stage: Mapping[str, Tensor], entry: LayerLengths) -> None:
    kind, tokens, stored, at = entry
    if kind == ARRAY:
        layer.cache[number] = _array(stage[f"layer{index}.{_ARRAYS[number]}"].unsqueeze(0)) if tokens else None
        return
    layer.offset = tokens
    if kind == ROTATING:
        layer._idx = at  # noqa: SLF001 - it travels with the rows
    if not stored:
        return
    room = stored if kind == ROTATING else -(-stored // _STEP) * _STEP
    sides = []
    for side in "kv":
        names = [f"layer{index}.{'window_' if kind == ROTATING else ''}{side}"]
        if kind == QUANTIZED:
            names += [f"layer{index}.{side}_scales", f"layer{index}.{side}_biases"]
        arrays = [_rows(stage[name][:stored], room, unsigned=kind == QUANTIZED) for name in names]
        sides.append(tuple(arrays) if kind == QUANTIZED else arrays[0])
    layer.keys, layer.values = sides


def _rows(rows: Tensor, room: int, *, unsigned: bool) -> Any:
    """An array (1, heads, room, size) of rows (n, heads, size), zero beyond them."""
    padded = torch.zeros((room, *rows.shape[1:]), dtype=rows.dtype)
    padded[: rows.shape[0]].copy_(rows)
    return _array(padded.transpose(0, 1).unsqueeze(0), unsigned=unsigned)


def _array(tensor: Tensor, *, unsigned: bool = False) -> Any:
    """A computed array of its own memory."""
    import mlx.core as mx

    tensor = tensor.contiguous()
    if tensor.dtype is torch.bfloat16:
        made = mx.array(tensor.view(torch.int16).numpy()).view(mx.bfloat16)
    elif unsigned and tensor.dtype is torch.int32:
        made = mx.array(tensor.numpy()).view(mx.uint32)
    else:
        made = mx.array(tensor.numpy())
    mx.eval(made)
    return made
