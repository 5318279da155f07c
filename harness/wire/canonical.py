"""The canonical bytes of a value, its digest, and the one rendering that a file may have.

Values hold dictionaries with ASCII keys, lists, strings, booleans and integers within
``MAX_INTEGER``; nothing else has one spelling. On that subset three things agree: RFC 8785, the
sorted compact form written here, and what a reader in any language reproduces. Tuples count as
lists, enum members and UUIDs as their values, so that nouns need no conversion first.

Rules kept here:

- A float, ``None``, a key that is not ASCII text or a larger integer is refused with its path;
  it is never rounded, dropped or turned into ``null``.
- The check reads the rendered bytes, not the objects: every scalar has a line of its own in the
  rendering, so one pass of ``bytes.translate`` finds a float or a null. A walk over the objects
  costs about four times as much and runs only to name what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from harness.wire.json_bytes import MAX_INTEGER, dumps, plain
from harness.wire.sha256 import sha256

__all__ = [
    "MAX_INTEGER",
    "canonical",
    "canonical_trusted",
    "digest",
    "digest_trusted",
    "is_plain",
    "line",
    "render",
    "render_unchecked",
    "require_plain",
]

_MAX_NESTING: Final = 250
_SHOWN: Final = 120

# What is left of a rendering after this: quotes, line ends, "#" for the letters and dots that can
# end a float or a null, "+" for the letters before the "e" of true and false.
_KEPT: Final = b'"\n.elrs'
_DROPPED: Final = bytes(code for code in range(256) if code not in _KEPT)
_MARKS: Final = bytes.maketrans(b".elrs", b"###++")


def canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of ``value``, without a line end.

    Raises:
        TypeError: A value or key has a type that documents cannot hold; the message has its path.
        ValueError: An integer, a string or the nesting is outside what documents can hold.
    """
    found = plain(value)
    if found is not None and found[1] < _MAX_NESTING and found[0].isascii():
        return found[0]
    require_plain(value)
    return dumps(value, "compact")


def canonical_trusted(value: object) -> bytes:
    """Return what :func:`canonical` returns, for a value that a strict read has just given.

    :func:`harness.wire.strict.loads` has refused floats and nulls already; looking again would
    cost more than the bytes themselves. On any other value the result is not to be relied on.
    """
    return dumps(value, "compact")


def digest(value: object) -> str:
    """Return the SHA-256 of :func:`canonical` as 64 hex digits."""
    return sha256(canonical(value)).hexdigest()


def digest_trusted(value: object) -> str:
    """Return the SHA-256 of :func:`canonical_trusted` as 64 hex digits."""
    return sha256(canonical_trusted(value)).hexdigest()


def render(value: object) -> bytes:
    """Return the only bytes that a file with this value may have.

    Keys are sorted, each level is indented by two spaces, lines end in LF, also the last one.

    Raises:
        TypeError: As :func:`canonical`.
        ValueError: As :func:`canonical`.
    """
    return require_plain(value)


def line(value: object) -> bytes:
    """Return the canonical bytes and a line feed: one record of a JSON Lines file.

    Raises:
        TypeError: As :func:`canonical`.
        ValueError: As :func:`canonical`.
    """
    return canonical(value) + b"\n"


def render_unchecked(value: object) -> bytes:
    """Return the rendering of anything that JSON can hold, floats and nulls included.

    For readers that compare bytes before they trust a value; :func:`is_plain` judges the result.

    Raises:
        TypeError: The value cannot be rendered (an integer beyond ``MAX_INTEGER``, for one).
    """
    return dumps(value, "rendered")


def is_plain(rendered: bytes) -> bool:
    """Tell whether a rendering holds no float and no null.

    Exact, not a guess: in a rendering every string ends in a quote before its line end, so a line
    that ends in the trace of a dot, an exponent or ``null`` can only be such a value.
    """
    marks = rendered.translate(_MARKS, _DROPPED)
    return marks.count(b"#\n") == marks.count(b"+#\n")


def require_plain(value: object) -> bytes:
    """Return the rendering of ``value`` after proving that it is canonical material.

    Raises:
        TypeError: As :func:`canonical`.
        ValueError: As :func:`canonical`.
    """
    try:
        rendered = render_unchecked(value)
    except TypeError:
        _refuse(value)
        raise
    if not (rendered.isascii() and is_plain(rendered)):
        _refuse(value)
    return rendered


def _refuse(value: object) -> None:
    """Raise for the first thing in ``value`` that documents cannot hold; without recursion."""
    waiting: list[tuple[str, int, object]] = [("", 0, value)]
    while waiting:
        path, depth, node = waiting.pop()
        if depth > _MAX_NESTING:
            raise ValueError(
                f"more than {_MAX_NESTING} levels (or a cycle) at {_shown(path)}; "
                "documents are flat: allowed are a few levels"
            )
        if isinstance(node, (dict, list, tuple)):
            inner = ((f"{path}{step}", depth + 1, child) for step, child in _children(path, node))
            waiting.extend(reversed(list(inner)))
        else:
            _refuse_scalar(path, node)


def _children(
    path: str, node: dict[object, object] | list[object] | tuple[object, ...]
) -> Iterable[tuple[str, object]]:
    if not isinstance(node, dict):
        return ((f"[{index}]", child) for index, child in enumerate(node))
    for key in node:
        if type(key) is not str or not key.isascii():
            raise TypeError(f"key {key!r} at {_shown(path)}; allowed are keys of ASCII text")
    return ((f".{key}" if path else str(key), child) for key, child in node.items())


def _refuse_scalar(path: str, node: object) -> None:
    from uuid import UUID

    plain = node.value if isinstance(node, Enum) else node
    if isinstance(plain, str):
        if _has_lone_surrogate(plain):
            raise ValueError(f"a lone surrogate in the text at {_shown(path)}; write valid text")
    elif isinstance(plain, int):
        if abs(plain) > MAX_INTEGER:
            raise ValueError(
                f"an integer of {plain.bit_length()} bits at {_shown(path)}; allowed are "
                f"{-MAX_INTEGER} to {MAX_INTEGER}, 64-bit values are written as hex text"
            )
    elif not isinstance(plain, UUID):
        raise TypeError(
            f"{type(plain).__name__} at {_shown(path)}; allowed are text, integers, booleans, "
            "lists and dictionaries (a ratio is written in ppm, an absent field is left out)"
        )


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _shown(path: str) -> str:
    """Spell a path, escaped and cut, since its keys may come from anywhere."""
    return ascii(path[:_SHOWN])[1:-1] or "the top level"
