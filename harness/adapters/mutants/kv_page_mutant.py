"""What page mutants share: an adapter whose pages have one planted fault, and archives written again.

The campaign ``kv`` must stop every one of them at the entry that it names. The mutants themselves lie beside this file
by what their fault is in: the coder, the archive, the shelf and its identities, element types, the matrix as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.adapters.torch_adapter import TorchAdapter
from harness.adapters.torch_pages import TorchPages
from harness.codec.archive import Archive, Record
from harness.engines.interface import Options
from harness.torch_engine.coded.shelf import PageShelf
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.pages import Pager

HEAD: Final = struct.Struct("<4sQI")
RECORD: Final = struct.Struct("<BBHQQQQQQ")


@dataclass(frozen=True, slots=True)
class Caught:
    """The entry that must fail, and the probe in it; or the reason that every cell of a small matrix must give."""

    entry: str
    probe: str
    model: str = ""
    """The model of that matrix; empty: it is a probe."""


class PageMutant(TorchAdapter):
    """An adapter whose pages have one fault: in one of these classes, or in what puts them together."""

    mutant_id: ClassVar[str] = ""
    caught_by: ClassVar[Caught]
    pages: ClassVar[type[TorchPages]] = TorchPages
    pager: ClassVar[type[Pager]] = Pager
    engine: ClassVar[type[TorchEngine]] = TorchEngine
    shelf: ClassVar[type[PageShelf]] = PageShelf

    def open_pages(self, options: Options) -> TorchPages:
        """Pages of these classes."""
        return self.pages(options, pager=self.pager, engine=self.engine, shelf=self.shelf)


def written_again(archive: Archive, change: Callable[[Record], bytes]) -> bytes:
    """An archive whose payloads are what ``change`` makes of its records; offsets and counts stay."""
    made = []
    for one in archive.records:
        payload = change(one)
        made.append(RECORD.pack(*head_of(one), len(payload)) + payload)
    return HEAD.pack(b"CKG1", archive.raw, len(made)) + b"".join(made)


def head_of(record: Record) -> tuple[int, ...]:
    """The members of a record's head, but for the last one."""
    kind = record.kind
    return kind.number, kind.size, 0, record.offset, record.decoded, record.tokens, record.start, record.total
