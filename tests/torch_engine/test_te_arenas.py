"""Memory of links: measured while anybody holds it, taken back, handed out again."""

from __future__ import annotations

import torch

from harness.torch_engine.arenas import Arenas

CPU = torch.device("cpu")


def test_what_is_held_is_counted_until_nobody_holds_it() -> None:
    arenas = Arenas()
    first, second = arenas.take(100, CPU), arenas.take(50, CPU)
    assert arenas.allocated == 150
    del first
    assert arenas.allocated == 50
    arenas.hold(second, 58)
    assert (arenas.allocated, arenas.peak) == (58, 150)


def test_a_forgotten_arena_stays_counted() -> None:
    arenas = Arenas()
    attic = [arenas.take(100, CPU)]
    arenas.take(10, CPU)
    assert arenas.allocated == 100
    attic.clear()
    assert arenas.allocated == 0


def test_a_spare_is_taken_by_the_next_of_its_size_and_no_other() -> None:
    arenas = Arenas()
    arena = arenas.take(100, CPU)
    arenas.give_back(arena)
    assert arenas.take(99, CPU) is not arena
    assert arenas.take(100, CPU) is arena
    assert (arenas.reused, arenas.spare_bytes) == (1, 0)


def test_spares_go_oldest_first_and_the_wanted_one_stays() -> None:
    arenas = Arenas()
    for size in (10, 20, 30, 40):
        arenas.give_back(arenas.take(size, CPU))
    arenas.trim(75, wanted=20)
    assert arenas.spare_bytes == 90
    arenas.trim(30, wanted=20)
    assert arenas.spare_bytes == 20
    arenas.trim(-1)
    assert (arenas.spare_bytes, arenas.allocated) == (0, 0)
    assert not arenas.drop_one()
