"""An archive decoded straight into resident K/V buffers: validated whole, then written, without a decoded copy.

The path is declared. ``torch`` and ``triton`` decode on the device of the buffers: ``triton`` all tiles of an archive
in one batch, ``torch`` as many together as pays. A path of `harness.codec.paths` (``compiled``, ``numpy``, ``oracle``)
decodes each tile on the host, streams and values both, and copies it into its rows. What is told as the path that ran
is what did all of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from harness.codec import blocks
from harness.codec.archive import MAX_PAGE, Archive, Record, read_archive
from harness.codec.bins import BITS
from harness.codec.errors import GeometryError, PathError
from harness.codec.paths import Coder, coder, half_values, quantised_blocks
from harness.codec.segments import Segment
from harness.torch_engine.coded import lockstep, packing
from harness.torch_engine.kv.elements import ELEMENT_TYPES

Tensor = torch.Tensor
TORCH = "torch"
"""The path that runs on the device of the buffers."""
TRITON = "triton"
"""The path of CUDA and ROCm that decodes LCG2 in kernels of its own."""
INTERPRETED: Final = "triton_interpreted"
"""The same kernels in Triton's interpreter, on the CPU; a path of its own, so that nobody takes one for the other."""


HOST: Final = ("compiled", "numpy", "oracle")
"""Paths that decode a tile on the host."""
ON_HOST: Final = 1 << 18
"""Values that ``torch`` decodes together on a CPU: what its caches hold."""
ON_DEVICE: Final = 1 << 22
"""The same on a device, where a call costs as much for one value as for some thousands; some 64 MiB of its memory."""
Rows = Sequence[tuple[Record, Tensor]]
"""Validated records, each with the rows that it fills."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A validated archive and the rows that each of its records fills; nothing has been written."""

    archive: Archive
    rows: Rows


def import_page(
    data: bytes | memoryview, targets: Sequence[Tensor], *, limit: int = MAX_PAGE, path: str = TORCH
) -> int:
    """Decode an archive into the buffers of a page: `place`, then `fill`.

    Returns:
        Bytes of the page.

    Raises:
        CodecError: the archive is not valid, or does not fit the buffers.
    """
    placed = place(data, targets, limit=limit)
    fill(placed, path)
    return placed.archive.raw


def place(data: bytes | memoryview, targets: Sequence[Tensor], *, limit: int = MAX_PAGE) -> Placed:
    """Validate an archive whole and match it with every buffer. Nothing is written.

    Args:
        data: a CKG1 archive.
        targets: the page's pieces in its order: one tensor per coded layer, [tokens, channels] of f16 or f32 (of a
            transposed layer: its view with these axes), or u8 [tokens, row bytes] of a blocked type; and u8 [bytes] for
            exact bytes. Any strides, any device.
        limit: bytes of the decoded page that the caller can take.

    Raises:
        CodecError: the archive is not valid, or does not fit the buffers.
    """
    archive = read_archive(data, limit=limit)
    return Placed(archive, _placed(archive.records, targets))


def fill(placed: Placed, path: str = TORCH, *, wrote: Callable[[int], None] | None = None) -> str:
    """Decode what was placed into its rows.

    A symbol outside its bins is found while tiles are decoded, so a refusal can leave others written: the caller resets
    what it imports into.

    Args:
        placed: from `place`.
        path: what decodes: ``torch`` or ``triton`` (in its interpreter: ``triton_interpreted``) on the device of the
            buffers, or a path of `harness.codec.paths` on the host. ``triton`` has kernels for LCG2 alone.
        wrote: told of each record how many are written with it; may raise to break off. Of records that are decoded
            together it is told when all of them are written.

    Returns:
        The path that ran.

    Raises:
        CodecError: a symbol outside its bins, a value outside f16, or a path that is not there (nothing is written).
    """
    if path not in (TORCH, TRITON, INTERPRETED, *HOST):
        raise PathError(f"path: expected {TORCH}, {TRITON} or one of {', '.join(HOST)}, found {path!r}")
    device = placed.rows[0][1].device if placed.rows else torch.device("cpu")
    if path in HOST:
        host = coder(path)
        ran, steps = host.name, _by_host(placed.rows, host)
    else:
        ran = require_path(path, device)
        steps = _by_torch(placed.rows, device) if path == TORCH else _by_triton(placed.rows, device)
    written = 0
    for many in steps:
        for _ in range(many):
            written += 1
            if wrote is not None:
                wrote(written)
    return ran


