from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from harness.wire import canonical

SCALARS = (
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.booleans()
    | st.integers(-canonical.MAX_INTEGER, canonical.MAX_INTEGER)
)
KEYS = st.text(st.characters(max_codepoint=127), max_size=12)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
FLOATS = st.floats() | st.sampled_from([1.0, -0.0, 1e16, -1e16, 1e-7, 5e-324, 1.5e300, 1e21])


class Word(StrEnum):
    PASS = "pass"


class Number(IntEnum):
    TWO = 2


@given(VALUES)
def test_the_canonical_bytes_are_those_of_rfc_8785(value: object) -> None:
    found = canonical.canonical(value)

    assert found == rfc8785.dumps(value)  # type: ignore[arg-type]
    assert canonical.canonical_trusted(value) == found
    assert canonical.line(value) == found + b"\n"
    assert canonical.digest(value) == hashlib.sha256(found).hexdigest()


@given(VALUES, FLOATS | st.none(), st.data())
def test_a_float_or_null_anywhere_is_refused(value: object, bad: object, data: st.DataObject) -> None:
    wrapped: object = data.draw(st.sampled_from([[value, bad], [bad, value], {"a": value, "e": bad}]))
    for _ in range(data.draw(st.integers(0, 3))):
        wrapped = data.draw(st.sampled_from([[wrapped], {"true": wrapped, "z": True}, [False, wrapped]]))

    with pytest.raises(TypeError, match=r"float|NoneType"):
        canonical.canonical(wrapped)
    assert not canonical.is_plain(canonical.render_unchecked(wrapped))


@pytest.mark.parametrize("bad", [1.0, -0.0, 1e16, -1e16, 1e-7, 5e-324, 1.5e300, float("nan"), None])
def test_every_spelling_of_a_float_is_seen_at_the_top_level_too(bad: object) -> None:
    with pytest.raises(TypeError, match="at the top level"):
        canonical.render(bad)


@given(VALUES)
def test_a_rendering_without_floats_is_plain(value: object) -> None:
    assert canonical.is_plain(canonical.render(value))


def test_a_refusal_names_the_path() -> None:
    with pytest.raises(TypeError, match=r"float at cells\[1\]\.samples\[0\]\.took"):
        canonical.canonical({"cells": [{}, {"samples": [{"took": 1.5}]}]})


@pytest.mark.parametrize("key", ["é", 1, None, 1.5, "\U0001f600"])
def test_a_key_that_is_not_ascii_text_is_refused(key: object) -> None:
    with pytest.raises(TypeError, match="allowed are keys of ASCII text"):
        canonical.canonical({"a": {key: 1}})


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**64, 10**400])
def test_an_integer_beyond_53_bits_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=r"bits at a\[0\]"):
        canonical.canonical({"a": [number]})


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="lone surrogate in the text at a"):
        canonical.canonical({"a": "\ud800"})


@pytest.mark.parametrize(
    "value", [object(), b"x", {1, 2}, MappingProxyType({"a": 1}), complex(1)], ids=lambda one: type(one).__name__
)
def test_a_type_that_documents_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical.canonical({"a": value})


def test_a_cycle_is_refused_and_not_followed() -> None:
    cycle: list[object] = []
    cycle.append(cycle)

    with pytest.raises(ValueError, match="more than 250 levels"):
        canonical.canonical(cycle)


def test_tuples_and_enum_members_count_as_their_values() -> None:
    value: Mapping[str, object] = {"a": (1, 2), "b": Word.PASS, "c": Number.TWO}

    assert canonical.canonical(value) == b'{"a":[1,2],"b":"pass","c":2}'


def test_a_rendering_has_sorted_keys_two_spaces_and_a_final_line_feed() -> None:
    value = {"b": [], "a": {"y": True, "x": [1, "é"]}}

    rendered = canonical.render(value)

    assert rendered.decode() == (
        '{\n  "a": {\n    "x": [\n      1,\n      "é"\n    ],\n    "y": true\n  },\n  "b": []\n}\n'
    )
