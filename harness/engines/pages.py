"""What an adapter can offer besides the seam: its K/V rows as pages, for the matrix of element types.

An adapter that has ``open_pages`` is used by the campaign ``kv``; one that has not is refused there. Calls are made in
the process that measures them, since a pipe in between would be part of every time. Everything crosses as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from harness.engines.interface import Options


class PageRefusedError(Exception):
    """A named refusal; ``word`` is stable, like ``codec.geometry`` or ``option``."""

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self.word = word


@dataclass(frozen=True, kw_only=True, slots=True)
class PageComponent:
    """One cache of a page, as it is stored."""

    layers: int
    tokens: int
    k_element: str
    """Label of the K rows' codes, of the bytes as they lie there."""
    v_element: str
    k_channels: int
    """Values of one K row, over all heads."""
    v_channels: int
    transposed_v: bool
    exact_bytes: int
    """Index rows after the V layers."""


class PageSession(Protocol):
    """One session of one engine."""

    def prefill(self, prompt: Sequence[int]) -> None:
        """Reset, and forward a prompt whole."""
        ...

    def fork(self) -> PageSession:
        """An empty session of the same engine."""
        ...

    def parts(self) -> Mapping[str, tuple[str, bytes]]:
        """Element type and valid bytes of every part by name; part 0 is ``meta``."""
        ...

    def components(self, *, transposed: bool) -> Sequence[PageComponent]:
        """What a page of the present state is made of; any element type."""
        ...

    def page(self, *, transposed: bool) -> bytes:
        """The page as it is stored: the exact form."""
        ...

    def archive(self, version: int, path: str, *, transposed: bool) -> bytes:
        """The page as a CKG1 archive of LCG1 or LCG2 segments, by a declared path: the lossy form."""
        ...

    def tail(self) -> bytes:
        """All state that is in no page."""
        ...

    def bring(self, page: bytes, tail: bytes, *, transposed: bool) -> None:
        """Become the session of a page."""
        ...

    def bring_archive(self, data: bytes, tail: bytes, path: str, *, transposed: bool) -> str:
        """Become the session of an archive, decoded into the resident rows by a declared path; the path that ran."""
        ...

    def bring_stored(self, identity: Mapping[str, object], data: bytes, tail: bytes, path: str, wanted: str) -> None:
        """Like `bring_archive` of an entry with a stored codec identity, for an ``exact`` or ``lossy`` lookup."""
        ...

    def step(self, token: int) -> tuple[int, bytes]:
        """Take a token (-1: the likeliest), forward it; the token, and the logits (f32) that it was chosen from."""
        ...

    def cancel_in(self, writes: int) -> None:
        """Break the next import off after so many pieces have been written."""
        ...


class Shelf(Protocol):
    """A folder of pages with the identities of their codecs."""

    def publish(self, key: str, identity: Mapping[str, object], page: bytes, tail: bytes) -> None:
        """Store an entry, whole or not at all."""
        ...

    def find(self, key: str, wanted: str) -> tuple[bytes, bytes] | None:
        """Page and tail of the entry that serves an ``exact`` or a ``lossy`` lookup; None: a miss."""
        ...

    def evict(self) -> int:
        """Evict everything; how many entries went."""
        ...

    def within(self, what: str, ask: Callable[[], object]) -> None:
        """Ask something, once, in the middle of the next ``publish`` or ``find``."""
        ...


class PageEngine(Protocol):
    """The codec and the sessions of one adapter."""

    def open(self, options: Options) -> PageSession:
        """A session on an engine with these options."""
        ...

    def encode_tile(self, values: bytes, rows: int, bins: int, version: int, path: str) -> bytes:
        """The segment of f16 values [rows, channels]."""
        ...

    def shelf(self, folder: Path, budget: int) -> Shelf:
        """Open a folder of pages."""
        ...

    def device_peak(self) -> int:
        """Most bytes of device memory since the last call; 0 where the device is the host."""
        ...


@runtime_checkable
class Paged(Protocol):
    """An adapter with pages."""

    def open_pages(self, options: Options) -> PageEngine:
        """Its pages; the options are those of its engine that hold for all sessions, like ``device``."""
        ...
