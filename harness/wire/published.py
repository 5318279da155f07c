"""Records that others published: JSON of any spelling, numbers kept as they are written.

A published record has floats, nulls and whatever else its writer liked; nothing of it enters a document of ours but
its text. So it is read apart, within limits, and refused by name where its meaning is not one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from harness.errors import InvalidDocumentError

MAX_BYTES: Final = 1024 * 1024
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 12
MAX_DIGITS: Final = 40
"""Of one number, its exponent included."""
MAX_EXPONENT: Final = 30

Published = Mapping[str, object]
"""Values are mappings, lists, strings, booleans, None, integers and exact decimals."""


def read_published(data: bytes, where: str) -> Published:
    """Return what a published record says.

    Args:
        data: Its bytes as published.
        where: What to call it in an error.

    Raises:
        InvalidDocumentError: It is too large or too deep, is no UTF-8, no JSON or no object, has a key twice, or a
            number that is none or that nobody could have measured.
    """
    if len(data) > MAX_BYTES:
        raise InvalidDocumentError(f"found {len(data)} bytes; allowed are {MAX_BYTES}", where=where)
    _require_shallow(data, where)
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_float=_number,
            parse_int=_integer,
            parse_constant=_no_number,
            object_pairs_hook=_no_key_twice,
        )
    except (ValueError, RecursionError) as error:
        raise InvalidDocumentError(f"is no JSON that can be read ({error})", where=where) from None
    if not isinstance(value, dict):
        raise InvalidDocumentError("found no object; a record is one", where=where)
    if _count(value) > MAX_VALUES:
        raise InvalidDocumentError(f"found more than {MAX_VALUES} values", where=where)
    return value


def _require_shallow(data: bytes, where: str) -> None:
    """Refuse what would be deep even if every bracket inside strings counted; published records are flat."""
    depth = 0
    for byte in data:
        if byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise InvalidDocumentError(f"found more than {MAX_DEPTH} containers in one another", where=where)


def _number(text: str) -> Decimal:
    found = Decimal(text) if len(text) <= MAX_DIGITS else None
    if found is None or abs(found.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"found the number {text[:60]}; allowed are {MAX_DIGITS} digits, exponents to {MAX_EXPONENT}")
    return found


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"found an integer of {len(text)} digits; allowed are {MAX_DIGITS}")
    return int(text)


def _no_number(text: str) -> object:
    raise ValueError(f"found {text}, which is no number")


def _no_key_twice(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"found the key {twice[:64]!r} twice in one object")
    return found


def _count(value: object) -> int:
    waiting, found = [value], 0
    while waiting:
        one = waiting.pop()
        found += 1
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return found
