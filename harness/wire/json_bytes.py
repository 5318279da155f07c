"""JSON read and written, by ``orjson`` where there is much of it and by the standard library where there is little.

Importing ``orjson`` brings half a dozen modules with it and takes longer than the documents of one certificate take
the standard library. So the first bytes of a process are read and written here, and the rest there; a process that has
``orjson`` already uses it at once. Both give the same value for the same bytes, the same bytes for the same value, and
refuse the same things (``tests/wire/test_json_bytes.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import Enum
from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from json.encoder import encode_basestring as _quoted
from operator import attrgetter
from typing import Any, Final, Literal, NoReturn

Spelling = Literal["compact", "line", "rendered"]
"""Without spaces; the same with a line feed; or indented by two spaces, with a line feed. Keys are always sorted."""

MAX_INTEGER: Final = 2**53 - 1
"""Largest magnitude of an integer: what every JSON reader holds exactly."""

_FEW: Final = 256 * 1024
"""Bytes of a process that are written here; to read costs an eighth of it."""
_MUCH: Final = 128 * 1024
"""Bytes of one file, of which most is read and written again, from which on it pays to begin with ``orjson``."""
_DEEPEST: Final = 200
"""Nesting up to which both agree; deeper values are left to ``orjson``."""
_HELD: Final = 18
"""Digits of an integer that certainly fit 64 bits."""
_LONG: Final = b"0" * (_HELD + 1)
_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_BEFORE: Final = (b":", b",", b"[", b" ", b"\n", b"\r", b"\t")
"""What can stand right before a value in JSON."""
_BOM: Final = b"\xef\xbb\xbf"

_state = {"left": _FEW}


class NotJsonError(ValueError):
    """Bytes that are not JSON, or hold a number that is none."""


class _UnsureError(Exception):
    """Something that is left to ``orjson``, which words what is wrong."""


def _integer(text: str) -> int:
    if len(text) > _HELD or text == "-0":
        raise _UnsureError
    return int(text)


def _refuse(_text: str) -> NoReturn:
    raise _UnsureError


_decode: Final = JSONDecoder(parse_float=_refuse, parse_constant=_refuse).decode
"""Reads text without a number that :func:`_integer` would refuse: then nothing of it is called for each of them."""
_decode_each: Final = JSONDecoder(parse_int=_integer, parse_float=_refuse, parse_constant=_refuse).decode
_encode: Final = JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":"), default=attrgetter("value")
).encode
"""Writes what :func:`_level` has gone through; a member of an enum that is neither text nor a number is its value."""


def expect(size: int) -> None:
    """Hear that a file of so many bytes is about to be read line by line."""
    if size > _MUCH:
        _state["left"] = -1


def loads(data: bytes) -> object:
    """Return the value of JSON text.

    Raises:
        NotJsonError: It is none: not UTF-8, not JSON, ``NaN``, a lone surrogate.
    """
    fast = _fast(len(data))
    if fast is None:
        try:
            return _read(data)
        except _UnsureError:
            import orjson as fast
    try:
        value: object = fast.loads(data)
    except fast.JSONDecodeError as error:
        raise NotJsonError(str(error)) from None
    return value


def dumps(value: object, spelling: Spelling) -> bytes:
    """Return the one spelling of a value: text, numbers, booleans, null, lists, tuples, dictionaries, enums, UUIDs.

    Raises:
        TypeError: It holds something else, a key that is no text, a lone surrogate, or a larger integer.
    """
    fast = _fast(0)
    if fast is None:
        try:
            return _written(value, spelling)
        except _UnsureError:
            import orjson as fast
    found: bytes = fast.dumps(value, option=_options(fast, spelling))
    return found


def plain(value: object) -> tuple[bytes, int] | None:
    """Return the compact bytes of a value that documents can hold, and a level that no container in it lies below.

    The top level is 0. None: it holds something else, or that is for :func:`dumps` and a closer look to say.
    """
    if _fast(0) is not None:
        return None
    try:
        deepest = _level(value)
        data = _encode(value).encode()
    except (_UnsureError, UnicodeEncodeError):
        return None
    return data, deepest


def spelled(value: object) -> str:
    """Return one text for all equal values of lists, dictionaries, text, integers and booleans, and for no other."""
    return _encode(value)


def _fast(size: int) -> Any:
    """Return ``orjson`` where it is to be used; spends what is left of the first bytes."""
    found = sys.modules.get("orjson")
    if found is not None:
        return found
    _state["left"] -= size // 8
    if _state["left"] >= 0:
        return None
    import orjson

    return orjson


def _options(fast: Any, spelling: Spelling) -> int:
    if "options" not in _OPTIONS:
        compact = (
            fast.OPT_SORT_KEYS
            | fast.OPT_STRICT_INTEGER
            | fast.OPT_PASSTHROUGH_DATACLASS
            | fast.OPT_PASSTHROUGH_DATETIME
            | fast.OPT_PASSTHROUGH_SUBCLASS
        )
        line = compact | fast.OPT_APPEND_NEWLINE
        _OPTIONS.update(options=0, compact=compact, line=line, rendered=line | fast.OPT_INDENT_2)
    return _OPTIONS[spelling]


_OPTIONS: Final[dict[str, int]] = {}


# -- the standard library's way ----------------------------------------------------------------------------------------


def _read(data: bytes) -> object:
    """Read text that both readers take alike.

    Raises:
        _UnsureError: It may not be JSON, or holds what the readers may see differently.
    """
    # floats, large integers, escapes by number and marks of byte order are rare: what has one goes to orjson
    if b"\\u" in data or data[:3] == _BOM:
        raise _UnsureError
    try:
        return (_decode_each if _has_odd_integer(data) else _decode)(data.decode())
    except (ValueError, RecursionError):
        raise _UnsureError from None


def _has_odd_integer(data: bytes) -> bool:
    """Tell whether a text may hold an integer of very many digits, or a zero with a sign; text may look like one."""
    if _LONG in data.translate(_ZEROS) or data[:2] == b"-0":
        return True
    return b"-0" in data and any(before + b"-0" in data for before in _BEFORE)


def _written(value: object, spelling: Spelling) -> bytes:
    """Write a value that both writers spell alike.

    Raises:
        _UnsureError: It holds something of another kind.
    """
    if spelling == "rendered":
        pieces: list[str] = []
        _write(value, pieces, "\n", 0)
        text = "".join(pieces) + "\n"
    else:
        _level(value)
        text = _encode(value) + ("\n" if spelling == "line" else "")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise _UnsureError from None
    _state["left"] -= len(data)
    return data


def _level(value: object, level: int = 0) -> int:
    """Go through a value that both writers spell alike; returns the level of its deepest container.

    Raises:
        _UnsureError: It holds something of another kind.
    """
    if level > _DEEPEST:
        raise _UnsureError
    deepest = level
    for item in _items(value):
        kind = type(item)
        if kind is str or kind is bool:
            continue
        if kind is int:
            if not -MAX_INTEGER <= item <= MAX_INTEGER:  # type: ignore[operator]
                raise _UnsureError
        elif kind is dict or kind is list or kind is tuple:
            deepest = max(deepest, _level(item, level + 1))
        else:
            _level((_member(item),), level)
    return deepest


def _items(value: object) -> Iterable[object]:
    kind = type(value)
    if kind is list or kind is tuple:
        return value  # type: ignore[return-value]
    if kind is not dict:
        return (value,)
    for key in value:  # type: ignore[attr-defined]
        if type(key) is not str:
            raise _UnsureError
    found: Iterable[object] = value.values()  # type: ignore[attr-defined]
    return found


def _member(item: object) -> object:
    """Return the value of a member of an enum; one that is text or a number is written as such, so it must be it."""
    if not isinstance(item, Enum) or (isinstance(item, (str, int)) and item.value != item):
        raise _UnsureError
    return item.value


def _write(value: object, pieces: list[str], end: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        pieces.append(_quoted(value))  # type: ignore[arg-type]
    elif kind is bool:
        pieces.append("true" if value else "false")
    elif kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            raise _UnsureError
        pieces.append(str(value))
    elif kind is dict:
        _write_object(value, pieces, end, depth)  # type: ignore[arg-type]
    elif kind is list or kind is tuple:
        _write_list(value, pieces, end, depth)  # type: ignore[arg-type]
    elif isinstance(value, Enum):
        _write(value.value, pieces, end, depth)
    else:
        raise _UnsureError


def _write_object(value: dict[object, object], pieces: list[str], end: str, depth: int) -> None:
    if not value:
        pieces.append("{}")
        return
    if depth > _DEEPEST or not all(type(key) is str for key in value):
        raise _UnsureError
    inner = f"{end}  " if end else ""
    begin, colon = "{" + inner, ": " if end else ":"
    for key in sorted(value):  # type: ignore[type-var]
        pieces += (begin, _quoted(key), colon)  # type: ignore[arg-type]
        _write(value[key], pieces, inner, depth + 1)
        begin = "," + inner
    pieces.append(end + "}")


def _write_list(value: list[object] | tuple[object, ...], pieces: list[str], end: str, depth: int) -> None:
    if not value:
        pieces.append("[]")
        return
    if depth > _DEEPEST:
        raise _UnsureError
    inner = f"{end}  " if end else ""
    begin = "[" + inner
    for item in value:
        pieces.append(begin)
        _write(item, pieces, inner, depth + 1)
        begin = "," + inner
    pieces.append(end + "]")
