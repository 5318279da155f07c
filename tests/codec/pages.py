"""Small inputs, made from formulas, that the codec's tests share."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.codec.archive import Component, kind_of, row_bytes
from harness.codec.oracle import f32

TINY = np.array([[1, -0.5, 0.25, 0], [0.5, 0.5, -1, 0.125], [2, -2, 0, 1], [0, 0, 0, 0]], np.float16)
"""The specification's worked example: 4 tokens x 4 channels, the last row zero."""


def wave(rows: int = 17, channels: int = 8) -> npt.NDArray[np.float16]:
    """A sine over rows and channels with a small offset per channel; each step rounded to f32, the result to f16."""
    out = np.empty((rows, channels), np.float16)
    for row in range(rows):
        for channel in range(channels):
            phase = f32((row * 8 + channel) * 0.03125)
            offset = f32((channel - 3) * 0.015625)
            out[row, channel] = f32(f32(f32(math.sin(phase)) * 0.75) + offset)
    return out


def random_tile(seed: int, rows: int, channels: int) -> npt.NDArray[np.float16]:
    """K/V-like values: channels of very different scale, a zero row, a flat row, an outlier."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, channels)) * np.exp(rng.standard_normal(channels) * 2)
    values[seed % rows] = 0
    values[(seed * 7) % rows, seed % channels] = 900
    if rows > 3:
        values[2] = values[2, 0]
    return values.astype(np.float16)


COMPONENTS = (
    Component(
        layers=2,
        tokens=5,
        k_element="f16",
        v_element="f16",
        k_channels=4,
        v_channels=4,
        transposed_v=True,
        exact_bytes=7,
    ),
    Component(layers=1, tokens=3, k_element="f32", v_element="q8_0", k_channels=3, v_channels=32),
    Component(layers=1, tokens=2, k_element="q4_0", v_element="q8_0", k_channels=64, v_channels=32),
)
"""A page of three components: every element type, a transposed V, exact bytes."""


def page(components: tuple[Component, ...] = COMPONENTS, seed: int = 5) -> bytes:
    """A page of values that survive both losses being looked at: f16-valued K/V, whole blocks, random exact bytes."""
    from harness.codec import blocks

    rng = np.random.default_rng(seed)
    out: list[bytes] = []
    for component in components:
        for _, _, kind, channels in component.sides():
            values = (rng.standard_normal((component.tokens, channels)) * 3).astype(np.float16)
            if kind.element in blocks.BLOCK_BYTES:
                out.append(blocks.quantise(kind.element, values.astype(np.float32)).tobytes())
                continue
            typed = values.astype("<f2" if kind.element == "f16" else "<f4")
            out.append((typed.T.copy() if kind.transposed else typed).tobytes())
        out.append(rng.bytes(component.exact_bytes))
    return b"".join(out)


def layers(component: Component, seed: int = 5) -> bytes:
    """A component without exact bytes, of `random_tile`: rows of zeros, flat ones, outliers; none transposed."""
    from harness.codec import blocks

    out: list[bytes] = []
    for number, (_, _, kind, channels) in enumerate(component.sides()):
        values = random_tile(seed + number, component.tokens, channels)
        if kind.element in blocks.BLOCK_BYTES:
            out.append(blocks.quantise(kind.element, values.astype(np.float32)).tobytes())
        else:
            out.append(values.astype("<f2" if kind.element == "f16" else "<f4").tobytes())
    return b"".join(out)


def archive_of(element: str, segments: Sequence[bytes], *, rows: int, channels: int) -> bytes:
    """One layer of segments of so many rows each, as they are."""
    size = row_bytes(element, channels) * rows
    kind = kind_of(element)
    records = [
        struct.pack("<BBH6Q", kind.number, kind.size, 0, at * size, size, rows, 0, 0, len(one)) + one
        for at, one in enumerate(segments)
    ]
    return struct.pack("<4sQI", b"CKG1", size * len(records), len(records)) + b"".join(records)


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """The same bytes with one little-endian field changed."""
    changed = bytearray(data)
    struct.pack_into("<" + form, changed, at, value)
    return bytes(changed)
