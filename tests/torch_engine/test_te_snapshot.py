"""Delta snapshots: what is copied, what is refused, and that a refusal touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from harness.torch_engine import Snapshot, Snapshotter, StateLayout
from harness.torch_engine.errors import LayoutError, MissingError
from harness.torch_engine.snapshot import PART_ALIGN, corrupted, stored_bytes
from tests.torch_engine.support import ToyState, digest, tokens

PROMPT = tokens(1, 400)
TAKE = Snapshotter()


def chain() -> tuple[ToyState, list[Snapshot]]:
    """A state at 384 tokens and its three links."""
    state = ToyState()
    links: list[Snapshot] = []
    for upto in (128, 256, 384):
        state.run(PROMPT, upto)
        starts = TAKE.starts(state.layout(), links[-1] if links else None)
        links.append(TAKE.capture(state.layout(), state.meta(), starts))
    return state, links


def test_a_chain_restores_the_state_it_was_taken_of() -> None:
    state, links = chain()
    fresh = ToyState()

    copied = TAKE.restore(links, fresh.layout(384))
    fresh.finish_restore(links[-1].meta)

    assert fresh.contents() == state.contents()
    assert copied == 256 + 384 * 16


def test_a_link_copies_only_the_rows_above_its_parent() -> None:
    _, links = chain()

    spans = [(link.segments[0].start, link.segments[0].stop) for link in links]

    assert spans == [(0, 128), (128, 256), (256, 384)]
    assert {link.nbytes for link in links} == {256 + 128 * 16 + 8}


def test_pieces_start_at_aligned_offsets_and_the_end_is_not_padded() -> None:
    state = ToyState()
    state.run(PROMPT, 3)

    snapshot = TAKE.capture(state.layout(), b"", (0,))

    assert [piece.offset % PART_ALIGN for piece in snapshot.pieces()] == [0, 0]
    assert snapshot.nbytes == 256 + 48
    assert snapshot.nbytes == TAKE.size(state.layout(), (0,), b"")


def test_what_lies_between_the_pieces_is_told_as_gaps() -> None:
    _, snapshots = chain()
    for snapshot in snapshots:
        pieces = snapshot.pieces()
        ends = [piece.offset + piece.nbytes for piece in pieces]
        between = [piece.offset - end for end, piece in zip(ends, pieces[1:], strict=False)]

        assert snapshot.gap_bytes == sum(between)
        assert snapshot.nbytes == len(snapshot.meta) + sum(piece.nbytes for piece in pieces) + snapshot.gap_bytes


def test_a_snapshot_is_a_copy_and_not_a_view() -> None:
    state, links = chain()
    before = [digest(link.arena) for link in links]

    state.fixed.zero_()
    state.rows.zero_()

    assert [digest(link.arena) for link in links] == before


def test_a_link_with_another_arena_forgets_its_views() -> None:
    _, links = chain()
    TAKE.restore(links[:1], ToyState().layout(128))
    zeros = replace(links[0], arena=torch.zeros_like(links[0].arena))
    fresh = ToyState()
    fresh.rows.fill_(1)

    TAKE.restore([zeros], fresh.layout(128))

    assert not fresh.rows[:128].any()


def test_taking_a_snapshot_changes_nothing() -> None:
    state = ToyState()
    state.run(PROMPT, 100)
    before = state.contents()

    TAKE.capture(state.layout(), state.meta(), (0,))

    assert state.contents() == before


def test_a_chain_of_no_new_rows_is_allowed() -> None:
    state = ToyState()
    state.run(PROMPT, 100)
    first = TAKE.capture(state.layout(), state.meta(), (0,))
    second = TAKE.capture(state.layout(), state.meta(), first.ends())

    fresh = ToyState()
    TAKE.restore([first, second], fresh.layout(100))
    fresh.finish_restore(second.meta)

    assert second.nbytes == 256 + 8
    assert fresh.contents() == state.contents()


def _resized(layout: StateLayout) -> StateLayout:
    return replace(layout, fixed=(replace(layout.fixed[0], tensor=torch.zeros(8, dtype=torch.uint8)),))


def _wider(layout: StateLayout) -> StateLayout:
    wide = torch.zeros((1024, 32), dtype=torch.uint8)
    return replace(layout, rows=(replace(layout.rows[0], tensor=wide),))


def _small(layout: StateLayout) -> StateLayout:
    return replace(layout, rows=(replace(layout.rows[0], tensor=layout.rows[0].tensor[:200]),))


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        (lambda layout: replace(layout, fixed=()), "fixed parts"),
        (_resized, "fixed parts"),
        (lambda layout: replace(layout, rows=layout.rows * 2), "segments"),
        (_wider, "rows of 32 bytes"),
        (_small, "at most 200"),
        (lambda layout: replace(layout, rows=(replace(layout.rows[0], rows=383),)), "383 rows"),
    ],
)
def test_a_destination_that_does_not_fit_is_refused_and_untouched(
    destination: Callable[[StateLayout], StateLayout], message: str
) -> None:
    _, links = chain()
    fresh = ToyState()
    layout = destination(fresh.layout(384))

    with pytest.raises(LayoutError, match=message) as refusal:
        TAKE.restore(links, layout)

    assert refusal.value.code == "layout"
    assert not fresh.fixed.any()
    assert not fresh.rows.any()


@pytest.mark.parametrize(
    "broken",
    [
        lambda links: [],
        lambda links: links[1:],
        lambda links: links[:2],
        lambda links: [links[0], links[2]],
        lambda links: [links[0], links[0], links[2]],
    ],
)
def test_a_chain_with_a_hole_is_refused(
    broken: Callable[[list[Snapshot]], list[Snapshot]],
) -> None:
    _, links = chain()
    fresh = ToyState()

    with pytest.raises(LayoutError):
        TAKE.restore(broken(links), fresh.layout(384))

    assert not fresh.rows.any()


def test_a_start_above_the_valid_rows_is_refused() -> None:
    state = ToyState()
    state.run(PROMPT, 10)

    with pytest.raises(LayoutError, match=r"0\.\.10"):
        TAKE.capture(state.layout(), b"", (11,))


def test_a_parent_lines_up_only_with_streams_that_reach_its_end() -> None:
    state, links = chain()

    assert TAKE.lines_up(links[2], state.layout())
    assert not TAKE.lines_up(links[2], state.layout(383))
    assert not TAKE.lines_up(links[2], _wider(state.layout()))


def test_a_flipped_bit_travels_through_the_restore() -> None:
    state, links = chain()
    links[1] = corrupted(links[1], "toy.rows", 5, 0x10)
    fresh = ToyState()

    TAKE.restore(links, fresh.layout(384))

    differs = (fresh.rows[:384] != state.rows[:384]).nonzero().tolist()
    assert differs == [[128, 5]]


def test_a_flip_of_metadata_leaves_the_other_snapshot_alone() -> None:
    _, links = chain()

    changed = corrupted(links[0], "metadata", 0, 1)

    assert stored_bytes(changed, "metadata") == (129).to_bytes(8, "little")
    assert stored_bytes(links[0], "metadata") == (128).to_bytes(8, "little")


def test_a_part_that_a_snapshot_does_not_hold_is_refused() -> None:
    _, links = chain()

    with pytest.raises(MissingError, match=r"toy\.none"):
        corrupted(links[0], "toy.none", 0, 1)
