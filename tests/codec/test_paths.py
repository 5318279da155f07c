"""The fast paths are the oracle's, bit for bit; the oracle is the specification's, figure for figure."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.codec import bins, blocks, compiled, oracle, paths
from harness.codec.errors import BoundsError, GeometryError, PathError, ValueRefusedError
from harness.codec.segments import Version, lcg2_size, read_segment
from tests.codec import pages
from tests.codec.make_golden import golden

GOLDEN = Path(__file__).parent / "golden"
FAST = ("numpy", "compiled")
BINS = (16, 32)
VERSIONS: tuple[Version, ...] = (1, 2)


def test_the_worked_example_gives_the_published_symbols_and_streams() -> None:
    symbols, maxima = oracle.quantise(pages.TINY.tolist(), 16)
    assert symbols == [[14, 4, 9, 7], [10, 10, 0, 8], [14, 0, 7, 10], [7, 7, 7, 7]]
    assert maxima == [1, 1, 2, 0]
    streams = [
        oracle.encode_stream(column, oracle.cdf_of(column)).hex() for column in map(list, zip(*symbols, strict=True))
    ]
    assert streams == ["b0", "7200", "c6", "58"]


def test_the_worked_example_packs_to_the_published_bytes() -> None:
    path = paths.coder("oracle")
    packed = {b: paths.encode_tile(pages.TINY, bins=b, version=2, path=path).hex() for b in BINS}
    assert packed[16] == "4c4347321004040004000000080000000000803f0000803f00000040000000004e79aa800ea77777"
    assert packed[32].endswith("1ecd672d881e3cfbde7b")


def test_the_worked_example_as_lcg1_has_the_published_digest() -> None:
    data = paths.encode_tile(pages.TINY, bins=16, version=1, path=paths.coder("oracle"))
    assert len(data) == 309
    assert hashlib.sha256(data).hexdigest() == "8763883a4c96ceb649ce5ad55b0fbfc2404932ae698236824e0c1dc387c501d7"


@pytest.mark.parametrize(
    ("bin_count", "size", "digest"),
    [
        (16, 671, "82af56eccd3fc8e7d2d7b265f3d807efd6ada06cd5769c3e38a8669001778ae7"),
        (32, 681, "7588a5c45cc8e63d68313b549aad7b15063eb2c54cd438896060f0a75b660c01"),
    ],
)
def test_the_published_wave_has_the_published_digest(bin_count: int, size: int, digest: str) -> None:
    data = (GOLDEN / f"wave-{bin_count}.lcg1").read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)


def test_the_goldens_are_what_their_generator_writes() -> None:
    assert {name: (GOLDEN / name).read_bytes() for name in golden()} == golden()


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("bin_count", BINS)
@pytest.mark.parametrize(("rows", "channels"), [(1, 1), (1, 9), (2, 3), (7, 5), (64, 3), (255, 2), (256, 3)])
def test_a_fast_path_equals_the_oracle(name: str, version: Version, bin_count: int, rows: int, channels: int) -> None:
    tile, slow, fast = pages.random_tile(rows + channels, rows, channels), paths.coder("oracle"), paths.coder(name)
    wanted = paths.encode_tile(tile, bins=bin_count, version=version, path=slow)
    assert paths.encode_tile(tile, bins=bin_count, version=version, path=fast) == wanted
    assert paths.decode_tile(wanted, path=fast).tobytes() == paths.decode_tile(wanted, path=slow).tobytes()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 256),
    channels=st.integers(1, 40),
    bin_count=st.sampled_from(BINS),
)
def test_the_fast_paths_equal_one_another_on_any_tile(seed: int, rows: int, channels: int, bin_count: int) -> None:
    tile = pages.random_tile(seed, rows, channels)
    made = {paths.encode_tile(tile, bins=bin_count, version=1, path=paths.coder(name)) for name in FAST}
    assert len(made) == 1
    symbols = {
        paths.decode_symbols(read_segment(data), path=paths.coder(name)).tobytes() for data in made for name in FAST
    }
    assert len(symbols) == 1


@settings(max_examples=150, deadline=None)
@given(symbols=st.lists(st.integers(0, 31), min_size=1, max_size=60))
def test_a_stream_of_any_symbols_comes_back(symbols: list[int]) -> None:
    cdf = oracle.cdf_of(symbols)
    assert oracle.decode_stream(oracle.encode_stream(symbols, cdf), cdf, len(symbols)) == symbols


@settings(max_examples=60, deadline=None)
@given(
    symbols=st.lists(st.integers(0, 31), min_size=1, max_size=50),
    table=st.lists(st.integers(0, 31), min_size=1, max_size=50),
)
def test_a_stream_comes_back_under_another_channels_table(symbols: list[int], table: list[int]) -> None:
    cdf = oracle.cdf_of(table)
    stream = oracle.encode_stream(symbols, cdf)
    column = np.array(symbols, np.uint8)[:, None]
    for name in FAST:
        lengths, streams = paths.coder(name).encode(column, np.array([cdf], np.uint16))
        assert (int(lengths[0]), streams.tobytes()) == (len(stream), stream)
    assert oracle.decode_stream(stream, cdf, len(symbols)) == symbols


@pytest.mark.parametrize("name", FAST)
def test_a_stream_beyond_256_bytes_is_refused(name: str) -> None:
    cdf = np.array([oracle.cdf_of([0] * 256)], np.uint16)
    with pytest.raises(BoundsError, match="at most 256 bytes"):
        paths.coder(name).encode(np.full((256, 1), 31, np.uint8), cdf)


@pytest.mark.parametrize("bin_count", BINS)
def test_lcg2_holds_what_lcg1_holds(bin_count: int) -> None:
    tile, path = pages.random_tile(3, 100, 12), paths.coder("numpy")
    first, second = (
        paths.decode_tile(paths.encode_tile(tile, bins=bin_count, version=v, path=path), path=path) for v in VERSIONS
    )
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("bin_count", "size"), [(16, 132_112), (32, 164_880)])
def test_the_size_of_lcg2_is_a_formula(bin_count: int, size: int) -> None:
    assert lcg2_size(rows=256, channels=1024, bins=bin_count) == size
    tile = pages.random_tile(1, 256, 64)
    data = paths.encode_tile(tile, bins=bin_count, version=2, path=paths.coder("numpy"))
    assert len(data) == lcg2_size(rows=256, channels=64, bins=bin_count)


@pytest.mark.parametrize("name", ["oracle", *FAST])
@pytest.mark.parametrize("flat", [0.0, 0.5, -0.75])
def test_flat_rows_come_back_exact(name: str, flat: float) -> None:
    tile, path = np.full((3, 5), flat, np.float16), paths.coder(name)
    for version in VERSIONS:
        data = paths.encode_tile(tile, bins=32, version=version, path=path)
        assert paths.as_f16(paths.decode_tile(data, path=path)).tobytes() == tile.tobytes()


@pytest.mark.parametrize("bin_count", BINS)
def test_the_error_is_at_most_half_a_step(bin_count: int) -> None:
    tile, path = pages.random_tile(9, 200, 30), paths.coder("numpy")
    got = paths.decode_tile(paths.encode_tile(tile, bins=bin_count, version=2, path=path), path=path)
    largest = np.abs(tile.astype(np.float32)).max(axis=1, keepdims=True)
    step = largest / bins.centre_of(bin_count)
    assert (np.abs(got - tile.astype(np.float32)) <= step * np.float32(0.5001)).all()


@pytest.mark.parametrize("name", ["oracle", *FAST])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_not_finite_is_refused(name: str, bad: float) -> None:
    tile = pages.TINY.copy()
    tile[2, 1] = bad
    with pytest.raises(ValueRefusedError, match="finite"):
        paths.encode_tile(tile, bins=16, version=2, path=paths.coder(name))


def test_an_f32_beyond_f16_is_refused() -> None:
    with pytest.raises(ValueRefusedError, match="range of f16"):
        paths.encode_tile(np.array([[1.0, 65520.0]], np.float32), bins=16, version=2, path=paths.coder("numpy"))


@pytest.mark.parametrize("name", ["oracle", *FAST])
def test_a_row_below_f16_is_refused_by_the_quantiser(name: str) -> None:
    with pytest.raises(ValueRefusedError, match="f16 values"):
        paths.coder(name).quantise(np.array([[1e-30, 0]], np.float32), 16)


def test_true_division_is_used_and_not_a_reciprocal() -> None:
    """c / m and (1 / m) * c differ for some maxima; the symbols of such rows decide."""
    path = paths.coder("numpy")
    rng = np.random.default_rng(0)
    tile = rng.standard_normal((4000, 64)).astype(np.float16).astype(np.float32)
    maxima = np.abs(tile).max(axis=1)
    other = np.rint(tile * (np.float32(1) / maxima * np.float32(15))[:, None] + np.float32(15)).astype(np.uint8)
    symbols, _ = path.quantise(tile, 32)
    assert 0 < int((symbols != other).sum()) < 2000
    rows = np.flatnonzero((symbols != other).any(axis=1))[:3]
    assert symbols[rows].tolist() == oracle.quantise(tile[rows].tolist(), 32)[0]


@pytest.mark.parametrize(
    ("layers", "layer", "side", "wanted"),
    [(9, 8, "v", 32), (10, 1, "v", 32), (10, 2, "v", 16), (28, 9, "k", 32), (28, 10, "k", 16), (28, 27, "v", 16)],
)
def test_the_bin_schedule_is_the_generic_one(layers: int, layer: int, side: bins.Side, wanted: int) -> None:
    assert bins.bins_of(layer=layer, layers=layers, side=side) == wanted


def test_the_published_ratio_of_a_28_layer_model_follows() -> None:
    """26.54 % of f16, as published for 28 layers of 8 x 128 values at 256 tokens."""
    sides: tuple[bins.Side, ...] = ("k", "v")
    each = [bins.bins_of(layer=layer, layers=28, side=side) for side in sides for layer in range(28)]
    assert sum(lcg2_size(rows=256, channels=1024, bins=one) for one in each) == 7_791_488


def test_a_path_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(PathError, match="expected oracle, numpy or compiled, found 'fastest'"):
        paths.coder("fastest")


def test_the_compiled_path_without_its_library_is_refused_and_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.codec import compiled

    monkeypatch.setattr(compiled, "available", lambda: False)
    compiled.kernels.cache_clear()
    with pytest.raises(PathError, match=r"statecert\[codec\]"):
        paths.coder("compiled")
    monkeypatch.undo()
    compiled.kernels.cache_clear()


@pytest.mark.parametrize("bins", [16, 32])
def test_compiled_halves_are_rounded_as_numpy_rounds_for_every_maximum_that_f16_has(bins: int) -> None:
    kernels = compiled.kernels()
    maxima = np.arange(0, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float32)
    symbols = np.tile(np.arange(bins - 1, dtype=np.uint8), (len(maxima), 1))
    found = kernels.halves(symbols, maxima, bins)
    assert found is not None
    wanted = paths.as_f16(paths.coder("numpy").dequantise(symbols, maxima, bins))
    assert found.tobytes() == wanted.tobytes()


def test_compiled_halves_leave_what_may_leave_f16_to_the_path_that_tells_it() -> None:
    symbols = np.array([[7, 14]], np.uint8)
    assert compiled.kernels().halves(symbols, np.array([65519.0], np.float32), 16) is not None
    assert compiled.kernels().halves(symbols, np.array([65520.0], np.float32), 16) is None


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_compiled_blocks_are_those_of_numpy_both_ways(kind: str) -> None:
    rng = np.random.default_rng(5)
    path = paths.coder("compiled")
    ties = np.array([0.5, -0.5, 1.5, -1.5, 2.5, 127, -127, 0] * 4, np.float32)
    equal = np.array([3, -3, 3, -3] * 8, np.float32)
    tiny = np.full(32, 2.0**-24, np.float32)
    rows = [ties, equal, tiny, np.zeros(32, np.float32), np.full(32, 65504, np.float32)]
    rows += [(rng.standard_normal(32) * 10.0**scale).astype(np.float32) for scale in range(-9, 5) for _ in range(40)]
    values = np.stack(rows)
    stored = paths.quantised_blocks(kind, values, path=path)
    assert stored.tobytes() == blocks.quantise(kind, values).tobytes()
    assert paths.block_values(kind, stored, path=path).tobytes() == blocks.dequantise(kind, stored).tobytes()


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_compiled_blocks_refuse_what_numpy_refuses_in_its_words(kind: str) -> None:
    path = paths.coder("compiled")
    broken = np.ones((1, 32), np.float32)
    broken[0, 5] = np.nan
    with pytest.raises(ValueRefusedError, match="finite value"):
        paths.quantised_blocks(kind, broken, path=path)
    with pytest.raises(ValueRefusedError, match="scales in the range"):
        paths.quantised_blocks(kind, np.full((1, 32), 1e9, np.float32), path=path)
    stored = blocks.quantise(kind, np.ones((1, 32), np.float32))
    stored[0, :2] = [0, 0x7C]
    with pytest.raises(ValueRefusedError, match="finite scale"):
        paths.block_values(kind, stored, path=path)
    with pytest.raises(GeometryError):
        paths.quantised_blocks(kind, np.ones((1, 31), np.float32), path=path)


def test_compiled_cdfs_are_numpys_over_the_edges_of_its_groups_of_channels() -> None:
    for channels in (1, 127, 128, 129, 300):
        symbols = np.random.default_rng(channels).integers(0, 32, (201, channels), dtype=np.uint8)
        assert compiled.kernels().cdfs(symbols).tobytes() == paths.coder("numpy").cdfs(symbols).tobytes()
