"""Validation against the JSON Schemas of the product (draft 2020-12).

Two validators, one answer: ``jsonschema_rs`` decides, since it costs microseconds;
``jsonschema`` explains, since its errors carry the path, what was found and what is allowed. Where
the second finds nothing to explain, the refusal of the first stands.

A process that reads a few documents would spend most of its time on importing and compiling the first
one; its first documents are judged by :mod:`harness.wire.schema_walk`. What that refuses, or does not
judge, goes to the other two; that both accept is not asked for.

A schema refers to another by a path beside its own ``$id`` (``common.v1.json#/$defs/sha256``).
Nothing is ever fetched: a reference to anything that is not in the set is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NoReturn

from harness.errors import InvalidDocumentError, InvalidScenarioError, StatecertError, UsageError
from harness.wire import json_bytes, resources
from harness.wire.schema_walk import UnsureError, Walker

if TYPE_CHECKING:
    import jsonschema
    import jsonschema_rs

BASE: Final = "https://statecert.invalid/schemas/"
"""What every ``$id`` starts with; the reserved domain can never be reached."""

_MOST_ERRORS: Final = 5
_MOST_EXAMINED: Final = 200
_SHOWN: Final = 80
_FEW: Final = 20_000
"""Values of the documents of one set that are walked before it pays to compile: each takes about three microseconds."""

_VALUE_BYTES: Final = 17
"""Bytes of evidence by values in it, as measured."""

InvalidError = type[InvalidDocumentError] | type[InvalidScenarioError]
"""The error to raise: of a document that cannot be trusted, or of a scenario a person wrote."""


class _Shipped(Mapping[str, Mapping[str, object]]):
    """A schema of the product and all that it refers to, each read when somebody asks for it.

    To judge one kind of certificate the parts of a schema that speak of the others are not needed, nor are the files
    that they refer to, which are ten times as long.

    Args:
        name: Of the first one, without its ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, name: str) -> Mapping[str, object]:
        """Return one schema that the product ships."""
        try:
            return _shipped(name)
        except UsageError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        """List the first one and what it refers to, directly or not."""
        return iter(_reached(self._name))

    def __len__(self) -> int:
        """Count what is listed."""
        return len(_reached(self._name))


class SchemaSet:
    """Schemas that may refer to one another, and their compiled validators.

    Args:
        schemas: By file name without its ending, like ``common.v1``; :meth:`of_texts` reads them at once.
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, object]]) -> None:
        self._schemas = schemas
        self._fast: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self._slow: dict[str, jsonschema.Draft202012Validator] = {}
        self._walker = Walker(self._schemas)

    @classmethod
    def of_texts(cls, texts: Mapping[str, bytes]) -> SchemaSet:
        """Return the set of these schemas.

        Args:
            texts: File name, like ``common.v1.json``, to the bytes of the schema.

        Raises:
            StatecertError: A schema is no JSON object, or its ``$id`` does not end in its file name.
        """
        return cls({_stem(name): _parsed(name, text) for name, text in texts.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all schemas, sorted, like ``common.v1``."""
        return tuple(sorted(self._schemas))

    def schema(self, name: str) -> Mapping[str, object]:
        """Return one schema as a mapping, not to be changed.

        Raises:
            UsageError: There is no schema of that name.
        """
        try:
            return self._schemas[name]
        except KeyError:
            known = ", ".join(self.names) or "none"
            raise UsageError(f"no schema {name[:80]!r}; there are: {known}") from None

    def is_valid(self, value: object, name: str) -> bool:
        """Tell whether ``value`` fits the schema ``name``, by the fast validator alone.

        Text that is no Unicode (a lone surrogate) cannot stand in a document, so it fits nothing.
        """
        try:
            return self._fast_validator(name).is_valid(value)
        except UnicodeEncodeError:
            return False

    def errors(self, value: object, name: str) -> list[str]:
        """Return what the explaining validator finds, most telling first, each once, at most five lines."""
        from jsonschema.exceptions import relevance

        found = islice(self._slow_validator(name).iter_errors(value), _MOST_EXAMINED)
        ranked = sorted(found, key=relevance, reverse=True)
        return list(islice(dict.fromkeys(_explained(_leaf(error)) for error in ranked), _MOST_ERRORS))

    def validate(self, value: object, name: str, where: str, *, error: InvalidError = InvalidDocumentError) -> None:
        """Do nothing if ``value`` fits the schema ``name``.

        Args:
            value: What a strict read returned.
            name: Schema without folder and ending, like ``certificate.v1``.
            where: What to call the document in an error, mostly its path.
            error: What to raise.

        Raises:
            InvalidDocumentError: It does not fit; the text lists paths, findings and what is
                allowed.
            InvalidScenarioError: The same, if asked for by ``error``.
            UsageError: There is no schema of that name.
        """
        walked = self._walk(value, name)
        if walked:
            return
        fast = self._fast_validator(name)
        if walked is None and fast.is_valid(value):
            return
        lines = self.errors(value, name) or [_second_hand(fast, value)]
        raise error(f"does not fit schema {name}: " + "; ".join(lines), where=where)

    def expect(self, size: int) -> None:
        """Hear that documents of so many bytes come: where walking them costs more than compiling, compile at once."""
        if 2 * size > _FEW * _VALUE_BYTES:
            self._walker.values = max(self._walker.values, _FEW)

    def _walk(self, value: object, name: str) -> bool | None:
        """Judge one of the first documents; None: it is left to the compiled validator."""
        if name in self._fast or self._walker.values >= _FEW or name not in self._schemas:
            return None
        try:
            return self._walker.is_valid(value, name)
        except UnsureError:
            return None

    def _fast_validator(self, name: str) -> jsonschema_rs.Draft202012Validator:
        if name not in self._fast:
            import jsonschema_rs

            schema = dict(self.schema(name))
            others = [(str(one["$id"]), one) for one in self._all()]
            try:
                self._fast[name] = jsonschema_rs.Draft202012Validator(
                    schema,
                    registry=jsonschema_rs.Registry(others, retriever=_refuse_to_fetch),
                    retriever=_refuse_to_fetch,
                    pattern_options=jsonschema_rs.RegexOptions(),
                )
            except ValueError as error:
                raise StatecertError(f"schema {name} cannot be compiled: {error}") from error
        return self._fast[name]

    def _slow_validator(self, name: str) -> jsonschema.Draft202012Validator:
        if name not in self._slow:
            import jsonschema
            from referencing import Registry
            from referencing.jsonschema import DRAFT202012

            found = ((str(one["$id"]), DRAFT202012.create_resource(one)) for one in self._all())
            registry = Registry().with_resources(found)
            self._slow[name] = jsonschema.Draft202012Validator(self.schema(name), registry=registry)
        return self._slow[name]

    def _all(self) -> Iterable[dict[str, object]]:
        return map(dict, self._schemas.values())


