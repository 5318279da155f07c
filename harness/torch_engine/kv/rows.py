"""Rows of one element type in their buffers: written and read as values, whatever they are stored as."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.torch_engine.kv.elements import ElementType, Stream
from harness.torch_engine.kv.types import STORED, elements_of


class Rows:
    """The streams of one kind of rows; a slice is a live view.

    Args:
        element: how values are stored.
        tensors: one buffer (capacity, *heads, stream width) for each stream of the type.
    """

    __slots__ = ("_streams", "element", "tensors")

    def __init__(self, element: ElementType, tensors: Sequence[Tensor]) -> None:
        self.element = element
        self.tensors = tuple(tensors)
        self._streams: Sequence[tuple[Stream, Tensor]] | None = None

    @classmethod
    def empty(cls, element: ElementType, shape: tuple[int, ...], device: torch.device, *, zero: bool = False) -> Rows:
        """Memory for rows of values ``shape`` = (capacity, *heads, width); nothing is valid in it.

        Args:
            element: how values are stored.
            shape: dimensions in values.
            device: where the buffers lie.
            zero: whether they are filled with zeros, as places are that may be read before they are written.
        """
        make = torch.zeros if zero else torch.empty
        streams = element.streams(shape[-1])
        sizes = [((*shape[:-1], one.width), STORED[one.element].dtype) for one in streams]
        return cls(element, [make(size, dtype=dtype, device=device) for size, dtype in sizes])

    def streams(self) -> Sequence[tuple[Stream, Tensor]]:
        """Each stream and its buffer."""
        if self._streams is None:
            self._streams = tuple(zip(self.element.streams(self.width), self.tensors, strict=True))
        return self._streams

    @property
    def width(self) -> int:
        """Values of one row and head."""
        return elements_of(self.element.name, tuple(self.tensors[0].shape))[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions in values."""
        return (*self.tensors[0].shape[:-1], self.width)

    @property
    def device(self) -> torch.device:
        """Where the buffers lie."""
        return self.tensors[0].device

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def __getitem__(self, span: slice) -> Rows:
        return Rows(self.element, [tensor[span] for tensor in self.tensors])

    def __setitem__(self, span: slice, values: Tensor) -> None:
        self.put(span, self.encoded(values))

    def encoded(self, values: Tensor) -> Rows:
        """Values as rows of this type, in memory of their own."""
        return Rows(self.element, self.element.encode(values))

    def put(self, span: slice, rows: Rows) -> None:
        """Copy stored rows, as they are, into a span."""
        for tensor, stored in zip(self.tensors, rows.tensors, strict=True):
            tensor[span] = stored

    def float(self) -> Tensor:
        """The values in f32; of f32 rows a live view."""
        return self.element.decode(self.tensors)

    def blocks(self, chosen: Tensor, size: int) -> Tensor:
        """Values (len(chosen) * size, *heads, width) f32 of blocks of ``size`` rows.

        Args:
            chosen: i64 [n], numbers of blocks.
            size: rows of a block.
        """
        whole = len(self) // size
        gathered = [t[: whole * size].view(whole, size, *t.shape[1:]).index_select(0, chosen) for t in self.tensors]
        return self.element.decode(gathered).flatten(0, 1)
