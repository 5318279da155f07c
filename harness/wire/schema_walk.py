"""A JSON Schema validator of plain functions, for the first few documents of a process.

To import and compile the fast validator takes longer than a quick gate has to judge one certificate. This one costs
nothing to import and compiles only what it meets, and each document costs it some hundred times as much; so it is for
a few hundred documents at most. It knows the keywords that the product's schemas use and the types that strict JSON
has. Whatever else it meets, it does not judge: :class:`UnsureError` hands the document to the other validator.

It is never more lenient than the other: ``$`` in a pattern is the end of the text and not of a line, ``true`` is not
``1``, and text that is not ASCII is not judged at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from harness.wire import json_bytes

Check = Callable[[Any], bool]
Schema = Mapping[str, Any]


class UnsureError(Exception):
    """Something that is not judged here: a keyword, a type, a pattern or text of another kind."""


_IGNORED: Final = frozenset({"$schema", "$id", "$defs", "title", "description"})
_OBJECT: Final = frozenset(
    {"properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"}
)
_TYPES: Final[Mapping[str, type]] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


class Walker:
    """Schemas that may refer to one another.

    Args:
        schemas: By file name without its ending, like ``common.v1``.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._compiled: dict[tuple[str, str], Check] = {}
        self.values = 0
        """Values looked at so far: what walking costs grows with them, and not with documents."""

    def is_valid(self, value: object, name: str) -> bool:
        """Tell whether a value fits a schema.

        Raises:
            UnsureError: It is not for this validator to say.
        """
        self.values += _require_plain(value)
        try:
            return self._at(name, "")(value)
        except RecursionError:
            raise UnsureError("nested too deeply") from None

    def _at(self, name: str, pointer: str) -> Check:
        """Return the check of one place of a schema file; ``pointer`` is a JSON pointer."""
        if (name, pointer) not in self._compiled:
            schema: Any = self._schemas
            for step in (name, *pointer.split("/")[1:]):
                key = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(schema, Mapping) or key not in schema:
                    raise UnsureError(f"no schema {name}#{pointer}")
                schema = schema[key]
            self._compiled[name, pointer] = self._check(schema, name)
        return self._compiled[name, pointer]

    def _later(self, schema: Any, name: str) -> Check:
        """Return a check that is compiled when it is first needed."""
        found: Check | None = None

        def check(value: Any) -> bool:
            nonlocal found
            if found is None:
                found = self._check(schema, name)
            return found(value)

        return check

    def _check(self, schema: Any, name: str) -> Check:
        """Compile one schema.

        Raises:
            UnsureError: It has a keyword that is not known here.
        """
        if schema is True:
            return _anything
        if schema is False:
            return lambda _: False
        if not isinstance(schema, dict):
            raise UnsureError(f"a schema of type {type(schema).__name__}")
        return _every(list(self._checks(schema, name)))

    def _checks(self, schema: Schema, name: str) -> Iterator[Check]:
        if "type" in schema:
            yield _of_type(schema["type"])
        if not _OBJECT.isdisjoint(schema):
            yield self._object(schema, name)
        for keyword, value in schema.items():
            if keyword in _IGNORED or keyword in _OBJECT or keyword in {"type", "then", "else"}:
                continue
            make = _MAKERS.get(keyword)
            if make is None:
                raise UnsureError(f"the keyword {keyword}")
            yield make(self, value, schema, name)

    def _object(self, schema: Schema, name: str) -> Check:
        properties: Mapping[str, Any] = schema.get("properties", {})
        known: dict[str, Check] = {}  # of the properties, those that were met
        required: Sequence[str] = schema.get("required", ())
        other = self._later(schema.get("additionalProperties", True), name)
        keys = self._later(schema["propertyNames"], name) if "propertyNames" in schema else None
        least, most = schema.get("minProperties", 0), schema.get("maxProperties")

        def check(value: Any) -> bool:
            if type(value) is not dict:
                return True
            if len(value) < least or (most is not None and len(value) > most):
                return False
            for key in required:
                if key not in value:
                    return False
            for key, item in value.items():
                one = known.get(key)
                if one is None:
                    one = other
                    if key in properties:
                        one = known[key] = self._check(properties[key], name)
                if not one(item) or (keys is not None and not keys(key)):
                    return False
            return True

        return check

    def reference(self, value: str, _schema: Schema, name: str) -> Check:
        """``$ref``, to a place in this file or in another one."""
        file, _, pointer = value.partition("#")
        target = file.removesuffix(".json") or name
        found: Check | None = None

        def check(instance: Any) -> bool:
            nonlocal found
            if found is None:
                found = self._at(target, pointer)
            return found(instance)

        return check

    def items(self, value: Any, _schema: Schema, name: str) -> Check:
        """``items``."""
        each = self._later(value, name)

        def check(found: Any) -> bool:
            if type(found) is list:
                for item in found:
                    if not each(item):
                        return False
            return True

        return check

    def several(self, value: Sequence[Any], name: str) -> list[Check]:
        """The schemas of a choice."""
        return [self._later(one, name) for one in value]

    def all_of(self, value: Sequence[Any], _schema: Schema, name: str) -> Check:
        """``allOf``; one that only tells records apart by a word of theirs asks for that word once."""
        every = self.several(value, name)
        switch = _switch(value)
        if switch is None:
            return _every(every)
        key, words = switch
        cases: dict[object, list[Check]] = {}
        for word, one in zip(words, value, strict=True):
            cases.setdefault(word, []).append(self._later(one["then"], name))

        def check(found: Any) -> bool:
            if type(found) is not dict:
                return all(check(found) for check in every)
            word = found.get(key)
            return type(word) is not str or all(check(found) for check in cases.get(word, ()))

        return check

    def any_of(self, value: Sequence[Any], _schema: Schema, name: str) -> Check:
        """``anyOf``."""
        several = self.several(value, name)
        return lambda found: any(check(found) for check in several)

    def one_of(self, value: Sequence[Any], _schema: Schema, name: str) -> Check:
        """``oneOf``."""
        several = self.several(value, name)
        return lambda found: sum(check(found) for check in several) == 1

    def negated(self, value: Any, _schema: Schema, name: str) -> Check:
        """``not``."""
        unwanted = self._later(value, name)
        return lambda found: not unwanted(found)

    def choice(self, value: Any, schema: Schema, name: str) -> Check:
        """``if`` with its ``then`` and ``else``."""
        question = self._later(value, name)
        yes, no = (self._later(schema.get(word, True), name) for word in ("then", "else"))
        return lambda found: yes(found) if question(found) else no(found)


