"""The tensor path equals the oracle, bit for bit, and decodes straight into resident buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.codec import archive, blocks, paths
from harness.codec.errors import CodecError, GeometryError, ValueRefusedError
from harness.codec.segments import read_segment, write_lcg2
from harness.torch_engine.coded import lockstep, packing, restoring
from tests.codec import pages

GOLDEN = Path(__file__).parent / "golden"
NUMPY = paths.coder("numpy")
CPU = torch.device("cpu")
FLOATS = {"f16": torch.float16, "f32": torch.float32}
SHAPES = [(1, 1), (1, 9), (3, 5), (64, 40), (255, 7), (256, 33)]


@pytest.mark.parametrize("bins", [16, 32])
@pytest.mark.parametrize(("rows", "channels"), SHAPES)
def test_symbols_and_maxima_are_the_oracles(bins: int, rows: int, channels: int) -> None:
    tile = pages.random_tile(rows, rows, channels)
    symbols, maxima = packing.quantise(torch.from_numpy(tile), bins)
    wanted, largest = NUMPY.quantise(tile.astype(np.float32), bins)
    assert symbols.numpy().tobytes() == wanted.tobytes()
    assert maxima.numpy().tobytes() == largest.tobytes()


@pytest.mark.parametrize("bins", [16, 32])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 16, 1001])
def test_packing_is_the_oracles_both_ways(bins: int, count: int) -> None:
    symbols = np.random.default_rng(count).integers(0, bins - 1, count, dtype=np.uint8)
    packed = packing.pack(torch.from_numpy(symbols), bins)
    assert packed.numpy().tobytes() == NUMPY.pack(symbols, 4 if bins == 16 else 5).tobytes()
    assert packing.unpack(packed, count, bins).numpy().tobytes() == symbols.tobytes()


@pytest.mark.parametrize("bins", [16, 32])
@pytest.mark.parametrize(("rows", "channels"), SHAPES)
def test_the_lockstep_decoder_gives_the_symbols(bins: int, rows: int, channels: int) -> None:
    tile = pages.random_tile(rows + 1, rows, channels)
    segment = read_segment(paths.encode_tile(tile, bins=bins, version=1, path=NUMPY))
    assert lockstep.decode(segment, CPU).numpy().tobytes() == paths.decode_symbols(segment, path=NUMPY).tobytes()


def test_tiles_side_by_side_give_what_each_gives_alone() -> None:
    """Of other heights, widths and bins: a stream that ends earlier must not see what is decoded beside it."""
    shapes = [(3, 5, 16), (256, 33, 32), (1, 9, 16), (64, 40, 16), (255, 7, 32)]
    tiles = [(pages.random_tile(9 + rows, rows, channels), bins) for rows, channels, bins in shapes]
    segments = [read_segment(paths.encode_tile(tile, bins=bins, version=1, path=NUMPY)) for tile, bins in tiles]
    found = lockstep.decode_side_by_side(segments, CPU)
    for segment, symbols in zip(segments, found, strict=True):
        assert symbols.numpy().tobytes() == paths.decode_symbols(segment, path=NUMPY).tobytes()


@pytest.mark.parametrize(("at_once", "runs"), [(1, [1, 1, 1, 1]), (10, [2, 1, 1]), (14, [2, 2]), (4096, [4])])
def test_a_run_of_tiles_has_at_most_so_many_streams(at_once: int, runs: list[int]) -> None:
    tile = paths.encode_tile(pages.random_tile(3, 2, 5), bins=16, version=1, path=NUMPY)
    wide = paths.encode_tile(pages.random_tile(4, 2, 9), bins=16, version=1, path=NUMPY)
    segments = [read_segment(data) for data in (tile, tile, wide, tile)]
    assert [len(run) for run in lockstep.batches(segments, at_once)] == runs
    assert [one for run in lockstep.batches(segments, at_once) for one in run] == segments


@pytest.mark.parametrize("bins", [16, 32])
def test_values_are_the_oracles_in_any_layout(bins: int) -> None:
    tile = pages.random_tile(2, 60, 12)
    data = paths.encode_tile(tile, bins=bins, version=2, path=NUMPY)
    segment, wanted = read_segment(data), paths.as_f16(paths.decode_tile(data, path=NUMPY))
    symbols = torch.from_numpy(paths.decode_symbols(segment, path=NUMPY).copy())
    for target in (torch.empty((60, 12), dtype=torch.float16), torch.empty((12, 60), dtype=torch.float16).T):
        packing.dequantise_into(symbols, torch.from_numpy(segment.maxima.copy()), bins, target)
        assert target.contiguous().numpy().tobytes() == wanted.tobytes()


def targets(page: torch.Tensor) -> list[torch.Tensor]:
    """Views of a page's buffer, as an engine's resident buffers would lie."""
    out, at = [], 0
    for component in pages.COMPONENTS:
        for _, _, kind, channels in component.sides():
            size = component.tokens * archive.row_bytes(kind.element, channels)
            piece = page[at : at + size]
            at += size
            dtype = {"f16": torch.float16, "f32": torch.float32}.get(kind.element)
            if dtype is None:
                out.append(piece.view(component.tokens, -1))
            elif kind.transposed:
                out.append(piece.clone().view(dtype).view(channels, component.tokens).T)
            else:
                out.append(piece.clone().view(dtype).view(component.tokens, channels))
        if component.exact_bytes:
            out.append(page[at : at + component.exact_bytes])
            at += component.exact_bytes
    return out


def bytes_of(pieces: list[torch.Tensor]) -> bytes:
    """The page that the buffers hold; a transposed view is read in its memory's order."""
    return b"".join((one if one.is_contiguous() else one.T).numpy().tobytes() for one in pieces)


