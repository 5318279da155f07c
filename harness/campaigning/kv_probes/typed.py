"""Probes of element types: pairs that cannot be, rows as each type stores them: H07 and H10."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from harness.campaigning.kv_probes.tools import ATTENTION, Paths, Probe, session_of, sha, told, word_of
from harness.codec import blocks
from harness.codec.archive import decode_page
from harness.codec.paths import coder
from harness.deriving.kv_entries import TYPES
from harness.engines.pages import PageEngine

_MANY: Final = 1500
"""So many rows that rules of rounding differ in some of them."""


def pairs(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """H07: types and pairs that cannot be are refused, each by its word."""
    for kind in ("bf16", "f8_e4m3", "i8", "i4"):
        source = session_of(pages, {"k_type": "f16", "v_type": kind}, tokens=40)
        word = word_of(lambda source=source: source.archive(2, paths.code, transposed=False))  # type: ignore[misc]
        yield f"coded {kind}", word, ""
    for kind in ("q8_0", "i8"):
        options: Mapping[str, str | int] = {**ATTENTION, "v_type": kind, "v_pages": "transposed"}
        word = word_of(lambda options=options: pages.open(options))  # type: ignore[misc]
        yield f"opened transposed {kind}", word, ""
    yield "opened index q8_0", word_of(lambda: pages.open({**ATTENTION, "index_type": "q8_0"})), ""
    yield "opened nameless", word_of(lambda: pages.open({**ATTENTION, "k_type": ""})), ""


def types(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """Keys of the first layer depend on tokens alone: in every type they are those of f32, stored otherwise."""
    wide = session_of(pages, {"k_type": "f32", "v_type": "f32"}, tokens=_MANY)
    kind, data = wide.parts()["layer0.k"]
    values = np.frombuffer(data, np.float32).reshape(-1, 32) if kind == "f32" else np.zeros((1, 32), np.float32)
    for name in TYPES:
        parts = session_of(pages, {"k_type": name, "v_type": "f32"}, tokens=_MANY).parts()
        yield f"label {name}", parts["layer0.k"][0], name
        held = parts["layer0.k"][1] + parts.get("layer0.k_scale", ("", b""))[1]
        yield f"rows {name}", sha(held), sha(stored(name, values))
    source = session_of(pages, {"k_type": "f16", "v_type": "q8_0"})
    archive = source.archive(2, paths.code, transposed=False)  # every path knows it; H02 holds LCG1 to it
    expected = told(lambda: sha(bytes(decode_page(archive, path=coder("numpy")))))
    target = source.fork()

    def restored() -> str:
        target.bring_archive(archive, source.tail(), paths.restore, transposed=False)
        return sha(target.page(transposed=False))

    yield "restored f16/q8_0", told(restored), expected


def stored(kind: str, values: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    """Rows [n, 32] of one head as a type stores them, by rules of the harness's own: codes, then scales."""
    if kind in ("f32", "f16"):
        return values.astype("<f4" if kind == "f32" else "<f2").tobytes()
    if kind in blocks.BLOCK_BYTES:
        return blocks.quantise(kind, values).tobytes()
    if kind == "bf16":
        words = values.view(np.uint32).astype(np.uint64)
        rounded = (words + 0x7FFF + (words >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
        return bytes(rounded.astype("<u2").tobytes())
    if kind == "f8_e4m3":
        return _f8(values)
    reach = np.float32(127 if kind == "i8" else 7)
    scale = np.abs(values).max(axis=1, keepdims=True) / reach
    scaled = values * np.divide(np.float32(1), scale, where=scale != 0, out=np.zeros_like(scale))
    codes = np.trunc(scaled) + np.trunc(np.float32(2) * (scaled - np.trunc(scaled)))
    if kind == "i8":
        return bytes(codes.astype(np.int8).tobytes() + scale.astype("<f4").tobytes())
    nibbles = (codes + 8).astype(np.uint8)
    return bytes((nibbles[:, 0::2] | nibbles[:, 1::2] << 4).tobytes() + scale.astype("<f4").tobytes())


def _f8(values: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    """The nearest code of e4m3, the even one of two equally near, at most 448."""
    code = np.arange(0x7F)
    number = np.where(code >> 3, np.ldexp(1 + (code & 7) / 8, (code >> 3) - 7), np.ldexp((code & 7) / 8, -6))
    size = np.minimum(np.abs(values).astype(np.float64), 448.0).reshape(-1)
    upper = np.searchsorted(number, size).clip(1, len(number) - 1)
    below, above = size - number[upper - 1], number[upper] - size
    chosen = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    return bytes((chosen | np.signbit(values).reshape(-1) << 7).astype(np.uint8).tobytes())