def _switch(value: Sequence[Any]) -> tuple[str, list[str]] | None:
    """Return the member, and its words in order, if each schema is ``if`` this member has this word, ``then`` that."""
    asked = [_asked(one) for one in value]
    keys = {key for key, _ in asked}
    return (keys.pop(), [word for _, word in asked]) if len(keys) == 1 and "" not in keys else None


def _asked(schema: Any) -> tuple[str, str]:
    """Return the member that a schema asks for and the word that it must have; empty texts of any other schema."""
    match schema:
        case {"if": {"properties": {**properties}, "required": [str(key)], **others}, "then": _, **rest}:
            if list(properties) == [key] and not others and not rest:
                held = properties[key]
                if isinstance(held, dict) and held.keys() == {"const"} and type(held["const"]) is str:
                    return key, held["const"]
    return "", ""


def _require_plain(value: object) -> int:
    """Go through a value once, so that nothing need be looked at twice. Returns how many values it holds.

    Raises:
        UnsureError: It holds something that strict JSON cannot, or text that is not ASCII.
    """
    waiting = [value]
    count = 0
    while waiting:
        one = waiting.pop()
        count += 1
        kind = type(one)
        if kind is str:
            if not one.isascii():  # type: ignore[attr-defined]
                raise UnsureError("text that is not ASCII")
        elif kind is dict:
            if not all(type(key) is str and key.isascii() for key in one):  # type: ignore[attr-defined]
                raise UnsureError("a key that is not ASCII text")
            waiting.extend(one.values())  # type: ignore[attr-defined]
        elif kind is list:
            waiting.extend(one)  # type: ignore[arg-type]
        elif kind is not int and kind is not bool:
            raise UnsureError(f"a {kind.__name__}")
    return count


def _anything(_value: Any) -> bool:
    return True


def _every(checks: Sequence[Check]) -> Check:
    """Return the check that all of these hold, asked in order; a plain loop, since it is asked of every value."""
    if not checks:
        return _anything
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        first, second = checks
        return lambda value: first(value) and second(value)

    def check(value: Any) -> bool:
        for one in checks:  # noqa: SIM110 - a generator would take half as long again
            if not one(value):
                return False
        return True

    return check


def _of_type(value: Any) -> Check:
    names = value if type(value) is list else [value]
    if not _TYPES.keys() >= set(names):
        raise UnsureError(f"the type {value}")
    if len(names) == 1:
        only = _TYPES[names[0]]
        return lambda found: type(found) is only
    wanted = frozenset(_TYPES[name] for name in names)
    return lambda found: type(found) in wanted


def _same(value: object) -> object:
    """Return what two equal values have in common, and two that differ have not: ``true`` is not ``1``."""
    return (type(value), value) if type(value) not in {dict, list} else json_bytes.spelled(value)


def _one_of_these(values: Sequence[object]) -> Check:
    if all(type(value) is str and value.isascii() for value in values):
        words = frozenset(values)
        return lambda found: type(found) is str and found in words
    for value in values:
        _require_plain(value)
    wanted = frozenset(map(_same, values))
    return lambda found: _same(found) in wanted


def _unique(found: Any) -> bool:
    if type(found) is list and all(type(one) is str for one in found):
        return len(frozenset(found)) == len(found)
    return type(found) is not list or len(frozenset(map(_same, found))) == len(found)


def _number(bound: Any, holds: Callable[[int, int], bool]) -> Check:
    if type(bound) is not int:
        raise UnsureError("a bound that is no integer")
    return lambda found: type(found) is not int or holds(found, bound)


