"""The nouns and the errors of a session image, and what must hold of a description.

The tree, with each branch's code:

    ImageError                               root of what an image can be refused for
    ├── ShortBufferError       short_buffer  the buffer holds fewer bytes than the image needs
    ├── ImageFormatError       format        bytes that contradict the format, themselves or a digest
    ├── ImageIdentityError     identity      made by another engine, model or schedule
    ├── KvModeError            kv_mode       other element types than the destination's
    ├── ImageCapacityError     capacity      more tokens or rows than the destination holds
    ├── ImageUnsupportedError  unsupported   a version or element type that this build does not know
    └── ImageStateError        state         a session that contradicts itself cannot be exported
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from harness.torch_engine.errors import CapacityError, SessionStateError, SnapshotError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

ALIGN = 64
"""Alignment of every part, in bytes from the start of the image; bytes in between are zero."""
LOGITS_VALID, OWED_FORWARD, SAMPLER_PRESENT = 1, 2, 4
"""Bits of the flag word."""
MAX_PARTS = 65_536
MAX_DIMENSIONS = 8
MAX_META_BYTES = 1 << 20
MAX_TOKENS = 1 << 28
ELEMENTS = {
    "f64": (8, 1), "f32": (4, 1), "f16": (2, 1), "bf16": (2, 1), "f8_e4m3": (1, 1), "f8_e5m2": (1, 1),
    "i64": (8, 1), "i32": (4, 1), "i16": (2, 1), "i8": (1, 1), "u8": (1, 1), "bool": (1, 1),
    "q8_0": (34, 32), "q4_0": (18, 32), "i4": (1, 2),
}  # fmt: skip
"""Element type to bytes of one block and elements in it."""

Identity = Mapping[str, str | int | bool]


class ImageError(SnapshotError):
    """Root of what an image can be refused for."""

    code: ClassVar[str] = "image"


class ShortBufferError(ImageError):
    """The buffer holds fewer bytes than the image needs; nothing was written."""

    code: ClassVar[str] = "short_buffer"


class ImageFormatError(ImageError):
    """The bytes contradict the format, themselves or one of their digests."""

    code: ClassVar[str] = "format"


class ImageIdentityError(ImageError):
    """The image comes from another engine, model or schedule."""

    code: ClassVar[str] = "identity"


class KvModeError(ImageError):
    """The image's element types are not the destination's."""

    code: ClassVar[str] = "kv_mode"


class ImageCapacityError(ImageError, CapacityError):
    """The image holds more tokens or rows than the destination can."""

    code: ClassVar[str] = "capacity"


class ImageUnsupportedError(ImageError, UnsupportedError):
    """A version or element type that this build does not know, or a state without parts."""

    code: ClassVar[str] = "unsupported"


class ImageStateError(ImageError, SessionStateError):
    """A description that contradicts itself or its parts; nothing was written."""

    code: ClassVar[str] = "state"


class PartKind(IntEnum):
    """How a part grows."""

    FIXED = 0
    """Overwritten in place."""
    ROWS = 1
    """Append-only rows; the first dimension is their number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSpec:
    """What one part is, without its bytes."""

    name: str
    """Unique in its image, like ``layer3.k``; 1..65,535 bytes of UTF-8."""
    family: str
    """State family, like ``kv``."""
    layer: int
    """Layer index from 0, or -1 for a part of no layer."""
    element_type: str
    """A name of `ELEMENTS`."""
    kind: PartKind
    """Whether the first dimension counts rows."""
    shape: tuple[int, ...]
    """Valid dimensions in elements."""

    @property
    def nbytes(self) -> int:
        """Bytes of the valid elements.

        Raises:
            ImageUnsupportedError: an unknown element type.
            ImageStateError: the last dimension is not a multiple of the type's block.
        """
        size, block = block_of(self.element_type, where=self.name)
        if block > 1 and (not self.shape or self.shape[-1] % block):
            raise ImageStateError(f"{self.name}: expected a last dimension in blocks of {block}, found {self.shape}")
        return math.prod(self.shape) // block * size

    @property
    def rows(self) -> int:
        """Valid rows of a row stream; 0 for a fixed part."""
        return self.shape[0] if self.kind is PartKind.ROWS else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageDescription:
    """What a session says of itself: everything in an image but the parts' bytes."""

    identity: Identity
    """Engine, model, schedule and element types; every field that changes bits."""
    position: int
    """Tokens forwarded."""
    history: tuple[int, ...] | None
    """Token ids known, forwarded ones first; what follows ``position`` is owed. None only in version 1."""
    meta: bytes = field(repr=False)
    """Part 0, opaque here."""
    logits_valid: bool
    """Whether the logits part holds the logits after the last forwarded token."""
    owed_forward: bool
    """Whether tokens are known that have not been forwarded."""
    sampler_present: bool
    """Whether the sampler parts hold the state of a seeded generator."""
    parts: tuple[PartSpec, ...]
    """All parts, in the order of their bytes."""

    @property
    def flags(self) -> int:
        """The flag word."""
        return (
            self.logits_valid * LOGITS_VALID | self.owed_forward * OWED_FORWARD | self.sampler_present * SAMPLER_PRESENT
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PartEntry:
    """Where a part lies in an image and what its bytes hash to."""

    spec: PartSpec
    """What it is."""
    nbytes: int
    """Its size in bytes."""
    offset: int
    """Its first byte, from the start of the image."""
    sha256: bytes = field(repr=False)
    """SHA-256 over exactly its bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageInfo:
    """An image's header, checked."""

    version: int
    """1 or 2."""
    total_bytes: int
    """Size of the image."""
    header_bytes: int
    """Bytes before the first part."""
    sha256: bytes = field(repr=False)
    """The whole digest: SHA-256 over the header, which holds all part digests, with this field zero."""
    description: ImageDescription
    """What the session said of itself."""
    parts: tuple[PartEntry, ...]
    """The parts in the order of their bytes."""


def block_of(element_type: str, *, where: str) -> tuple[int, int]:
    """Bytes of a block and the elements in it.

    Raises:
        ImageUnsupportedError: the name is unknown.
    """
    if element_type not in ELEMENTS:
        raise ImageUnsupportedError(f"{where}: expected an element type of {sorted(ELEMENTS)}, found {element_type!r}")
    return ELEMENTS[element_type]


def aligned(offset: int, align: int = ALIGN) -> int:
    """The first multiple of ``align`` from ``offset`` on."""
    return -(-offset // align) * align


def flat(buffer: Buffer) -> memoryview:
    """A buffer's bytes as a flat view, without a copy.

    Raises:
        ImageStateError: the buffer is not contiguous.
    """
    view = memoryview(buffer)
    if view.nbytes == 0:
        return memoryview(bytearray())
    if not view.c_contiguous:
        raise ImageStateError("buffer: expected a contiguous one, found strides")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


# -- checks ------------------------------------------------------------------------------------


def contradiction(about: ImageDescription) -> str:
    """The first way in which a description contradicts itself, or an empty text."""
    families = {part.family for part in about.parts}
    known = about.position if about.history is None else len(about.history)
    owed = known - about.position
    claims = (
        (
            0 <= about.position <= known <= MAX_TOKENS,
            f"history: expected {about.position} tokens or more, found {known}",
        ),
        (about.owed_forward == (owed > 0), f"flags: owed forward is {about.owed_forward} with {owed} tokens owed"),
        (not about.logits_valid or "logits" in families, "flags: expected a logits part where logits are valid"),
        (not about.logits_valid or about.position > 0, "flags: expected no valid logits before the first token"),
        (not about.sampler_present or "sampler" in families, "flags: expected a sampler part where one is present"),
        (len({part.name for part in about.parts}) == len(about.parts), "parts: expected unique names"),
    )
    return next((text for holds, text in claims if not holds), "")


def check_description(about: ImageDescription) -> None:
    """What must hold before a session is exported.

    Raises:
        ImageUnsupportedError: there is no state to export, or an unknown element type.
        ImageStateError: a contradiction or a value that the format cannot hold.
    """
    if not about.parts:
        raise ImageUnsupportedError("parts: expected a model with decoding state, found no part")
    if about.history is None:
        raise ImageStateError("history: expected the tokens forwarded, found none")
    text = contradiction(about)
    if not text and len(about.meta) > MAX_META_BYTES:
        text = f"meta: expected at most {MAX_META_BYTES} bytes, found {len(about.meta)}"
    if not text and len(about.parts) > MAX_PARTS:
        text = f"parts: expected at most {MAX_PARTS}, found {len(about.parts)}"
    if not text and about.history and not (min(about.history) >= 0 and max(about.history) < 1 << 32):
        text = "history: expected token ids of 32 bits"
    if text:
        raise ImageStateError(text)
    for part in about.parts:
        _check_spec(part)


def _check_spec(part: PartSpec) -> None:
    texts = (part.name, part.family, part.element_type)
    limits = (65_535, 255, 255)
    sizes = [len(text.encode()) for text in texts]
    if not all(0 < size <= limit for size, limit in zip(sizes, limits, strict=True)):
        raise ImageStateError(f"{part.name!r}: expected 1..{limits} bytes of name, family and type, found {sizes}")
    least = int(part.kind is PartKind.ROWS)
    if not least <= len(part.shape) <= MAX_DIMENSIONS or not all(0 <= size < 1 << 62 for size in part.shape):
        raise ImageStateError(f"{part.name}: expected {least}..{MAX_DIMENSIONS} dimensions, found {part.shape}")
    if not -1 <= part.layer < 1 << 31:
        raise ImageStateError(f"{part.name}: expected a layer from -1 on, found {part.layer}")
    if part.nbytes >= 1 << 62:
        raise ImageStateError(f"{part.name}: expected fewer bytes, found {part.nbytes}")
