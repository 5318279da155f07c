"""Threads that help: every piece is done once, errors reach who asks, and nobody works on when a look has ended."""

from __future__ import annotations

import threading
import time

import pytest

from harness.engines.helpers import Helpers, Pieces


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_every_piece_is_done_once_and_found_under_its_number(threads: int) -> None:
    done: list[int] = []
    helpers = Helpers()
    pieces = Pieces([4, 0, 3, 1, 2], lambda number: done.append(number) or number * number)  # type: ignore[func-returns-value] # both, in one line

    helpers.call(pieces.work, threads)
    found = pieces.results()
    helpers.close()

    assert found == [0, 1, 4, 9, 16]
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_a_thread_helps_while_the_first_one_does_something_else() -> None:
    helpers, begun = Helpers(), threading.Event()
    pieces = Pieces([0], lambda _: begun.set())

    helpers.call(pieces.work, 1)

    assert begun.wait(10)
    assert pieces.results() == [None]
    helpers.close()


@pytest.mark.parametrize("helped", [True, False])
def test_what_a_piece_raises_is_raised_and_no_piece_is_begun_after_it(helped: bool) -> None:
    helpers, running = Helpers(), threading.Event()
    done: list[int] = []

    def do(number: int) -> int:
        running.set()
        done.append(number)
        if number == 0:
            raise ValueError("piece 0")
        time.sleep(0.01)
        return number

    pieces = Pieces(range(8), do)
    if helped:
        helpers.call(pieces.work, 1)
        running.wait(10)

    with pytest.raises(ValueError, match="piece 0"):
        pieces.results()
    count = len(done)
    helpers.close()

    assert len(done) == count
    assert helped or done == [0]


def test_pieces_that_were_stopped_are_not_begun_any_more() -> None:
    done: list[int] = []
    helpers, begun, go_on = Helpers(), threading.Event(), threading.Event()

    def do(number: int) -> None:
        begun.set()
        go_on.wait(10)
        done.append(number)

    pieces = Pieces(range(4), do)
    helpers.call(pieces.work, 1)
    begun.wait(10)
    threading.Timer(0.05, go_on.set).start()
    pieces.stop()
    helpers.close()

    assert done == [0]


def test_threads_end_with_their_helpers() -> None:
    before = threading.active_count()
    helpers = Helpers()
    helpers.call(lambda: None, 3)

    helpers.close()

    assert threading.active_count() == before