def _length(bound: int, kind: type[Any], holds: Callable[[int, int], bool]) -> Check:
    return lambda found: type(found) is not kind or holds(len(found), bound)


def _at_least(found: int, bound: int) -> bool:
    return found >= bound


def _at_most(found: int, bound: int) -> bool:
    return found <= bound


@cache
def _pattern(value: str) -> Check:
    """Compile an expression whose meaning is the same everywhere.

    Raises:
        UnsureError: It is of another kind.
    """
    simple = _simple(value)
    if simple is not None:
        return simple
    bare = _bare(value)
    if not value.isascii() or _has_words(value) or "(?" in bare or "$" in bare[:-1] or "^" in bare[1:]:
        raise UnsureError(f"the pattern {value}")
    expression = re.compile(f"{value[:-1]}\\Z" if bare.endswith("$") else value)
    printable = "." in bare  # what a dot leaves out is not the same everywhere

    def check(found: Any) -> bool:
        if type(found) is not str:
            return True
        if printable and not found.isprintable():
            raise UnsureError("a character that cannot be printed")
        return expression.search(found) is not None

    return check


def _has_words(value: str) -> bool:
    """Tell whether a letter or a digit is escaped: such stand for classes, places and groups."""
    return any(value[at + 1 : at + 2].isalnum() for at, letter in enumerate(value) if letter == "\\")


def _bare(value: str) -> str:
    """Return an expression without its classes of characters and escaped ones."""
    kept = []
    at = 0
    while at < len(value):
        end = value.find("]", at + 1) if value[at] == "[" else -1
        if end >= 0:
            at = end + 1
        elif value[at] == "\\" and at + 1 < len(value):
            at += 2
        else:
            kept.append(value[at])
            at += 1
    return "".join(kept)


def _simple(value: str) -> Check | None:
    """Return the check of a few single characters and then some of one more class; None: it is not as simple.

    To compile such an expression takes as long as to use this one a hundred times.
    """
    inner = value[1:-1]
    pieces = inner.split("]")
    quantity = pieces.pop() if len(pieces) > 1 else "none"
    if value[:1] + value[-1:] != "^$" or not all(piece[:1] == "[" and set(piece[1:]) <= _LETTERS for piece in pieces):
        return None
    bounds = _bounds(quantity)
    if bounds is None:
        return None
    *firsts, rest = [_expanded(piece[1:]) for piece in pieces]
    least, most = (bound + len(firsts) for bound in bounds)

    def check(found: Any) -> bool:
        if type(found) is not str:
            return True
        if not least <= len(found) <= most:
            return False
        return all(letter in first for letter, first in zip(found, firsts)) and rest.issuperset(found[len(firsts) :])  # noqa: B905

    return check


def _bounds(quantity: str) -> tuple[int, int] | None:
    """Read how often the last class may stand there."""
    if quantity in _QUANTITIES:
        return _QUANTITIES[quantity]
    if quantity[:1] + quantity[-1:] != "{}":
        return None
    least, _, most = quantity[1:-1].partition(",")
    numbers = (least, most or least)
    if not all(number.isdecimal() for number in numbers) or quantity[-2:] == ",}":
        return None
    return int(numbers[0]), int(numbers[1])


@cache
def _expanded(letters: str) -> frozenset[str]:
    """Return the characters of a class, in which a minus that stands last stands for itself."""
    found: set[str] = set()
    at = 0
    while at < len(letters):
        if letters[at + 1 : at + 2] == "-" and at + 2 < len(letters):
            found.update(map(chr, range(ord(letters[at]), ord(letters[at + 2]) + 1)))
            at += 3
        else:
            found.add(letters[at])
            at += 1
    return frozenset(found)


_MANY: Final = 1 << 60
_QUANTITIES: Final[Mapping[str, tuple[int, int]]] = {"": (1, 1), "*": (0, _MANY), "+": (1, _MANY)}
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:+-/%@= ")
"""What a class of a simple pattern may hold: nothing that has a meaning of its own in it but the minus."""


_MAKERS: Final[Mapping[str, Callable[[Walker, Any, Schema, str], Check]]] = {
    "$ref": Walker.reference,
    "items": Walker.items,
    "allOf": Walker.all_of,
    "anyOf": Walker.any_of,
    "oneOf": Walker.one_of,
    "not": Walker.negated,
    "if": Walker.choice,
    "const": lambda _walker, value, _schema, _name: _one_of_these([value]),
    "enum": lambda _walker, value, _schema, _name: _one_of_these(value),
    "uniqueItems": lambda _walker, value, _schema, _name: _unique if value is True else _anything,
    "minimum": lambda _walker, value, _schema, _name: _number(value, _at_least),
    "maximum": lambda _walker, value, _schema, _name: _number(value, _at_most),
    "minLength": lambda _walker, value, _schema, _name: _length(value, str, _at_least),
    "maxLength": lambda _walker, value, _schema, _name: _length(value, str, _at_most),
    "minItems": lambda _walker, value, _schema, _name: _length(value, list, _at_least),
    "maxItems": lambda _walker, value, _schema, _name: _length(value, list, _at_most),
    "pattern": lambda _walker, value, _schema, _name: _pattern(value),
}
