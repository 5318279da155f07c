"""How values become stored rows and back: one object a type, each a function of one row and head alone.

Because nothing depends on a row's neighbours, rows stay rows: what is append-only as f32 is append-only in every type,
and snapshots, deltas, images and the disk tier need not know which one it is. Arithmetic is f32 on every device, and
divides tensor by tensor: a number over a tensor, or on some devices a tensor over a number, is a product with a
reciprocal, which rounds otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.torch_engine.errors import OptionError
from harness.torch_engine.kv.types import STORED

LARGEST_F8 = 448.0
"""Largest number of OCP's e4m3 (``e4m3fn``: no infinity); AMD's ``fnuz`` has the same bytes and other values."""
BLOCK = 32
"""Values of a block of ggml's formats."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One buffer of a type."""

    suffix: str
    """What its part is called beyond the name of the rows: empty, or like ``_scale``."""
    element: str
    """Its own label, one of `kv.types.STORED`."""
    width: int
    """Length of its last dimension, for each head."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type whose values are plain elements; subclasses store them otherwise."""

    name: str

    def check(self, width: int, *, what: str) -> None:
        """Rows of ``width`` values a head can be stored.

        Raises:
            OptionError: they cannot.
        """

    def streams(self, width: int) -> tuple[Stream, ...]:
        """The buffers that hold rows of ``width`` values a head, codes first."""
        return (Stream("", self.name, width),)

    def encode(self, values: Tensor) -> tuple[Tensor, ...]:
        """Values [..., width] to the contents of the streams, [..., stream width] each."""
        return (values.to(STORED[self.name].dtype),)

    def decode(self, stored: Sequence[Tensor]) -> Tensor:
        """What the streams hold, as f32 [..., width]; of f32 itself without a copy."""
        return stored[0].float()


@dataclass(frozen=True, slots=True)
class Float8(ElementType):
    """OCP e4m3, rounded half to even, saturating."""

    def encode(self, values: Tensor) -> tuple[Tensor, ...]:
        """See `ElementType.encode`."""
        kept = values.float().clamp(-LARGEST_F8, LARGEST_F8)
        return (kept.to(torch.float8_e4m3fn).view(torch.uint8),)

    def decode(self, stored: Sequence[Tensor]) -> Tensor:
        """See `ElementType.decode`."""
        return stored[0].view(torch.float8_e4m3fn).float()