@cache
def product_schemas() -> SchemaSet:
    """Return the set of the schemas that the product ships."""
    names = resources.resource_names("schemas")
    return SchemaSet({_stem(name): _shipped(_stem(name)) for name in names})


def schema(name: str) -> Mapping[str, object]:
    """Return one schema of the product; see :meth:`SchemaSet.schema`."""
    return product_schemas().schema(name)


def validate(value: object, schema_name: str, where: str, *, error: InvalidError = InvalidDocumentError) -> None:
    """Validate against a schema of the product; see :meth:`SchemaSet.validate`."""
    _set_of(schema_name).validate(value, schema_name, where, error=error)


def expect(schema_name: str, size: int) -> None:
    """Hear that so many bytes of documents of a schema come; see :meth:`SchemaSet.expect`."""
    _set_of(schema_name).expect(size)


@cache
def _set_of(name: str) -> SchemaSet:
    """Return the set of one schema and of what it refers to: a quick gate reads no others.

    Raises:
        UsageError: There is no schema of that name.
    """
    _shipped(name)
    return SchemaSet(_Shipped(name))


@cache
def _shipped(name: str) -> dict[str, object]:
    """Read one schema of the product; sets that share it share what was read, which nobody changes."""
    return _parsed(f"{name}.json", resources.resource_text("schemas", f"{name}.json"))


@cache
def _reached(name: str) -> tuple[str, ...]:
    """Return a schema's name and those of all that it refers to."""
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = None
            waiting += _referred(_shipped(one))
    return tuple(found)


