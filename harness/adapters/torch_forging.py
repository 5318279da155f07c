"""Images whose header contradicts the rest, with every digest made right: what no flipped bit can make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from harness.errors import RefusedError
from harness.model.values import RefusalCode
from harness.torch_engine import store_header
from harness.torch_engine.image import inspect
from harness.torch_engine.image_header import DIGEST_AT, MAGIC, PREFIX, whole_digest

if TYPE_CHECKING:
    from typing_extensions import Buffer

LINK_KEY: Final = "link_key"
"""Forgery of a file of the disk tier: its snapshot has seen a token more than its key says."""
_LINK_POSITION: Final = 13
"""Place in the prefix; see docs/formats/store.md."""
_VERSION, _FLAGS, _POSITION, _PARTS, _TOKENS = 1, 2, 5, 6, 8
"""Places in the prefix; see docs/formats/image.md."""
_UNKNOWN_FLAG, _LOGITS_FLAG = 1 << 20, 1
_FAR_TOKEN: Final = (0x7FFFFFFF).to_bytes(4, "little")


def forged(data: Buffer, what: str) -> bytes:
    """Return an image with one field forged.

    Raises:
        RefusedError: There is no such forgery, nothing to forge, or the image is of a library's own format.
        ImageError: The image is not whole.
        StoreError: The link is none.
    """
    if what == LINK_KEY:
        return _short_key(bytearray(memoryview(data)))
    if what not in _FORGERIES:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"no forgery {what!r}; known are {', '.join(_FORGERIES)}")
    image = bytearray(memoryview(data))
    if not image.startswith(MAGIC):
        raise RefusedError(RefusalCode.UNSUPPORTED, f"an image of another format has no field {what!r} of these")
    info = inspect(image)
    fields = list(PREFIX.unpack_from(image))
    _FORGERIES[what](fields, image, info.header_bytes)
    PREFIX.pack_into(image, 0, *fields[:-1], bytes(32))
    image[DIGEST_AT : PREFIX.size] = whole_digest(memoryview(image)[: info.header_bytes])
    return bytes(image)


def _short_key(link: bytearray) -> bytes:
    fields = list(store_header.PREFIX.unpack_from(link))
    size = store_header.header_length(bytes(link[: store_header.PREFIX.size]), len(link))
    fields[_LINK_POSITION] += 1
    store_header.PREFIX.pack_into(link, 0, *fields)
    at = store_header.DIGEST_AT
    link[at : at + 32] = store_header.whole_digest(memoryview(link)[:size])
    return bytes(link)


def _flags(fields: list[int], _: bytearray, __: int) -> None:
    fields[_FLAGS] |= _UNKNOWN_FLAG


def _logits(fields: list[int], _: bytearray, __: int) -> None:
    fields[_FLAGS] ^= _LOGITS_FLAG


def _position(fields: list[int], _: bytearray, __: int) -> None:
    fields[_POSITION] = fields[_TOKENS] + 1


def _version(fields: list[int], _: bytearray, __: int) -> None:
    fields[_VERSION] = 99


def _parts(fields: list[int], _: bytearray, __: int) -> None:
    fields[_PARTS] -= 1


def _token(fields: list[int], image: bytearray, _: int) -> None:
    """Put a token outside the vocabulary at the end of the history."""
    sizes = (fields[7], fields[9], fields[10])
    if not fields[_TOKENS]:
        raise RefusedError(RefusalCode.MISSING, "no token in this image")
    last = PREFIX.size + sum(sizes) + 4 * (fields[_TOKENS] - 1)
    image[last : last + 4] = _FAR_TOKEN


_FORGERIES: Final[Mapping[str, Callable[[list[int], bytearray, int], None]]] = {
    "flags": _flags,
    "logits": _logits,
    "position": _position,
    "token": _token,
    "version": _version,
    "parts": _parts,
}
