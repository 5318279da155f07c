"""Nouns of evidence to mappings and back, driven by the fields of their dataclasses.

A field at its default is left out, so that each record has one spelling; a reader gets the default back. What a
mapping must look like is the business of ``schemas/evidence.v1.json``: :func:`from_mapping` is called on values
that passed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from harness.errors import InvalidDocumentError
from harness.model.evidence import (
    CellEvent,
    Crash,
    Difference,
    Distance,
    End,
    Header,
    Observation,
    PartRow,
    PartTable,
    Point,
    StepRecord,
    StoreView,
    Trust,
    Turn,
)
from harness.model.noun import defaults
from harness.model.values import CrashKind, Phase

Record = Header | Observation | End

TYPES: Final[Mapping[str, type[Record]]] = {
    "header": Header,
    "parts": PartTable,
    "cell": CellEvent,
    "point": Point,
    "turn": Turn,
    "step": StepRecord,
    "store": StoreView,
    "difference": Difference,
    "distance": Distance,
    "crash": Crash,
    "trust": Trust,
    "end": End,
}
"""Value of ``type`` in a line to the noun."""

_VOCABULARIES: Final[Mapping[str, type[Enum]]] = {"Phase": Phase, "CrashKind": CrashKind}
"""Closed vocabularies of fields, by the name that an annotation has for them."""
_SHAPES: Final[dict[type, tuple[tuple[str, object], ...]]] = {}
_READERS: Final[dict[type, Mapping[str, Any]]] = {}
"""Made at first use: a run meets few kinds of records."""
_SCALARS: Final = frozenset({str, int, bool})
_NAMES: Final = {noun: name for name, noun in TYPES.items()}


def record_to_mapping(record: Record) -> dict[str, object]:
    """Return the mapping of one line, ``type`` included."""
    mapping: dict[str, object] = {"type": _NAMES[type(record)]}
    if isinstance(record, Header):
        mapping["schema"] = "statecert/evidence/v1"
    mapping.update(_plain_fields(record))
    return mapping


def record_from_mapping(value: Mapping[str, object], where: str) -> Record:
    """Return the noun of one line that fits the schema.

    Raises:
        InvalidDocumentError: The type is unknown or a field has another type than its noun says.
    """
    noun = TYPES.get(str(value.get("type")))
    if noun is None:
        raise InvalidDocumentError(f"found type {value.get('type')!r}; allowed are {', '.join(TYPES)}", where=where)
    return _build(noun, value, where)


def row_to_mapping(row: PartRow) -> dict[str, object]:
    """Return one row of a part table as it stands in its record."""
    return _plain_fields(row)


def _plain_fields(noun: Record | PartRow) -> dict[str, object]:
    found: dict[str, object] = {}
    kind = type(noun)
    if kind not in _SHAPES:
        _SHAPES[kind] = _shape(kind)
    for name, default in _SHAPES[kind]:
        value = getattr(noun, name)
        own = type(value)
        if own in _SCALARS:
            if own is not type(default) or value != default:
                found[name] = value
        elif value != default or own is not type(default):
            plain = _plain(value)
            if plain != default:
                found[name] = plain
    return found


def _shape(noun: type[Record | PartRow]) -> tuple[tuple[str, object], ...]:
    """Names of a noun's fields with their defaults (an empty list or mapping for a factory)."""
    # an empty tuple is written as a list, so it is compared as one
    return tuple((name, [] if default == () else default) for name, default in defaults(noun))


def _plain(value: object) -> object:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PartRow):
        return row_to_mapping(value)
    if isinstance(value, Mapping):
        return {str(key): item if type(item) in _SCALARS else _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _SCALARS else _plain(item) for item in value]
    return value


def _build(noun: type[Record], value: Mapping[str, object], where: str) -> Record:
    readers = _READERS.get(noun)
    if readers is None:
        readers = _READERS[noun] = _field_readers(noun)
    known = {name: readers[name](item) for name, item in value.items() if name in readers}
    try:
        return noun(**known)
    except TypeError as error:
        raise InvalidDocumentError(f"a {noun.__name__} lacks fields ({error})", where=where) from None


def _field_readers(noun: type[Record]) -> Mapping[str, Any]:
    return {name: _reader(name, hint) for name, hint in noun.__annotations__.items()}


def _reader(name: str, hint: str) -> Any:
    if name == "rows":
        return _rows
    return _VOCABULARIES.get(hint, _frozen)


def _rows(value: object) -> tuple[PartRow, ...]:
    return tuple(_row(item) for item in value) if isinstance(value, list) else ()


def _row(value: Mapping[str, Any]) -> PartRow:
    shape = tuple(value["shape"])
    return PartRow(**{**value, "shape": shape})


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
