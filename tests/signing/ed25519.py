"""Ed25519 by its definition (RFC 8032), in plain integers: slow, and able to make what no library would sign."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

P: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
"""Of the base point."""
_D: Final = -121665 * pow(121666, -1, P) % P
_ROOT: Final = pow(2, (P - 1) // 4, P)
_TOP: Final = 1 << 255


class Affine(NamedTuple):
    """A point of the curve."""

    x: int
    y: int

    def __add__(self, other: object) -> Affine:
        assert isinstance(other, Affine)
        t = _D * self.x * other.x * self.y * other.y % P
        x = (self.x * other.y + other.x * self.y) * pow(1 + t, -1, P)
        y = (self.y * other.y + self.x * other.x) * pow(1 - t, -1, P)
        return Affine(x % P, y % P)

    def times(self, count: int) -> Affine:
        """This point, added to itself."""
        found, doubled = NEUTRAL, self
        while count:
            if count & 1:
                found = found + doubled
            doubled, count = doubled + doubled, count >> 1
        return found

    def encoded(self) -> bytes:
        """The one encoding that the definition allows."""
        return (self.y | (self.x & 1) << 255).to_bytes(32, "little")

    def encodings(self) -> Iterator[bytes]:
        """Every 32 bytes that a careless reader takes for this point: y not reduced, a sign of zero."""
        signs = (0, 1) if self.x == 0 else (self.x & 1,)
        return ((y | sign << 255).to_bytes(32, "little") for y in (self.y, self.y + P) if y < _TOP for sign in signs)


NEUTRAL: Final = Affine(0, 1)


def with_y(y: int) -> Affine | None:
    """The point with this y and an even x; None where there is none."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * _ROOT % P
    return Affine(P - x if x & 1 else x, y) if (x * x - square) % P == 0 else None


def _base() -> Affine:
    found = with_y(4 * pow(5, -1, P) % P)
    assert found is not None
    return found


def _of_order_8() -> Affine:
    points = (point.times(ORDER) for y in range(2, 100) if (point := with_y(y)) is not None)
    return next(point for point in points if point.times(4) != NEUTRAL)


BASE: Final = _base()
SMALL: Final = _of_order_8()
"""Generates the eight points of small order."""


def challenge(r: bytes, key: bytes, message: bytes) -> int:
    """The number that ties a signature to its key and message."""
    return int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER


class Pair(NamedTuple):
    """Two secret numbers, and what is shown of them: possibly with something of small order added."""

    secret: int
    nonce: int
    key: bytes
    r: bytes

    def s(self, message: bytes) -> int:
        """The second half of the signature."""
        return (self.nonce + challenge(self.r, self.key, message) * self.secret) % ORDER
