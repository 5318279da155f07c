"""Small segments are put back without torch: the same bytes, in the same places, whatever their sizes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.torch_engine.errors import LayoutError
from harness.torch_engine.scatter import Places, Scatter
from harness.torch_engine.snapshot import FEW_BYTES, Snapshot, Snapshotter
from harness.torch_engine.state import RowStream, StateLayout

STREAMS, LINKS = 7, 5


def _layout(row_elements: list[int], capacity: int = 64) -> StateLayout:
    """Streams of bf16 rows of these widths, filled with bytes that no two rows share, none of them valid yet."""
    draw = torch.Generator().manual_seed(3)
    return StateLayout(
        fixed=(),
        rows=tuple(
            RowStream(
                name=f"layer{number}.k",
                family="kv",
                layer=number,
                element_type="bf16",
                tensor=torch.randint(0, 256, (capacity, 2 * width), generator=draw, dtype=torch.uint8).view(
                    torch.bfloat16
                ),
                rows=0,
            )
            for number, width in enumerate(row_elements)
        ),
    )


def _at(layout: StateLayout, rows: list[int]) -> StateLayout:
    return StateLayout(fixed=(), rows=tuple(replace(r, rows=n) for r, n in zip(layout.rows, rows, strict=True)))


def _chain(layout: StateLayout, ends: list[list[int]]) -> list[Snapshot]:
    take, chain = Snapshotter(), list[Snapshot]()
    for rows in ends:
        grown = _at(layout, rows)
        chain.append(take.capture(grown, b"", take.starts(grown, chain[-1] if chain else None)))
    return chain


def _bytes(layout: StateLayout) -> list[bytes]:
    return [r.tensor[: r.rows].contiguous().view(torch.uint8).numpy().tobytes() for r in layout.rows]


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_of_small_segments_comes_back_to_the_byte_and_touches_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    widths = [draw.choice([8, 32, 128]) for _ in range(STREAMS)] if seed % 2 else [64] * STREAMS
    layout = _layout(widths)
    step = [draw.randrange(0, 12) for _ in range(STREAMS)] if seed % 3 else [4] * STREAMS
    ends = [[(depth + 1) * rows for rows in step] for depth in range(LINKS)]
    chain, whole = _chain(layout, ends), _at(layout, ends[-1])
    before, beyond = _bytes(whole), [r.tensor[r.rows :].clone() for r in whole.rows]
    for stream in whole.rows:
        stream.tensor[: stream.rows] = 0

    copied = Snapshotter().restore(chain, whole)

    assert _bytes(whole) == before
    assert copied == sum(map(len, before))
    pairs = zip(whole.rows, beyond, strict=True)
    assert all(torch.equal(r.tensor[r.rows :].view(torch.int16), rest.view(torch.int16)) for r, rest in pairs)
    assert all(link.scatters for link in chain)


def test_a_byte_that_changed_in_the_arena_is_in_the_next_restore() -> None:
    layout = _layout([64] * STREAMS)
    chain, whole = _chain(layout, [[4] * STREAMS, [8] * STREAMS]), _at(layout, [8] * STREAMS)
    Snapshotter().restore(chain, whole)
    before = _bytes(whole)

    chain[0].held("layer2.k")[5] ^= 1
    Snapshotter().restore(chain, whole)

    assert [old == new for old, new in zip(before, _bytes(whole), strict=True)] == [n != 2 for n in range(STREAMS)]
    assert _bytes(whole)[2][5] == before[2][5] ^ 1


def test_a_buffer_that_moved_since_the_last_restore_is_the_one_that_is_written() -> None:
    layout = _layout([64] * STREAMS)
    chain, whole = _chain(layout, [[4] * STREAMS]), _at(layout, [4] * STREAMS)
    Snapshotter().restore(chain, whole)
    before, old = _bytes(whole), whole.rows[3].tensor.clone()
    kept = whole.rows[3].tensor.detach()

    other = torch.zeros_like(old)
    whole.rows[3].tensor.set_(other.untyped_storage(), 0, other.shape, other.stride())
    kept.zero_()
    Snapshotter().restore(chain, whole)

    assert _bytes(whole) == before
    assert not kept.view(torch.int16).any()


def test_large_segments_still_go_through_torch() -> None:
    layout = _layout([FEW_BYTES, FEW_BYTES])
    chain, whole = _chain(layout, [[1, 1], [2, 2]]), _at(layout, [2, 2])
    before = _bytes(whole)
    for stream in whole.rows:
        stream.tensor.zero_()

    Snapshotter().restore(chain, whole)

    assert _bytes(whole) == before
    assert not any(link.scatters for link in chain)


def test_a_chain_that_is_too_long_for_a_buffer_is_written_nowhere_even_if_nobody_checked_it() -> None:
    layout = _layout([64] * STREAMS)
    chain = _chain(layout, [[4] * STREAMS, [8] * STREAMS])
    short = replace(layout.rows[0], tensor=layout.rows[0].tensor[:6].clone(), rows=6)
    target = StateLayout(fixed=(), rows=(short, *_at(layout, [8] * STREAMS).rows[1:]))
    before = _bytes(target)

    with pytest.raises(LayoutError, match=r"layer0\.k"):
        Snapshotter().restore(chain, target)
    with pytest.raises(RuntimeError):
        Snapshotter().gather(chain, target)

    assert _bytes(target) == before


@pytest.mark.parametrize("offset", [-1, 61])
def test_a_piece_outside_of_its_block_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="expected offsets in a block of 64"):
        Scatter(np.zeros(64, np.uint8), [0, offset], [4, 4], [0, 0])


def test_pieces_of_any_size_at_any_offset_land_where_they_belong() -> None:
    block = np.random.default_rng(1).integers(0, 256, 4096, dtype=np.uint8)
    buffers = [np.zeros(256, np.uint8) for _ in range(6)]
    offsets, sizes, starts = [7, 400, 30, 1000, 4000, 90], [17, 17, 17, 1, 96, 0], [0, 200, 239, 255, 3, 0]

    Scatter(block, offsets, sizes, starts).put(Places([buffer.ctypes.data for buffer in buffers]))

    for buffer, offset, size, start in zip(buffers, offsets, sizes, starts, strict=True):
        expected = np.zeros(256, np.uint8)
        expected[start : start + size] = block[offset : offset + size]
        assert buffer.tobytes() == expected.tobytes()
