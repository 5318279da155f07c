"""Probes of the codec and of the layouts of pages: H01 to H04."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.campaigning.kv_probes.tools import (
    F16,
    KERNELS,
    Paths,
    Probe,
    reference_of,
    rows_of,
    session_of,
    sha,
    state_of,
    through,
    told,
    without_restoring,
    word_of,
)
from harness.codec.archive import read_archive
from harness.codec.bins import bins_of
from harness.codec.paths import as_f16, coder, decode_tile
from harness.engines.pages import PageEngine, PageSession


def _wave() -> F16:
    """A sine over 17 rows and 8 channels, each step rounded to f32, the result to f16."""
    row, channel = np.mgrid[0:17, 0:8]
    phase = ((row * 8 + channel) * np.float64(0.03125)).astype(np.float32)
    offset = ((channel - 3) * np.float64(0.015625)).astype(np.float32)
    sine = np.sin(phase.astype(np.float64)).astype(np.float32)
    made: F16 = ((sine.astype(np.float64) * 0.75).astype(np.float32) + offset).astype(np.float16)
    return made


def tiles(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """H01: tiles whose segments are known, byte for byte."""
    tiny = np.array([[1, -0.5, 0.25, 0], [0.5, 0.5, -1, 0.125], [2, -2, 0, 1], [0, 0, 0, 0]], np.float16)
    for name, tile, version, bins in (
        ("tiny lcg1 16", tiny, 1, 16),
        *((f"wave lcg{version} {bins}", _wave(), version, bins) for version in (1, 2) for bins in (16, 32)),
    ):
        yield name, sha(pages.encode_tile(tile.tobytes(), len(tile), bins, version, paths.code)), ""


def packed(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """H02: LCG2 brings back what LCG1 does; of a path that knows LCG2 alone, what the harness decodes of LCG1."""
    for k, v in (("f16", "f16"), ("f32", "q8_0")):
        source = session_of(pages, {"k_type": k, "v_type": v})
        bring = without_restoring if paths.restore in KERNELS else through
        first = told(lambda s=source, bring=bring: bring(s, 1, paths))  # type: ignore[misc]
        second = told(lambda s=source: through(s, 2, paths))  # type: ignore[misc]
        yield f"rows {k}/{v}", second, first


def bins(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """H03: bins of every layer, rows that come back as they were, values that cannot be coded."""
    for name, options in (("scheduled", {"preset": "deep"}), ("wide", {"preset": "deep", "arch": "sliding"})):
        source = session_of(pages, {**options, "k_type": "f16", "v_type": "f16"}, tokens=64)
        parts = source.components(transposed=False)
        expected = [
            bins_of(layer=layer, layers=one.layers, side="k" if side == "k" else "v")
            for one in parts
            for side in ("k", "v")
            for layer in range(one.layers)
        ]
        archive = read_archive(source.archive(2, paths.code, transposed=False))
        found = [one.segment.bins for one in archive.records if one.segment is not None]
        yield f"bins {name}", str(found), str(expected)
    flat = np.repeat(np.array([[0], [0.5], [-0.75], [3]], np.float16), 32, axis=1)
    segment = pages.encode_tile(flat.tobytes(), 4, 16, 2, paths.code)
    yield "flat rows", sha(_decoded(segment)), sha(flat.tobytes())
    for version in (1, 2):
        broken = flat.copy()
        broken[1, 3] = np.inf
        data = broken.tobytes()
        word = word_of(lambda d=data, n=version: pages.encode_tile(d, 4, 16, n, paths.code))  # type: ignore[misc]
        yield f"not finite lcg{version}", word, ""


def _decoded(segment: bytes) -> bytes:

    return as_f16(decode_tile(segment, path=coder("oracle"))).tobytes()


def layouts(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """H04: transposed V, tiles of 256 rows, mixed types, index rows, exact pages with scales."""
    for kind in ("f16", "f32"):
        source = session_of(pages, {"k_type": kind, "v_type": kind})
        plain = source.fork()
        plain.bring_archive(reference_of(source, 2), source.tail(), paths.restore, transposed=False)
        found = told(lambda s=source: through(s, 2, paths, transposed=True))  # type: ignore[misc]
        yield f"transposed {kind}", found, rows_of(plain)
    source = session_of(pages, {"k_type": "q8_0", "v_type": "q4_0"})
    data = source.archive(2, paths.code, transposed=False)
    yield "tiles", _sizes(data), _sizes(reference_of(source, 2))
    yield "mixed q8_0/q4_0", sha(data), sha(reference_of(source, 2))
    target = source.fork()
    target.bring_archive(reference_of(source, 2), source.tail(), paths.restore, transposed=False)
    yield "index rows", _index(target), _index(source)
    scaled = session_of(pages, {"k_type": "i8", "v_type": "i4"})
    back = scaled.fork()
    back.prefill(list(range(8, 108)))
    back.bring(scaled.page(transposed=False), scaled.tail(), transposed=False)
    yield "exact page i8/i4", state_of(back), state_of(scaled)


def _sizes(data: bytes) -> str:
    """Tokens of the first layer's records, or the word of the refusal."""
    try:
        return str([one.tokens for one in read_archive(data).records][:2])
    except ValueError as error:
        return type(error).__name__


def _index(session: PageSession) -> str:
    rows = [data for name, (_, data) in session.parts().items() if "index" in name]
    return sha(b"".join(rows))