@dataclass(frozen=True, slots=True)
class Blocked(ElementType):
    """ggml's blocks of 32 along a head: a scale in f16, then the codes; rounded by the reference rules."""

    def check(self, width: int, *, what: str) -> None:
        """See `ElementType.check`."""
        if width % BLOCK:
            raise OptionError(f"{what}: expected rows in blocks of {BLOCK} for {self.name}, found {width} values")

    def streams(self, width: int) -> tuple[Stream, ...]:
        """See `ElementType.streams`."""
        return (Stream("", self.name, width // BLOCK * STORED[self.name].size),)

    def encode(self, values: Tensor) -> tuple[Tensor, ...]:
        """See `ElementType.encode`."""
        blocks = values.float().reshape(*values.shape[:-1], values.shape[-1] // BLOCK, BLOCK)
        scale, codes = self.quantise(blocks)
        head = scale.half().contiguous().view(torch.uint8)
        return (torch.cat((head, codes), dim=-1).flatten(-2),)

    def decode(self, stored: Sequence[Tensor]) -> Tensor:
        """See `ElementType.decode`."""
        rows, size = stored[0], STORED[self.name].size
        blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // size, size)
        scale = blocks[..., :2].contiguous().view(torch.float16).float()
        return (self.values(blocks[..., 2:]) * scale).flatten(-2)

    def quantise(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Scales f32 [..., 1], not yet rounded, and code bytes u8 [..., size - 2] of f32 [..., 32]."""
        largest = blocks.abs().amax(-1, keepdim=True)
        scale = torch.div(largest, torch.full_like(largest, 127.0))
        return scale, half_away(blocks * inverse(scale)).to(torch.int8).view(torch.uint8)

    def values(self, codes: Tensor) -> Tensor:
        """Code bytes to unscaled values f32 [..., 32]."""
        return codes.contiguous().view(torch.int8).float()


@dataclass(frozen=True, slots=True)
class Nibbles(Blocked):
    """``q4_0``: value j in the low half of byte j, value j + 16 in the high half."""

    def quantise(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """See `Blocked.quantise`."""
        scale = torch.div(self.extreme(blocks) + 0.0, torch.full_like(blocks[..., :1], -8.0))
        codes = (blocks * inverse(scale)).add_(8.5).trunc_().clamp_(max=15.0).to(torch.uint8)
        return scale, self.packed(codes)

    def extreme(self, blocks: Tensor) -> Tensor:
        """The value of the largest magnitude, sign kept, [..., 1]; of equal ones the first."""
        size = blocks.abs()
        place = torch.arange(BLOCK, device=blocks.device).expand_as(blocks)
        largest = size == size.amax(-1, keepdim=True)
        first = torch.where(largest, place, BLOCK).amin(-1, keepdim=True)  # argmax does not promise the first
        return blocks.gather(-1, first.clamp(max=BLOCK - 1))

    def packed(self, codes: Tensor) -> Tensor:
        """Codes u8 [..., 32] of 0..15 to bytes [..., 16]."""
        return codes[..., : BLOCK // 2] | codes[..., BLOCK // 2 :] << 4

    def values(self, codes: Tensor) -> Tensor:
        """See `Blocked.values`."""
        return torch.cat((codes & 15, codes >> 4), dim=-1).float().sub_(8.0)


@dataclass(frozen=True, slots=True)
class Scaled(ElementType):
    """``i8``: codes, and beside them one f32 scale for each row and head, in a stream of its own.

    ``scale = largest magnitude / 127``, codes rounded half away from zero; a row of zeros has scale 0.
    """

    def streams(self, width: int) -> tuple[Stream, ...]:
        """See `ElementType.streams`."""
        return (Stream("", self.name, self.code_bytes(width)), Stream("_scale", "f32", 1))

    def encode(self, values: Tensor) -> tuple[Tensor, ...]:
        """See `ElementType.encode`."""
        given = values.float()
        largest = given.abs().amax(-1, keepdim=True)
        scale = torch.div(largest, torch.full_like(largest, self.reach))
        return self.packed(half_away(given * inverse(scale)).to(torch.int8)), scale

    def decode(self, stored: Sequence[Tensor]) -> Tensor:
        """See `ElementType.decode`."""
        codes, scale = stored
        return self.unpacked(codes).float() * scale

    @property
    def reach(self) -> float:
        """The largest code."""
        return 127.0

    def code_bytes(self, width: int) -> int:
        """Length of the codes of ``width`` values."""
        return width

    def packed(self, codes: Tensor) -> Tensor:
        """Codes i8 [..., width] as they are stored."""
        return codes

    def unpacked(self, stored: Tensor) -> Tensor:
        """The inverse of `packed`, to any integer type."""
        return stored


@dataclass(frozen=True, slots=True)
class ScaledNibbles(Scaled):
    """``i4``: two codes a byte, -7 to 7 plus 8, the earlier value in the low half."""

    def check(self, width: int, *, what: str) -> None:
        """See `ElementType.check`."""
        if width % 2:
            raise OptionError(f"{what}: expected an even number of values for {self.name}, found {width}")

    @property
    def reach(self) -> float:
        """See `Scaled.reach`."""
        return 7.0

    def code_bytes(self, width: int) -> int:
        """See `Scaled.code_bytes`."""
        return width // 2

    def packed(self, codes: Tensor) -> Tensor:
        """See `Scaled.packed`."""
        shifted = (codes + 8).to(torch.uint8)
        return shifted[..., 0::2] | shifted[..., 1::2] << 4

    def unpacked(self, stored: Tensor) -> Tensor:
        """See `Scaled.unpacked`."""
        return torch.stack((stored & 15, stored >> 4), dim=-1).flatten(-2).to(torch.int8) - 8


def half_away(values: Tensor) -> Tensor:
    """Rounded to integers, halves away from zero: what is left of a value, doubled and cut, is -1, 0 or 1."""
    whole = values.trunc()
    return whole + ((values - whole) * 2.0).trunc()


def inverse(scale: Tensor) -> Tensor:
    """``1 / scale``, and 0 where the scale is 0."""
    zero = scale == 0
    return torch.div(torch.ones_like(scale), scale.masked_fill(zero, 1.0)).masked_fill(zero, 0.0)


_ALL = (
    *(ElementType(name) for name in ("f32", "f16", "bf16")),
    Float8("f8_e4m3"),
    Blocked("q8_0"),
    Nibbles("q4_0"),
    Scaled("i8"),
    ScaledNibbles("i4"),
)
ELEMENT_TYPES = {kind.name: kind for kind in _ALL}
"""Every element type by its name, which is also the label of its first stream."""
KV_TYPES = tuple(ELEMENT_TYPES)
"""Element types that K and V rows may have, each on its own."""
RECURRENT_TYPES = ("f32", "bf16", "q8_0")
"""Element types of the recurrent state; arithmetic on it is f32 in all cases."""
CONV_TYPES = ("f32", "f16", "bf16")
"""Element types of convolution windows."""
INDEX_TYPES = ("f32", "f16", "bf16", "f8_e4m3", "q8_0")
"""Element types of index rows, raw and pooled."""


def element(name: str, allowed: Sequence[str] = KV_TYPES, *, what: str = "element type") -> ElementType:
    """The type of a name.

    Raises:
        OptionError: the name is not in ``allowed``; an empty name or a number is no name.
    """
    if name not in allowed:
        raise OptionError(f"{what}: expected one of {tuple(allowed)}, found {name!r}")
    return ELEMENT_TYPES[name]
