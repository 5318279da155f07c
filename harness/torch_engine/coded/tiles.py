"""An archive's tiles of LCG2 as one buffer that is sent to a device once: a table, their maxima, their packed symbols.

A row of the table tells a kernel everything about one tile: where its symbols and maxima lie in the buffer, how many
values it has, and where in the device's memory its rows begin and how far they lie apart. Tiles whose rows are stored
alike follow one another, so that one launch does all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from harness.codec.archive import Record
from harness.codec.bins import BITS, centre_of
from harness.codec.errors import ValueRefusedError
from harness.codec.segments import Segment

Tensor = torch.Tensor
COLUMNS: Final = 8
"""i64 numbers of a tile: first byte of its symbols, first of its maxima, values, channels, bits of a symbol, address of
its rows, and the distance of rows and of channels, in elements of f16 and f32 rows, in bytes of blocked ones."""
SYMBOLS: Final = 32
"""Entries of a table of values."""
ALIGNED: Final = 16
"""Bytes of which each piece begins at a multiple."""
ABOVE_BINS, BEYOND_F16 = 1, 2
"""Bits that a kernel leaves for a tile that it refuses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """Tiles that one launch decodes."""

    element: str
    """``f16``, ``f32``, ``q8_0`` or ``q4_0``."""
    first: int
    count: int
    largest: int
    """Values of the largest tile."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """All tiles of an archive, on the host.

    ``data`` holds, each from a multiple of 16 bytes on: the table i64 [tiles, 8]; u32 zeros [tiles], in which a kernel
    says what it refused; the values of symbols f32 [2, 32]; all maxima f32 [rows]; all packed symbols u8, and at least
    one byte behind them.
    """

    data: npt.NDArray[np.uint8]
    sizes: tuple[int, ...]
    """Bytes of the five pieces of ``data``."""
    records: tuple[int, ...]
    """Of each tile, the place of its record in the archive."""
    launches: tuple[Launch, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sent:
    """A batch on a device: views of one buffer, padded at their ends."""

    table: Tensor
    refused: Tensor
    values: Tensor
    maxima: Tensor
    symbols: Tensor


def gather(placed: Sequence[tuple[Record, Tensor]]) -> Batch:
    """The tiles of LCG2 among some records, with the rows that each fills; nothing is decoded.

    Args:
        placed: as `restoring.Placed.rows`; records of other kinds are left out.
    """
    coded = [
        (record.kind.element, number, record.segment, target)
        for number, (record, target) in enumerate(placed)
        if record.segment is not None and record.segment.version == 2
    ]
    coded.sort(key=lambda one: one[:2])
    segments = [segment for _, _, segment, _ in coded]
    symbols = np.cumsum([0, *(len(segment.payload) for segment in segments)], dtype=np.int64)
    firsts = np.cumsum([0, *(segment.rows for segment in segments)], dtype=np.int64)
    table = np.array(
        [
            (at, first, segment.rows * segment.channels, segment.channels, BITS[segment.bins], *_where(target))
            for at, first, (_, _, segment, target) in zip(symbols[:-1], firsts[:-1], coded, strict=True)
        ],
        np.int64,
    )
    pieces: tuple[Sequence[npt.NDArray[Any]], ...] = (
        [table.reshape(-1)],
        [np.zeros(len(coded), np.uint32)],
        [symbol_values().reshape(-1)],
        [segment.maxima for segment in segments],
        [*(segment.payload for segment in segments), np.zeros(1, np.uint8)],
    )
    padded = [_padded(piece) for piece in pieces]
    return Batch(
        data=np.concatenate([part for piece in padded for part in piece]),
        sizes=tuple(sum(map(len, piece)) for piece in padded),
        records=tuple(number for _, number, _, _ in coded),
        launches=_launches([element for element, _, _, _ in coded], segments),
    )


def _padded(parts: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[np.uint8]]:
    """Their bytes, and zeros up to a multiple of 16: a kernel is compiled once for pointers that are so aligned."""
    size = sum(part.nbytes for part in parts)
    return [*(part.view(np.uint8) for part in parts), np.zeros(-size % ALIGNED, np.uint8)]


def _where(target: Tensor) -> tuple[int, int, int]:
    row, channel = target.stride()
    return target.data_ptr(), row, channel


def _launches(elements: Sequence[str], segments: Sequence[Segment]) -> tuple[Launch, ...]:
    found = []
    for element in dict.fromkeys(elements):
        first, count = elements.index(element), elements.count(element)
        largest = max(one.rows * one.channels for one in segments[first : first + count])
        found.append(Launch(element=element, first=first, count=count, largest=largest))
    return tuple(found)


def symbol_values() -> npt.NDArray[np.float32]:
    """(symbol - centre) / centre, f32 [2, 32], of 16 and of 32 bins; 0 where there is no symbol.

    Made on the host, where a division is one rounding: what is left for a kernel is one product a value.
    """
    made = np.zeros((len(BITS), SYMBOLS), np.float32)
    for row, bins in enumerate(sorted(BITS)):
        centre = np.float32(centre_of(bins))
        made[row, : bins - 1] = (np.arange(bins - 1, dtype=np.float32) - centre) / centre
    return made


def send(batch: Batch, device: torch.device) -> Sent:
    """The batch in one buffer on a device, in one copy."""
    table, refused, values, maxima, symbols = torch.from_numpy(batch.data).to(device).split_with_sizes(batch.sizes)
    return Sent(
        table=table.view(torch.int64),
        refused=refused.view(torch.int32),
        values=values.view(torch.float32),
        maxima=maxima.view(torch.float32),
        symbols=symbols,
    )


def check(batch: Batch, sent: Sent, placed: Sequence[tuple[Record, Tensor]]) -> None:
    """Do nothing if the kernels refused no tile; waits for them.

    Raises:
        ValueRefusedError: a symbol above its bins, or a value outside f16, in the record that is named.
    """
    told = sent.refused[: len(batch.records)].tolist()
    wrong = [(number, found) for number, found in zip(batch.records, told, strict=True) if found]
    if not wrong:
        return
    number, found = min(wrong)
    segment = placed[number][0].segment
    if found & ABOVE_BINS and segment is not None:
        most = 2 * centre_of(segment.bins)
        raise ValueRefusedError(f"record {number}: expected symbols up to {most}, found {most + 1}")
    raise ValueRefusedError(f"record {number}: expected values in the range of f16, found larger ones")
