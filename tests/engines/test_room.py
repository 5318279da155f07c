"""Memory for copies: bytes of one's own, whatever pages the system has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.engines import room
from harness.engines.room import Room

MEGABYTE = 1 << 20
SIZES = (70_001, 3 * MEGABYTE, 1, 5 * MEGABYTE + 7, 15 * MEGABYTE, 40 * MEGABYTE, 64)


@pytest.mark.parametrize("large_pages", [True, False])
def test_no_two_takers_share_a_byte(large_pages: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large_pages and not room.has_large_pages():
        pytest.skip("this system gives no large pages")
    monkeypatch.setattr(room, "has_large_pages", lambda: large_pages)
    place = Room()

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(place.take, SIZES))
    for number, view in enumerate(taken):
        view[:] = bytes([number + 1]) * view.nbytes

    assert [view.nbytes for view in taken] == list(SIZES)
    assert [bytes(view).count(number + 1) for number, view in enumerate(taken)] == list(SIZES)


def test_what_was_taken_outlives_the_room() -> None:
    view = Room().take(MEGABYTE)

    view[:] = b"k" * MEGABYTE

    assert bytes(view) == b"k" * MEGABYTE