def fits(archive: Archive, targets: Sequence[Tensor]) -> None:
    """Do nothing if a validated archive fits the buffers of a page.

    Raises:
        GeometryError: it does not.
    """
    _placed(archive.records, targets)


def _placed(records: Sequence[Record], targets: Sequence[Tensor]) -> list[tuple[Record, Tensor]]:
    """Every record with the rows that it fills."""
    starts, at = [], 0
    for target in targets:
        starts.append(at)
        at += target.numel() * target.element_size()
    placed, index = [], 0
    for number, record in enumerate(records):
        while index + 1 < len(targets) and record.offset >= starts[index + 1]:
            index += 1
        if index >= len(targets):
            raise GeometryError(
                f"record {number}: expected one of {len(targets)} buffers, found none at {record.offset}"
            )
        placed.append((record, _rows(record, targets[index], record.offset - starts[index], f"record {number}")))
    filled = sum(record.decoded for record in records)
    if filled != at:
        raise GeometryError(f"buffers: expected {filled} bytes as the archive has, found {at}")
    return placed


def _rows(record: Record, target: Tensor, inside: int, where: str) -> Tensor:
    if record.segment is None:
        if target.dtype != torch.uint8 or target.dim() != 1:
            raise GeometryError(f"{where}: expected a u8 buffer for exact bytes, found {target.dtype}")
        return target[inside : inside + record.decoded]
    blocked = record.kind.element in blocks.BLOCK_BYTES
    dtype = torch.uint8 if blocked else {"f16": torch.float16, "f32": torch.float32}[record.kind.element]
    width = blocks.row_bytes(record.kind.element, record.segment.channels) if blocked else record.segment.channels
    if target.dtype != dtype or target.dim() != 2 or target.shape[1] != width:
        raise GeometryError(f"{where}: expected rows of {width} {dtype}, found {tuple(target.shape)} of {target.dtype}")
    first = record.start if record.kind.transposed else inside // (width * target.element_size())
    if first + record.tokens > len(target):
        raise GeometryError(f"{where}: expected tokens up to {len(target)}, found {first} + {record.tokens}")
    return target[first : first + record.tokens]


def _by_host(rows: Rows, path: Coder) -> Iterator[int]:
    """Every record decoded on the host; how many each step has written."""
    for record, target in rows:
        if record.segment is None:
            _exact(record, target)
        else:
            values: npt.NDArray[Any] = half_values(record.segment, path=path)
            if record.kind.element in blocks.BLOCK_BYTES:
                values = quantised_blocks(record.kind.element, values.astype(np.float32), path=path)
            target.copy_(torch.from_numpy(values))
        yield 1


def _by_triton(rows: Rows, device: torch.device) -> Iterator[int]:
    """Exact bytes, then everything coded in one batch."""
    from harness.torch_engine.coded import triton_kernels

    if any(record.segment is not None and record.segment.version != 2 for record, _ in rows):
        raise PathError("path triton: expected segments of version 2, found version 1; declare torch for it")
    coded = [one for one in rows if one[0].segment is not None]
    for record, target in rows:
        if record.segment is None:
            _exact(record, target)
            yield 1
    triton_kernels.restore(rows, device)
    yield len(coded)


def _by_torch(rows: Rows, device: torch.device) -> Iterator[int]:
    """Tiles of LCG2 in runs that are decoded together; symbols of LCG1 side by side, some tiles ahead."""
    coded = [record.segment for record, _ in rows if record.segment is not None]
    symbols = _symbols([segment for segment in coded if segment.version == 1], device)
    for run in runs(rows, ON_HOST if device.type == "cpu" else ON_DEVICE):
        record, target = run[0]
        if record.segment is None:
            _exact(record, target)
        else:
            _decode_run([(one.segment, place) for one, place in run if one.segment], record.kind.element, symbols)
        yield len(run)


