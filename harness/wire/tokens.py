"""The slow path of :mod:`harness.wire.strict`: JSON read token by token, with an error that says where."""

from __future__ import annotations

import re
from typing import Final, NoReturn

import orjson

from harness.errors import InvalidDocumentError
from harness.wire.strict import Limits

_MARKS: Final = (
    (b"\xef\xbb\xbf", "a UTF-8 byte order mark"),
    (b"\xff\xfe", "a UTF-16 byte order mark"),
    (b"\xfe\xff", "a UTF-16 byte order mark"),
)
_CERTIFICATE_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_BLANK: Final = re.compile(r"[ \t\n\r]*+")
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)")
_WORD: Final = re.compile(r"[A-Za-z_]++")
_WORDS: Final = {"true": True, "false": False}
_SHOWN: Final = 40


class _Level:
    """One open container of the slow reader."""

    __slots__ = ("items", "key")

    def __init__(self, items: dict[str, object] | list[object]) -> None:
        self.items = items
        self.key = ""


class Reader:
    """Reads one document token by token, with an explicit stack instead of recursion."""

    def __init__(self, data: bytes, where: str, limits: Limits, *, certificate_keys: bool) -> None:
        self.where = where
        self.limits = limits
        self.certificate_keys = certificate_keys
        self.stack: list[_Level] = []
        self.nodes = 0
        self.at = 0
        self.text = self._decoded(data)

    def read(self) -> object:
        """Return the value; everything after it must be blank."""
        value = self._value()
        while self.stack:
            value = self._step()
        self._skip()
        if self.at < len(self.text):
            self._fail(f"found {self._seen()} after the end of the value; allowed is nothing")
        return value

    def _decoded(self, data: bytes) -> str:
        self.text = ""
        for mark, name in _MARKS:
            if data.startswith(mark):
                self._fail(f"found {name}; allowed is UTF-8 without one. Save the file as UTF-8")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            message = f"line {line}: found byte 0x{data[error.start]:02x}; allowed is UTF-8 text"
            raise InvalidDocumentError(message, where=self.where) from None

    def _step(self) -> object:
        """Read one more value of the innermost container, or close it and return it."""
        level = self.stack[-1]
        closing = "}" if isinstance(level.items, dict) else "]"
        letter = self._peek()
        if letter == closing:
            self.at += 1
            self.stack.pop()
            self._hold(level.items)
            return level.items
        if level.items:
            if letter != ",":
                self._fail(f"found {self._seen()}; allowed are a comma and {closing!r}")
            self.at += 1
        if isinstance(level.items, dict):
            level.key = ""
            level.key = self._key(level.items)
        return self._value()

    def _value(self) -> object:
        """Read a scalar and store it, or open a container."""
        self._count()
        letter = self._peek()
        if letter in ("{", "["):
            self.at += 1
            items: dict[str, object] | list[object] = {} if letter == "{" else []
            self.stack.append(_Level(items))
            return items
        value = self._string() if letter == '"' else self._bare()
        self._hold(value)
        return value

    def _hold(self, value: object) -> None:
        if not self.stack:
            return
        level = self.stack[-1]
        if isinstance(level.items, dict):
            level.items[level.key] = value
        else:
            level.items.append(value)

    def _count(self) -> None:
        self.nodes += 1
        if len(self.stack) > self.limits.max_depth:
            self._fail(f"found more than {self.limits.max_depth} levels; that is the limit")
        if self.nodes > self.limits.max_nodes:
            self._fail(f"found more than {self.limits.max_nodes} values; that is the limit")

    def _key(self, known: dict[str, object]) -> str:
        if self._peek() != '"':
            self._fail(f"found {self._seen()}; allowed is a key in double quotes")
        start = self.at
        key = self._string()
        if key in known:
            self._fail(f"found key {_cut(key)!a} a second time; remove one of them", at=start)
        if not key.isascii():
            self._fail(f"found key {_cut(key)!a}; allowed are ASCII keys", at=start)
        if self.certificate_keys and _CERTIFICATE_KEY.match(key) is None:
            self._fail(f"found key {_cut(key)!a}; allowed is [a-z][a-z0-9_]{{0,63}}", at=start)
        if self._peek() != ":":
            self._fail(f"found {self._seen()}; allowed is a colon after key {_cut(key)!a}")
        self.at += 1
        return key

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            self._fail(
                "found text with a raw control character, a wrong escape or no closing quote; allowed are JSON strings"
            )
        size = len(match[0].encode())
        if size > self.limits.max_string_bytes:
            self._fail(
                f"found text of {size} bytes; allowed are {self.limits.max_string_bytes}. "
                "Move bulk data into a file of its own"
            )
        value = self._unescaped(match[0])
        self.at = match.end()
        return value

    def _unescaped(self, token: str) -> str:
        if "\\" not in token:
            return token[1:-1]
        try:
            value: object = orjson.loads(token)
        except orjson.JSONDecodeError:
            self._fail("found half of a surrogate pair; allowed is valid text")
        return str(value)

    def _bare(self) -> int | bool:
        """Read a number or a word."""
        match = _NUMBER.match(self.text, self.at)
        if match is not None:
            return self._integer(match)
        word = _WORD.match(self.text, self.at)
        if word is None or word[0] not in _WORDS:
            self._fail(
                f"found {self._seen()}; allowed are text, integers, true, false, lists and objects "
                "(an absent field is left out, never null)"
            )
        self.at = word.end()
        return _WORDS[word[0]]

    def _integer(self, match: re.Match[str]) -> int:
        if match[2]:
            self._fail(f"found the float {_cut(match[0])}; allowed are integers (a ratio is in ppm)")
        if match[0] == "-0":
            self._fail("found -0; the one allowed spelling is 0")
        largest = self.limits.max_integer
        if len(match[0]) > len(str(largest)) + 1 or abs(int(match[0])) > largest:
            self._fail(
                f"found an integer of {len(match[0].lstrip('-'))} digits; allowed are {-largest} "
                f"to {largest}, 64-bit values are written as hex text"
            )
        self.at = match.end()
        return int(match[0])

    def _skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _peek(self) -> str:
        self._skip()
        return self.text[self.at : self.at + 1]

    def _seen(self) -> str:
        """Name what lies at the cursor, cut and escaped, for an error text."""
        rest = self.text[self.at : self.at + _SHOWN]
        if not rest:
            return "the end of the document"
        word = _WORD.match(rest)
        return ascii(word[0] if word is not None else rest[0])

    def _fail(self, message: str, *, at: int | None = None) -> NoReturn:
        line = self.text.count("\n", 0, self.at if at is None else at) + 1
        pointer = self._pointer()
        where = f"{self.where}#{pointer}" if pointer else self.where
        raise InvalidDocumentError(f"line {line}: {message}", where=where)

    def _pointer(self) -> str:
        steps = [level.key if isinstance(level.items, dict) else str(len(level.items)) for level in self.stack]
        return "".join(f"/{_step_shown(step)}" for step in steps if step)


def _step_shown(step: str) -> str:
    """Spell one step of a JSON pointer; control characters of a hostile key stay escaped."""
    return _cut(ascii(step)[1:-1].replace("~", "~0").replace("/", "~1"))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
