"""Memory of links: handed out, measured while anybody holds it, taken back, handed out again.

Rules:

1. an arena that was displaced is a *spare*; the next link of exactly its size takes it, so a store that is full
   asks the allocator for nothing;
2. spares count as held; they are the first to go where memory is wanted;
3. `allocated` is measured, not added up: every arena is counted from its making until nobody holds it.
"""

from __future__ import annotations

import weakref

import torch
from torch import Tensor


class Arenas:
    """The arenas of one engine."""

    def __init__(self) -> None:
        self._live: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._spare: list[Tensor] = []
        self.allocated = 0
        """Bytes of all arenas that somebody holds, spares included."""
        self.reused = 0
        """Arenas that were handed out a second time or more."""
        self.peak = 0
        """Most bytes that were ever allocated at once."""

    def take(self, size: int, device: torch.device) -> Tensor:
        """An arena (size,) u8, contents undefined: a spare one of this size, else a new one."""
        for number, arena in enumerate(self._spare):
            if arena.numel() == size and arena.device == device:
                self.reused += 1
                return self._spare.pop(number)
        arena = torch.empty(size, dtype=torch.uint8, device=device)
        self.hold(arena, size)
        return arena

    def hold(self, arena: Tensor, nbytes: int) -> None:
        """Count an arena with so many bytes from now on, until nobody holds it.

        Args:
            arena: made here or elsewhere.
            nbytes: its bytes, those of a link's metadata included.
        """
        number = id(arena)

        def gone(_: weakref.ref[Tensor]) -> None:
            self.allocated -= self._live.pop(number)[1]

        _, before = self._live.get(number, (None, 0))
        self._live[number] = (weakref.ref(arena, gone), nbytes)
        self.allocated += nbytes - before
        self.peak = max(self.peak, self.allocated)

    def give_back(self, arena: Tensor) -> None:
        """Take a displaced arena; whoever gave it must not look at it again."""
        self.hold(arena, arena.numel())
        self._spare.append(arena)

    @property
    def spare_bytes(self) -> int:
        """Bytes of the spares."""
        return sum(arena.numel() for arena in self._spare)

    def drop_one(self) -> bool:
        """Let the oldest spare go; whether there was one."""
        if self._spare:
            del self._spare[0]
            return True
        return False

    def trim(self, limit: int, wanted: int = -1) -> None:
        """Let spares go, oldest first, until the rest holds at most ``limit`` bytes.

        Args:
            limit: bytes.
            wanted: size of the link that is made next; one spare of this size stays and does not count.
        """
        kept = next((arena for arena in self._spare if arena.numel() == wanted), None)
        others = [arena for arena in self._spare if arena is not kept]
        while others and sum(arena.numel() for arena in others) > limit:
            del others[0]
        self._spare = [*others, kept] if kept is not None else others
