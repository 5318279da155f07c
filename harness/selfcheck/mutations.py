"""Changes to documents, drawn from a seed: of bytes, of lines, and of values that keep their shape. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

HOSTILE: Final = (
    "",
    "\x00",
    "\ud800",
    "</script><script>alert(1)</script>",
    "--><!-- qual:end -->",
    "::error::owned",
    "\r::stop-commands::x",
    "\x1b[2J\x1b]8;;https://example.org\x07",
    "abc\u202egnp\u2066\u200b\ufeff",
    "=cmd|' /C calc'!A0",
    "../../../etc/passwd",
    "a" * 70_000,
    "\u00e9",
    "e\u0301",
    "current",
    "pass",
    "stop",
    "0" * 64,
    "2026-13-45T99:99:99Z",
    "9999-12-31T23:59:59Z",
    "harness.mutants",
    "A01",
)
NUMBERS: Final = (0, 1, -1, 2, 255, 256, 2**31, 2**32, 2**53 - 1, 2**53, -(2**53), 2**63, 2**64, 10**19, 10**400)
RAW: Final = (
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"1.0",
    b"-0",
    b"01",
    b"1" * 5001,
    b"[" * 100_000,
    b'{"a":' * 3_000,
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc0\xaf",
    b"\\ud800",
    b"\x00",
    b"\r\n",
    b'"decision":"pass",',
    b"[]," * 2_000,
)


def of_bytes(rng: Random, data: bytes, other: bytes) -> bytes:
    """Return other bytes: one to four changes that know nothing of what they change."""
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_BYTE_CHANGES)(rng, data, other)
    return data


def _flip(rng: Random, data: bytes, _: bytes) -> bytes:
    if not data:
        return b"\x00"
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _replace(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _insert(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(RAW) + data[at:]


def _cut(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 2, 16, 300, 1 << 30)) :]


def _twice(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.choice((1, 8, 64, 1024))]
    return data[:at] + piece * rng.choice((2, 3, 40)) + data[at:]


def _spliced(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _lines(rng: Random, data: bytes, other: bytes) -> bytes:
    lines, strange = data.split(b"\n"), other.split(b"\n")
    at = rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(at, lines[at])
    elif how == 2:
        there = rng.randrange(len(lines))
        lines[at], lines[there] = lines[there], lines[at]
    else:
        lines[at] = rng.choice(strange)
    return b"\n".join(lines)


_BYTE_CHANGES: Final[Sequence[Callable[[Random, bytes, bytes], bytes]]] = (
    _flip,
    _flip,
    _replace,
    _insert,
    _cut,
    _twice,
    _spliced,
    _lines,
    _lines,
)


def of_value(rng: Random, value: object) -> object:
    """Return another value of much the same shape: one to three changes, each at one place."""
    for _ in range(rng.randint(1, 3)):
        places = list(_places(value))
        path = rng.choice(places)
        value = _changed(value, path, lambda old: _other(rng, old))
    return value


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:40]):
            found += _places(item, (*path, index))
    return found


def _changed(value: object, path: Sequence[str | int], change: Callable[[object], object]) -> object:
    if not path:
        return change(value)
    step, *rest = path
    if isinstance(value, dict):
        return {key: _changed(item, rest, change) if key == step else item for key, item in value.items()}
    if isinstance(value, list):
        return [_changed(item, rest, change) if index == step else item for index, item in enumerate(value)]
    return value


def _other(rng: Random, old: object) -> object:
    how = rng.randrange(10)
    if how == 0:
        return rng.choice(HOSTILE)
    if how == 1:
        return rng.choice(NUMBERS)
    if how == 2:
        return rng.choice((True, False, [], {}, [[]], {"a": {}}))
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + rng.choice((-1, 1, 2, 1000, -old, old))
    if isinstance(old, str):
        return _other_text(rng, old)
    if isinstance(old, list):
        return _other_list(rng, old)
    if isinstance(old, dict):
        return _other_mapping(rng, old)
    return old


def _other_text(rng: Random, old: str) -> str:
    at = rng.randrange(len(old) + 1)
    how = rng.randrange(4)
    if how == 0:
        return old[:at] + rng.choice(HOSTILE[:11]) + old[at:]
    if how == 1:
        return old[:at] + old[at + 1 :]
    if how == 2 and old:
        return old[:at] + rng.choice("0123456789abcdef/.-_[]=,") + old[at + 1 :]
    return rng.choice((old.upper(), old + old, old[::-1], old + "\n"))


def _other_list(rng: Random, old: list[object]) -> list[object]:
    if not old:
        return [rng.choice(HOSTILE[:4])]
    at = rng.randrange(len(old))
    return rng.choice(
        ([*old[:at], *old[at + 1 :]], [*old, old[at]], old[::-1], [*old[:at], rng.choice(HOSTILE), *old[at:]])
    )


def _other_mapping(rng: Random, old: dict[str, object]) -> dict[str, object]:
    keys = list(old)
    if not keys:
        return {rng.choice(("a", "", "\u00e9", "__proto__")): 1}
    key, there = rng.choice(keys), rng.choice(keys)
    how = rng.randrange(4)
    if how == 0:
        return {name: item for name, item in old.items() if name != key}
    if how == 1:
        return {**old, rng.choice(("extra", "", "\u00e9", "x" * 200, key + key)): old[key]}
    if how == 2:
        return {**old, key: old[there], there: old[key]}
    return {(key.upper() if name == key else name): item for name, item in old.items()}


def spelled(rng: Random, value: object) -> bytes:
    """Return a value as text in some spelling of JSON, strict or not; it may hold a key twice."""
    how = rng.randrange(4)
    try:
        if how == 0:
            return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        if how == 1:
            return json.dumps(value, indent=rng.choice((0, 1, 2, 4)), sort_keys=True).encode()
        text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return b"{}"
    if how == 2 and text.startswith(b'{"'):
        return b"{" + text[1:].split(b",", 1)[0].rstrip(b"}") + b"," + text[1:]
    return text
