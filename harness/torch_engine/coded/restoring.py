"""An archive decoded straight into resident K/V buffers: validated whole, then tile by tile, without a host copy.

The path is declared. ``torch`` and ``triton`` decode on the device of the buffers; a path of `harness.codec.paths`
(``compiled``, ``numpy``, ``oracle``) decodes each tile on the host, streams and values both, and copies it into its
rows. What is told as the path that ran is what did all of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from harness.codec import blocks
from harness.codec.archive import MAX_PAGE, Archive, Record, read_archive
from harness.codec.errors import GeometryError, PathError
from harness.codec.paths import Coder, coder, half_values, quantised_blocks
from harness.codec.segments import Segment
from harness.torch_engine.coded import lockstep, packing
from harness.torch_engine.kv.elements import ELEMENT_TYPES

Tensor = torch.Tensor
TORCH = "torch"
"""The path that runs on the device of the buffers."""
TRITON = "triton"
"""The path of CUDA and ROCm that decodes LCG2 in a kernel of its own."""
INTERPRETED: Final = "triton_interpreted"
"""The same kernel in Triton's interpreter, on any device; a path of its own, so that nobody takes one for the other."""


HOST: Final = ("compiled", "numpy", "oracle")
"""Paths that decode a tile on the host."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A validated archive and the rows that each of its records fills; nothing has been written."""

    archive: Archive
    rows: Sequence[tuple[Record, Tensor]]


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
    """Decode what was placed into its rows, tile by tile.

    A symbol outside its bins is found per tile, so a refusal can leave earlier tiles written: the caller resets what it
    imports into.

    Args:
        placed: from `place`.
        path: what decodes: ``torch`` or ``triton`` (in its interpreter: ``triton_interpreted``) on the device of the
            buffers, or a path of `harness.codec.paths` on the host. ``triton`` has a kernel for LCG2 alone.
        wrote: told after each record how many are written; may raise to break off.

    Returns:
        The path that ran.

    Raises:
        CodecError: a symbol outside its bins, a value outside f16, or a path that is not there (nothing is written).
    """
    if path not in (TORCH, TRITON, INTERPRETED, *HOST):
        raise PathError(f"path: expected {TORCH}, {TRITON} or one of {', '.join(HOST)}, found {path!r}")
    device = placed.rows[0][1].device if placed.rows else torch.device("cpu")
    host = coder(path) if path in HOST else None
    coded = [record.segment for record, _ in placed.rows if record.segment is not None]
    first = [segment for segment in coded if segment.version == 1]
    symbols = _symbols(first, device) if host is None else iter(())
    ran = host.name if host is not None else require_path(path, device)
    for count, (record, target) in enumerate(placed.rows, start=1):
        if record.segment is None:
            target.copy_(torch.frombuffer(bytearray(record.payload), dtype=torch.uint8))
        elif host is not None:
            _fill_from_host(record, record.segment, target, host)
        else:
            _fill_on_device(record, record.segment, target, path, symbols)
        if wrote is not None:
            wrote(count)
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


def _symbols(segments: Sequence[Segment], device: torch.device) -> Iterator[Tensor]:
    """Symbols of each segment of LCG1 in order; decoded when they are asked for, some segments ahead."""
    for run in lockstep.batches(segments):
        yield from lockstep.decode_side_by_side(run, device)


def _fill_from_host(record: Record, segment: Segment, target: Tensor, path: Coder) -> None:
    values = half_values(segment, path=path)
    if record.kind.element in blocks.BLOCK_BYTES:
        packed = quantised_blocks(record.kind.element, values.astype(np.float32), path=path)
        target.copy_(torch.from_numpy(packed))
        return
    target.copy_(torch.from_numpy(values))


def _fill_on_device(record: Record, segment: Segment, target: Tensor, path: str, symbols: Iterator[Tensor]) -> None:
    device = target.device
    maxima = torch.from_numpy(np.array(segment.maxima)).to(device)
    blocked = record.kind.element in blocks.BLOCK_BYTES
    values = torch.empty((segment.rows, segment.channels), device=device) if blocked else target  # one tile of them
    if segment.version == 2:
        packed = torch.from_numpy(np.array(segment.payload)).to(device)
        _restore_of(path)(packed, maxima, segment.bins, values)
    elif path != TORCH:
        raise PathError("path triton: expected segments of version 2, found version 1; declare torch for it")
    else:
        packing.dequantise_into(next(symbols), maxima, segment.bins, values)
    if blocked:
        (packed_rows,) = ELEMENT_TYPES[record.kind.element].encode(values)
        target.copy_(packed_rows)


def _restore_of(path: str) -> Callable[[Tensor, Tensor, int, Tensor], None]:
    if path == TORCH:
        return packing.restore_into
    from harness.torch_engine.coded import triton_kernels

    return triton_kernels.restore_into


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
            f"path triton: expected a CUDA or ROCm device, found {device.type}; TRITON_INTERPRET=1 runs it there"
        )
    if path == INTERPRETED and not triton_kernels.INTERPRETED:
        raise PathError(f"path {INTERPRETED}: expected TRITON_INTERPRET=1, found none; declare {TRITON}")
    return INTERPRETED if triton_kernels.INTERPRETED else TRITON