def runs(rows: Rows, at_once: int) -> Iterator[Rows]:
    """Records that are decoded together, in their order: neighbours of LCG2 alike in type, bins and channels.

    Each but the last of a run ends with a whole byte, so that its symbols continue in the next one's. A run has at most
    ``at_once`` values; a larger tile is a run by itself.
    """
    run: list[tuple[Record, Tensor]] = []
    values = 0
    for record, target in rows:
        more = record.segment.rows * record.segment.channels if record.segment else 0
        if run and not (_continues(run[-1][0], record) and values + more <= at_once):
            yield run
            run, values = [], 0
        run.append((record, target))
        values += more
    if run:
        yield run


def _continues(before: Record, after: Record) -> bool:
    one, other = before.segment, after.segment
    if one is None or other is None or (one.version, other.version) != (2, 2):
        return False
    alike = (one.bins, one.channels, before.kind.element) == (other.bins, other.channels, after.kind.element)
    return alike and one.rows * one.channels * BITS[one.bins] % 8 == 0


def _exact(record: Record, target: Tensor) -> None:
    target.copy_(torch.frombuffer(bytearray(record.payload), dtype=torch.uint8))


def _symbols(segments: Sequence[Segment], device: torch.device) -> Iterator[Tensor]:
    """Symbols of each segment of LCG1 in order; decoded when they are asked for, some segments ahead."""
    for run in lockstep.batches(segments):
        yield from lockstep.decode_side_by_side(run, device)


def _decode_run(run: Sequence[tuple[Segment, Tensor]], element: str, symbols: Iterator[Tensor]) -> None:
    """A run of LCG2, or one tile of LCG1; blocks are quantised where their values lie."""
    first, target = run[0]
    maxima = _sent([segment.maxima for segment, _ in run], target.device)
    targets = [rows for _, rows in run]
    blocked = element in blocks.BLOCK_BYTES
    values = [torch.empty((len(maxima), first.channels), device=target.device)] if blocked else targets
    if first.version == 2:
        packed = _sent([segment.payload for segment, _ in run], target.device)
        packing.restore_together(packed, maxima, first.bins, values)
    else:
        packing.dequantise_into(next(symbols), maxima, first.bins, values[0])
    if blocked:
        (packed_rows,) = ELEMENT_TYPES[element].encode(values[0])
        packing.copy_rows(packed_rows, targets)


def _sent(parts: Sequence[npt.NDArray[Any]], device: torch.device) -> Tensor:
    """Arrays one after another on a device, in one copy."""
    return torch.from_numpy(np.concatenate(parts)).to(device)


def require_path(path: str, device: torch.device) -> str:
    """Return what a declared path runs as here; no other one takes its place.

    Returns:
        ``torch``, ``triton``, or ``triton_interpreted`` where Triton's interpreter runs it.

    Raises:
        PathError: it cannot.
    """
    if path not in (TORCH, TRITON, INTERPRETED):
        raise PathError(f"path: expected {TORCH} or {TRITON}, found {path!r}")
    if path == TORCH:
        return path
    if importlib.util.find_spec("triton") is None:
        raise PathError(
            "path triton: expected the library triton, found none; install statecert[triton] or declare torch"
        )
    from harness.torch_engine.coded import triton_kernels

    if device.type != "cuda" and not triton_kernels.INTERPRETED:
        raise PathError(
            f"path triton: expected a CUDA or ROCm device, found {device.type}; TRITON_INTERPRET=1 runs it on cpu"
        )
    if device.type != "cpu" and triton_kernels.INTERPRETED:
        raise PathError(
            f"path triton: expected cpu, where TRITON_INTERPRET=1 runs it, found {device.type}; unset it for {TRITON}"
        )
    if path == INTERPRETED and not triton_kernels.INTERPRETED:
        raise PathError(f"path {INTERPRETED}: expected TRITON_INTERPRET=1, found none; declare {TRITON}")
    return INTERPRETED if triton_kernels.INTERPRETED else TRITON
