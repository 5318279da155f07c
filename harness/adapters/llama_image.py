"""Session images around llama.cpp's own state: a container that adds what the state lacks, and nothing else.

The state has neither the pending logits nor the tokens, so the container carries both. It carries no digest on purpose:
what llama.cpp accepts is what is qualified. With a guard it holds the digest of the model and of everything behind the
header, which is what a serving layer must add itself.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.errors import RefusedError
from harness.model.values import RefusalCode

MAGIC: Final = b"LCSESSI1"
_HEAD: Final = struct.Struct("<8s3Q32s32s")
_NONE: Final = bytes(32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A whole session outside of its context."""

    tokens: Sequence[int]
    logits: bytes
    """Empty: none are pending."""
    blob: bytes
    """As llama.cpp wrote it."""


def packed(saved: Saved, model: str, *, guard: bool) -> bytes:
    """Return an image.

    Args:
        saved: What it holds.
        model: SHA-256 of the model file.
        guard: Whether it holds digests.
    """
    tokens = array("i", saved.tokens).tobytes()
    body = b"".join((tokens, saved.logits, saved.blob))
    digests = (bytes.fromhex(model), hashlib.sha256(body).digest()) if guard else (_NONE, _NONE)
    return _HEAD.pack(MAGIC, len(tokens), len(saved.logits), len(saved.blob), *digests) + body


def unpacked(image: bytes, model: str, *, guard: bool) -> Saved:
    """Take an image apart.

    Raises:
        RefusedError: ``short_buffer``, ``format``; with a guard also ``identity``.
    """
    if len(image) < _HEAD.size:
        raise RefusedError(RefusalCode.SHORT_BUFFER, f"found {len(image)} bytes; a header has {_HEAD.size}")
    magic, tokens, logits, blob, whose, digest = _HEAD.unpack_from(image)
    if magic != MAGIC or tokens % 4:
        raise RefusedError(RefusalCode.FORMAT, f"found {magic!r}; expected {MAGIC!r}")
    body = image[_HEAD.size :]
    if len(body) != tokens + logits + blob:
        code = RefusalCode.SHORT_BUFFER if len(body) < tokens + logits + blob else RefusalCode.FORMAT
        raise RefusedError(code, f"found {len(body)} bytes behind the header; expected {tokens + logits + blob}")
    if guard and hashlib.sha256(body).digest() != digest:
        raise RefusedError(RefusalCode.FORMAT, "the bytes are not those that were saved")
    if guard and whose != bytes.fromhex(model):
        raise RefusedError(RefusalCode.IDENTITY, "the image is of another model")
    ids = array("i")
    ids.frombytes(body[:tokens])
    return Saved(tokens=ids.tolist(), logits=body[tokens : tokens + logits], blob=body[tokens + logits :])


def size(tokens: int, logits: int, blob: int) -> int:
    """Bytes of an image of so many tokens, bytes of logits and bytes of state."""
    return _HEAD.size + 4 * tokens + logits + blob