@pytest.mark.parametrize("version", [1, 2])
def test_an_archive_lands_in_resident_buffers_as_the_oracle_decodes_it(version: int) -> None:
    data = (GOLDEN / f"page-v{version}.ckg1").read_bytes()
    wanted = archive.decode_page(data, path=paths.coder("oracle"))
    pieces = targets(torch.zeros(len(wanted), dtype=torch.uint8))
    assert restoring.import_page(data, pieces) == len(wanted)
    assert bytes_of(pieces) == bytes(wanted)


@pytest.mark.parametrize("version", [1, 2])
def test_no_decoded_value_visits_the_host_on_its_way_into_the_rows(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of blocks too are quantised where they lie, by the rules of the reference."""

    def asked(*_: object) -> None:
        raise AssertionError("a decoded tile left the device")

    data = (GOLDEN / f"page-v{version}.ckg1").read_bytes()
    wanted = archive.decode_page(data, path=paths.coder("oracle"))
    pieces = targets(torch.zeros(len(wanted), dtype=torch.uint8))
    with monkeypatch.context() as patch:
        for of, name in ((torch.Tensor, "cpu"), (torch.Tensor, "numpy"), (blocks, "quantise"), (blocks, "dequantise")):
            patch.setattr(of, name, asked)
        restoring.import_page(data, pieces)

    assert bytes_of(pieces) == bytes(wanted)


def test_a_refused_archive_writes_nothing() -> None:
    data = bytearray((GOLDEN / "page-v2.ckg1").read_bytes())
    data[-60] ^= 1
    pieces = targets(torch.full((445,), 7, dtype=torch.uint8))
    before = bytes_of(pieces)
    try:
        restoring.import_page(bytes(data[:-1]), pieces)
    except CodecError:
        assert bytes_of(pieces) == before
    else:
        pytest.fail("an archive cut by a byte was imported")


@pytest.mark.parametrize("change", ["dtype", "width", "missing", "more"])
def test_buffers_that_do_not_fit_are_refused_before_the_first_write(change: str) -> None:
    data = (GOLDEN / "page-v2.ckg1").read_bytes()
    pieces = targets(torch.zeros(445, dtype=torch.uint8))
    before = bytes_of(pieces)
    wrong = {
        "dtype": [*pieces[:-1], pieces[-1].view(torch.int8)],
        "width": [pieces[0].reshape(4, 5), *pieces[1:]],
        "missing": pieces[:-1],
        "more": [*pieces, torch.zeros(3, dtype=torch.uint8)],
    }[change]
    with pytest.raises(GeometryError):
        restoring.import_page(data, wrong)
    assert bytes_of(pieces) == before


def test_a_symbol_above_its_bins_is_refused() -> None:
    with pytest.raises(ValueRefusedError, match="symbols up to 14"):
        packing.dequantise_into(
            torch.full((1, 4), 15, dtype=torch.uint8), torch.ones(1), 16, torch.empty((1, 4), dtype=torch.float16)
        )


@pytest.mark.parametrize("bins", [16, 32])
@pytest.mark.parametrize(("rows", "channels"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_tile_is_restored_as_the_oracle_has_it(bins: int, rows: int, channels: int, dtype: torch.dtype) -> None:
    data = paths.encode_tile(pages.random_tile(rows + 2, rows, channels), bins=bins, version=2, path=NUMPY)
    segment, wanted = read_segment(data), paths.as_f16(paths.decode_tile(data, path=NUMPY))
    packed, maxima = torch.from_numpy(segment.payload.copy()), torch.from_numpy(segment.maxima.copy())
    for target in (torch.empty((rows, channels), dtype=dtype), torch.empty((channels, rows), dtype=dtype).T):
        packing.restore_into(packed, maxima, bins, target)
        assert target.contiguous().numpy().tobytes() == wanted.astype(target.contiguous().numpy().dtype).tobytes()


@pytest.mark.parametrize("bins", [16, 32])
def test_a_symbol_that_the_bins_lack_is_refused_and_nothing_is_written(bins: int) -> None:
    symbols = np.full((4, 9), bins // 2 - 1, np.uint8)
    for row, channel in ((0, 0), (1, 4), (3, 8)):
        wrong = symbols.copy()
        wrong[row, channel] = bins - 1
        packed = torch.from_numpy(NUMPY.pack(wrong.reshape(-1), 4 if bins == 16 else 5))
        target = torch.full((4, 9), 3.0, dtype=torch.float16)
        with pytest.raises(ValueRefusedError, match="symbols up to"):
            packing.restore_into(packed, torch.ones(4), bins, target)
        assert bool((target == 3).all())


def test_a_maximum_beyond_f16_is_refused_only_where_a_value_reaches_it() -> None:
    target = torch.zeros((1, 2), dtype=torch.float16)
    inside, beyond = ([8, 6], [14, 7])
    maxima = torch.tensor([70000.0])
    packing.restore_into(packing.pack(torch.tensor(inside, dtype=torch.uint8), 16), maxima, 16, target)
    assert target.tolist() == [[10000.0, -10000.0]]
    with pytest.raises(ValueRefusedError, match="range of f16"):
        packing.restore_into(packing.pack(torch.tensor(beyond, dtype=torch.uint8), 16), maxima, 16, target)
    assert target.tolist() == [[10000.0, -10000.0]]


def test_a_smaller_tile_after_a_larger_one_sees_nothing_of_it() -> None:
    for rows, channels in ((256, 33), (3, 5), (255, 7), (1, 1)):
        for bins in (16, 32):
            data = paths.encode_tile(pages.random_tile(9, rows, channels), bins=bins, version=2, path=NUMPY)
            segment = read_segment(data)
            target = torch.empty((rows, channels), dtype=torch.float16)
            packed, maxima = torch.from_numpy(segment.payload.copy()), torch.from_numpy(segment.maxima.copy())
            packing.restore_into(packed, maxima, bins, target)
            assert target.numpy().tobytes() == paths.as_f16(paths.decode_tile(data, path=NUMPY)).tobytes()


@pytest.mark.parametrize("element", archive.ELEMENTS)
def test_tiles_that_are_decoded_together_give_what_each_gives_alone(
    element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of many heights, the last tile of each short: 5 x 3 x 5 bits end inside a byte, and nothing may follow."""
    channels = 32 if element in blocks.BLOCK_BYTES else 3
    parts = [
        archive.Component(
            layers=3, tokens=tokens, k_element=element, v_element="f16", k_channels=channels, v_channels=8
        )
        for tokens in (5, 16, 261, 513)
    ]
    data = archive.encode_page(b"".join(map(pages.layers, parts)), parts, version=2, path=NUMPY)
    wanted = bytes(archive.decode_page(data, path=NUMPY))
    counts = []
    for at_once in (1, 3000, 1 << 18):
        found = [
            torch.zeros((part.tokens, width), dtype=FLOATS[kind.element])
            if kind.element in FLOATS
            else torch.zeros((part.tokens, archive.row_bytes(kind.element, width)), dtype=torch.uint8)
            for part in parts
            for _, _, kind, width in part.sides()
        ]
        placed = restoring.place(data, found)
        monkeypatch.setattr(restoring, "ON_HOST", at_once)
        told: list[int] = []
        restoring.fill(placed, wrote=told.append)
        assert bytes_of(found) == wanted, at_once
        assert told == list(range(1, len(placed.rows) + 1))
        counts.append(len(list(restoring.runs(placed.rows, at_once))))
    assert counts[0] == len(placed.rows) > counts[1] > counts[2]


def test_a_refused_tile_is_refused_in_company_too() -> None:
    symbols = np.full((4, 8), 7, np.uint8)
    good = write_lcg2(
        bins=16, maxima=np.ones(4, np.float32), channels=8, packed=NUMPY.pack(symbols.reshape(-1), 4).tobytes()
    )
    symbols[3, 7] = 15
    wrong = write_lcg2(
        bins=16, maxima=np.ones(4, np.float32), channels=8, packed=NUMPY.pack(symbols.reshape(-1), 4).tobytes()
    )
    target = torch.full((12, 8), 3.0, dtype=torch.float16)
    with pytest.raises(ValueRefusedError, match="symbols up to 14"):
        restoring.import_page(pages.archive_of("f16", [good, wrong, good], rows=4, channels=8), [target])
    assert bool((target == 3).all())
