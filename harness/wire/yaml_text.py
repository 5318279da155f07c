"""YAML that people write, read as the JSON subset that documents hold.

YAML has many spellings; scenarios need one. The value is built from parser events, so that
nothing is resolved before it is looked at:

- ``true`` and ``false`` are booleans. ``on``, ``off``, ``yes`` and ``no`` are text.
- A plain decimal number is an integer. Floats, other bases, leading zeros and ``1_000`` are
  refused; quoted they are text. Dates and times are text.
- No key twice, no null, no anchor, alias, tag or merge key, one document, bounded depth and size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from harness.errors import InvalidDocumentError, InvalidScenarioError
from harness.wire.strict import DOCUMENT, Limits

if TYPE_CHECKING:
    import yaml

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)\Z")
_NUMBER_LIKE: Final = re.compile(
    r"[-+]?(0[xob][0-9a-fA-F_]+|\.?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))\Z"
)
_NOT_A_NUMBER: Final = frozenset({".nan", ".NaN", ".NAN"})
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {"true": True, "false": False}
_OTHER_BOOLEANS: Final = frozenset({"True", "TRUE", "False", "FALSE"})
_SHOWN: Final = 40

InvalidError = type[InvalidDocumentError] | type[InvalidScenarioError]


@dataclass(slots=True)
class _Level:
    """One open collection; a mapping waits for a key or for the value of ``key``."""

    items: dict[str, object] | list[object]
    key: str | None = None
    step: str = ""
    """Key or index of the value that was put in last, for the path in an error."""


class _Mark(Protocol):
    """A place in the text, counted from zero; both parsers have their own class for it."""

    line: int
    column: int


def load_yaml(
    text: bytes,
    where: str,
    *,
    limits: Limits = DOCUMENT,
    error: InvalidError = InvalidDocumentError,
) -> object:
    """Return the value of one YAML document.

    Args:
        text: The bytes of the file, UTF-8 without a byte order mark.
        where: What to call the document in an error, mostly its path.
        limits: How much it may hold.
        error: What to raise; scenarios and configuration of a person use
            ``InvalidScenarioError``.

    Raises:
        InvalidDocumentError: The text is refused; with line, column and path.
        InvalidScenarioError: The same, if asked for by ``error``.
    """
    import yaml

    if len(text) > limits.max_bytes:
        raise error(f"found {len(text)} bytes; allowed are {limits.max_bytes}", where=where)
    if text.startswith(b"\xef\xbb\xbf"):
        raise error("found a byte order mark; allowed is UTF-8 without one", where=where)
    builder = _Builder(where, limits, error)
    try:
        for event in _events(text.decode()):
            builder.take(event)
    except UnicodeDecodeError as fault:
        message = f"found byte 0x{text[fault.start]:02x} at offset {fault.start}; allowed is UTF-8"
        raise error(message, where=where) from None
    except yaml.MarkedYAMLError as fault:
        builder.fail(_problem(fault), fault.problem_mark)
    except yaml.YAMLError as fault:
        raise error(f"{_one_line(str(fault))}; allowed is YAML text", where=where) from None
    return builder.result()


def _events(text: str) -> Iterator[yaml.Event]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
    return events


def _problem(fault: yaml.MarkedYAMLError) -> str:
    return f"{_one_line(fault.problem or 'a syntax error')}; allowed is YAML text"


def _one_line(text: str) -> str:
    return ascii(" ".join(text.split()))[1:-1][:200]


class _Builder:
    """Takes parser events in order and builds the value, with an explicit stack."""

    def __init__(self, where: str, limits: Limits, error: InvalidError) -> None:
        self._where = where
        self._limits = limits
        self._error = error
        self._stack: list[_Level] = []
        self._documents = 0
        self._nodes = 0
        self._value: object = None

    def result(self) -> object:
        """Return the value after the last event."""
        if self._documents == 0:
            self.fail("found no document; allowed is one", None)
        return self._value

    def take(self, event: yaml.Event) -> None:
        """Use one event."""
        import yaml

        match event:
            case yaml.ScalarEvent():
                self._refuse_decoration(event)
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._refuse_decoration(event)
                self._open({}, event)
            case yaml.SequenceStartEvent():
                self._refuse_decoration(event)
                self._open([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._stack.pop()
            case yaml.AliasEvent():
                self.fail("found an alias (*name); write the value out", event.start_mark)
            case yaml.DocumentStartEvent():
                self._document(event)

    def fail(self, message: str, mark: _Mark | None) -> NoReturn:
        """Raise the named error at a place of the text."""
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        pointer = self._pointer()
        where = f"{self._where}#{pointer}" if pointer else self._where
        raise self._error(f"{place}{message}", where=where)

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            self.fail("found a second document; allowed is one", event.start_mark)
        if event.tags or event.version:
            self.fail("found a % directive; allowed are none", event.start_mark)

    def _refuse_decoration(self, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            self.fail("found an anchor (&name); write the value out where needed", event.start_mark)
        tag = getattr(event, "tag", None)
        if tag is not None:
            self.fail(f"found the tag {_one_line(str(tag))}; allowed are none", event.start_mark)

    def _open(self, items: dict[str, object] | list[object], event: yaml.Event) -> None:
        if self._stack and self._wants_key():
            self.fail("found a collection as a key; allowed is text", event.start_mark)
        self._hold(items, event)
        self._stack.append(_Level(items))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if len(event.value) > self._limits.max_string_bytes:
            most = self._limits.max_string_bytes
            self.fail(f"found text of {len(event.value)} letters; allowed: {most}", event.start_mark)
        if not event.value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in event.value):
            self.fail("found a lone surrogate; allowed is valid text", event.start_mark)
        if self._stack and self._wants_key():
            self._key(event)
        else:
            self._hold(self._resolved(event), event)

    def _wants_key(self) -> bool:
        level = self._stack[-1]
        return isinstance(level.items, dict) and level.key is None

    def _key(self, event: yaml.ScalarEvent) -> None:
        level, key = self._stack[-1], event.value
        if key == "<<" and not event.style:
            self.fail("found a merge key (<<); write the fields out", event.start_mark)
        if not key.isascii() or not key.isprintable() or not key:
            self.fail(
                f"found key {_one_line(key)[:_SHOWN]!r}; allowed is printable ASCII text",
                event.start_mark,
            )
        if isinstance(level.items, dict) and key in level.items:
            self.fail(f"found key {key[:_SHOWN]!r} a second time; remove one of them", event.start_mark)
        level.key = key

    def _hold(self, value: object, event: yaml.Event) -> None:
        self._nodes += 1
        if len(self._stack) > self._limits.max_depth:
            self.fail(f"found more than {self._limits.max_depth} levels", event.start_mark)
        if self._nodes > self._limits.max_nodes:
            self.fail(f"found more than {self._limits.max_nodes} values", event.start_mark)
        if not self._stack:
            self._value = value
            return
        level = self._stack[-1]
        if isinstance(level.items, list):
            level.step = str(len(level.items))
            level.items.append(value)
        elif level.key is not None:
            level.step = level.key
            level.items[level.key] = value
            level.key = None

    def _resolved(self, event: yaml.ScalarEvent) -> str | int | bool:
        """Return the value of a scalar: quoted is text, plain may be a boolean or an integer."""
        text: str = event.value
        if event.style:  # the parsers write None or an empty text for a plain scalar
            return text
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if text in _NULLS:
            self.fail("found a null; leave the key out or quote the text", event.start_mark)
        if text in _OTHER_BOOLEANS:
            self.fail(f"found {text}; write {text.lower()}, or quote the text", event.start_mark)
        if _INTEGER.match(text):
            return self._integer(text, event)
        if text in _NOT_A_NUMBER or _NUMBER_LIKE.match(text):
            self.fail(
                f"found the number {text[:_SHOWN]}; allowed are plain decimal integers (a ratio is "
                "in ppm), or quote the text",
                event.start_mark,
            )
        return text

    def _integer(self, text: str, event: yaml.ScalarEvent) -> int:
        largest = self._limits.max_integer
        if text == "-0" or len(text) > len(str(largest)) + 1 or abs(int(text)) > largest:
            self.fail(
                f"found the integer {text[:_SHOWN]}; allowed are {-largest} to {largest}, or quote the text",
                event.start_mark,
            )
        return int(text)

    def _pointer(self) -> str:
        if not self._stack:
            return ""
        steps = [level.step for level in self._stack[:-1]]
        inner = self._stack[-1]
        if isinstance(inner.items, list):
            steps.append(str(len(inner.items)))
        elif inner.key is not None:
            steps.append(inner.key)
        return "".join(f"/{step.replace('~', '~0').replace('/', '~1')[:_SHOWN]}" for step in steps)