def _referred(schema: object) -> Iterator[str]:
    """Names of the files that stand before the ``#`` of a reference."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            yield _stem(reference.partition("#")[0])
    if isinstance(schema, (dict, list)):
        for inner in schema.values() if isinstance(schema, dict) else schema:
            yield from _referred(inner)


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"reference to {uri!r}: schemas are never fetched, add it to the set")


def _stem(name: str) -> str:
    return name.removesuffix(".json")


def _parsed(name: str, text: bytes) -> dict[str, object]:
    try:
        value: object = json_bytes.loads(text)
    except json_bytes.NotJsonError as error:
        raise StatecertError(f"schema {name} is not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("$id") != BASE + name:
        raise StatecertError(f"schema {name} must be an object with the $id {BASE + name}")
    return value


def _second_hand(fast: jsonschema_rs.Draft202012Validator, value: object) -> str:
    """Word the refusal of the fast validator when the other one sees nothing wrong.

    A line feed at the end of a text is the known case: ``$`` of the one expression library lets it
    pass, ``$`` of the other does not.
    """
    first = next(iter(fast.iter_errors(value)), None)
    if first is None:
        return "the validators contradict each other; nothing is accepted on one's word alone"
    return f"{_pointer(first.instance_path)}: {_printable(first.message)}"


def _pointer(path: Iterable[str | int]) -> str:
    steps = (_printable(str(step).replace("~", "~0").replace("/", "~1")) for step in path)
    return "/" + "/".join(steps)


def _printable(text: str) -> str:
    """Escape and cut text from a document before it goes into a message."""
    return _cut(ascii(text)[1:-1])


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _shown(value: object) -> str:
    """Spell a value as JSON, whose own escapes leave only a few letters to replace."""
    import orjson

    try:
        text = orjson.dumps(value)[: 4 * _SHOWN].decode("utf-8", "replace")
    except TypeError:
        return _printable(repr(value))
    return _cut(text.replace("\x7f", "\\u007f").encode("ascii", "backslashreplace").decode())


def _leaf(error: jsonschema.ValidationError) -> jsonschema.ValidationError:
    """Go down into the branch of a choice that the value was most likely meant for.

    That is the one whose marks (a constant, an enum, the type of the whole) fit best, then the one
    with the fewest errors.
    """
    from jsonschema.exceptions import relevance

    while error.context and not _choices(error):
        branches: dict[object, list[jsonschema.ValidationError]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        nearest = min(branches.values(), key=lambda found: (sum(map(_is_mark, found)), len(found)))
        error = max(nearest, key=relevance)
    return error


def _choices(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
    """Return what each branch of a choice between words says of a text, like a name of a list or a reference.

    Empty: it is no such choice, and one branch speaks for all.
    """
    said = [inner for inner in error.context or () if inner.validator != "type" or inner.path]
    words = all(inner.validator in {"const", "enum", "pattern"} and not inner.path for inner in said)
    return sorted(said, key=lambda inner: str(inner.validator)) if words and len(said) > 1 else []


def _is_mark(error: jsonschema.ValidationError) -> bool:
    return error.validator in {"const", "enum"} or (error.validator == "type" and not error.path)


def _explained(error: jsonschema.ValidationError) -> str:
    """Word one error: path, what was found, what is allowed."""
    word = _WORDING.get(str(error.validator))
    text = word(error) if word is not None else f"found {_shown(error.instance)}; {error.validator}"
    if choices := _choices(error):
        found, *allowed = (_WORDING[str(one.validator)](one) for one in choices)
        text = ", or ".join((found, *(one.partition("; allowed is ")[2] for one in allowed)))
    return f"{_pointer(error.absolute_path)}: {text}"


def _missing(error: jsonschema.ValidationError) -> str:
    wanted = error.validator_value if isinstance(error.validator_value, list) else []
    held = error.instance if isinstance(error.instance, dict) else {}
    names = ", ".join(repr(name) for name in wanted if name not in held)
    return f"found no {_printable(names)}; it is required"


def _superfluous(error: jsonschema.ValidationError) -> str:
    properties = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    held = error.instance if isinstance(error.instance, dict) else {}
    names = ", ".join(repr(name) for name in held if name not in properties)
    allowed = ", ".join(sorted(properties)) or "none"
    return f"found unknown {_printable(names)}; allowed are {allowed}"


def _allowed(text: str) -> Callable[[jsonschema.ValidationError], str]:
    """Return a wording that shows the finding and puts the schema's own value after ``text``."""

    def worded(error: jsonschema.ValidationError) -> str:
        return f"found {_shown(error.instance)}; {text} {_shown(error.validator_value)}"

    return worded


_WORDING: Final[Mapping[str, Callable[[jsonschema.ValidationError], str]]] = {
    "required": _missing,
    "additionalProperties": _superfluous,
    "unevaluatedProperties": _superfluous,
    "type": _allowed("allowed is the type"),
    "const": _allowed("allowed is only"),
    "enum": _allowed("allowed is one of"),
    "pattern": _allowed("allowed is text like"),
    "minimum": _allowed("allowed is at least"),
    "maximum": _allowed("allowed is at most"),
    "minLength": _allowed("allowed are letters, at least"),
    "maxLength": _allowed("allowed are letters, at most"),
    "minItems": _allowed("allowed are items, at least"),
    "maxItems": _allowed("allowed are items, at most"),
    "minProperties": _allowed("allowed are fields, at least"),
    "maxProperties": _allowed("allowed are fields, at most"),
    "uniqueItems": _allowed("allowed are items that differ, unique is"),
    "oneOf": _allowed("allowed is exactly one of"),
    "anyOf": _allowed("allowed is any of"),
    "not": _allowed("allowed is anything but"),
}
