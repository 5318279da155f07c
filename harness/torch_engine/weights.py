"""Weights from an integer hash: the same bits on every platform, without a download.

A random generator of a tensor library differs between devices, versions and even between code paths
of one CPU. Here element ``i`` of the tensor ``name`` is a pure integer function of ``(seed, name, i)``:
the splitmix64 finaliser (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")
of a counter. Its top 24 bits become a float32 in [-1, 1) without any rounding, and the scale is a
power of two, so no step depends on the rounding of a device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightSpec:
    """How one weight tensor is made."""

    shape: tuple[int, ...]
    """Its dimensions; matrices are (in, out)."""
    log2_scale: int
    """Elements lie in [-2^k, 2^k) around ``centre``."""
    centre: float = 0.0
    """A float32-exact value added to every element in float32 arithmetic."""


def mix64(value: int) -> int:
    """The splitmix64 finaliser of one 64-bit word."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mix64_array(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`mix64` over an array; uint64 arithmetic wraps, as the finaliser wants it."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def stream_key(seed: int, name: str) -> int:
    """The 64-bit start of a tensor's stream: the seed mixed with a hash of its name."""
    digest = hashlib.sha256(name.encode()).digest()
    return mix64((seed + GOLDEN_GAMMA) & _MASK) ^ int.from_bytes(digest[:8], "little")


def make_tensor(seed: int, name: str, spec: WeightSpec) -> npt.NDArray[np.float32]:
    """One weight array, float32, C order.

    Args:
        seed: any integer; taken modulo 2^64.
        name: the tensor's full name, which separates its stream from the others.
        spec: shape, scale and centre.
    """
    count = int(np.prod(spec.shape, dtype=np.int64))
    start = np.uint64(stream_key(seed & _MASK, name))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA)
    top = (mix64_array(steps + start) >> np.uint64(40)).astype(np.int64) - (1 << 23)
    values = np.ldexp(top.astype(np.float32), spec.log2_scale - 23).astype(np.float32)
    if spec.centre:
        values = values + np.float32(spec.centre)
    return values.reshape(spec.shape)


def make_weights(seed: int, specs: Mapping[str, WeightSpec]) -> dict[str, npt.NDArray[np.float32]]:
    """All weight arrays of a model, in the order of ``specs``."""
    return {name: make_tensor(seed, name, spec) for name, spec in specs.items()}


def weights_digest(weights: Mapping[str, npt.NDArray[np.float32]]) -> str:
    """SHA-256 (64 hex) over name, shape and little-endian float32 bytes of every tensor, in order."""
    sha = hashlib.sha256()
    for name, values in weights.items():
        head = f"{name}\0{','.join(map(str, values.shape))}\0".encode()
        sha.update(len(head).to_bytes(8, "little"))
        sha.update(head)
        sha.update(np.ascontiguousarray(values, dtype="<f4").data)
    return sha.hexdigest()
