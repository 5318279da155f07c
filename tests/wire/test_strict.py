from __future__ import annotations

import json
import re

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.errors import InvalidDocumentError
from harness.wire import canonical, strict
from harness.wire.strict import Form, Limits

KEYS = st.text(st.characters(max_codepoint=127), max_size=12)
SCALARS = (
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.booleans()
    | st.integers(-canonical.MAX_INTEGER, canonical.MAX_INTEGER)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)

HOSTILE = {
    "a key twice": (b'{"decision":"stop","decision":"pass"}', "key 'decision' a second time"),
    "a key twice by escape": (b'{"a":1,"\\u0061":2}', "key 'a' a second time"),
    "NaN": (b'{"a":NaN}', "'NaN'"),
    "Infinity": (b"[Infinity]", "'Infinity'"),
    "minus Infinity": (b"[-Infinity]", "'-'"),
    "an overflowing exponent": (b"[1e999]", "the float 1e999"),
    "a float": (b"[1.0]", "the float 1.0"),
    "an exponent": (b"[1E5]", "the float 1E5"),
    "null": (b"[null]", "'null'"),
    "minus zero": (b"[-0]", "-0"),
    "100,000 brackets": (b"[" * 100_000, "more than 24 levels"),
    "100,000 braces": (b'{"a":' * 100_000, "more than 24 levels"),
    "25 empty brackets in one another": (b"[" * 26 + b"]" * 26, "more than 24 levels"),
    "an integer of 5,001 digits": (b"9" * 5_001, "an integer of 5001 digits"),
    "an integer of 54 bits": (b"[9007199254740992]", "an integer of 16 digits"),
    "a leading zero": (b"[01]", "a comma and ']'"),
    "a plus sign": (b"[+1]", "'+'"),
    "a long string": (b'["' + b"x" * 65_535 + b'"]', "text of 65537 bytes"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "UTF-16 byte order mark"),
    "UTF-16 without a mark": ('{"a":1}'.encode("utf-16-le"), "'\\x00'"),
    "Latin-1": (b'{"a":"\xe9"}', "byte 0xe9"),
    "a raw surrogate": (b'["\xed\xa0\x80"]', "byte 0xed"),
    "a lone surrogate": (b'["\\ud800"]', "half of a surrogate pair"),
    "surrogates in the wrong order": (b'["\\udc00\\ud800"]', "half of a surrogate pair"),
    "trailing garbage": (b'{"a":1}}', "after the end of the value"),
    "two values": (b"1 2", "after the end of the value"),
    "a trailing comma": (b'{"a":1,}', "a key in double quotes"),
    "a comment": (b"{} // x", "after the end of the value"),
    "a raw line feed in text": (b'["a\nb"]', "raw control character"),
    "an unknown escape": (b'["\\x41"]', "a wrong escape"),
    "nothing": (b"", "the end of the document"),
    "blanks": (b" \n", "the end of the document"),
    "an open list": (b"[1", "the end of the document"),
    "a key that is not ASCII": ('{"é":1}'.encode(), "ASCII keys"),
    "a form feed": (b"[1,\x0c2]", "'\\x0c'"),
}


@pytest.mark.parametrize(("data", "found"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_end_in_the_named_error(data: bytes, found: str) -> None:
    with pytest.raises(InvalidDocumentError, match=re.escape(found)) as caught:
        strict.loads(data, where="a.json")

    assert str(caught.value).startswith("a.json")
    assert str(caught.value).isascii()


@given(VALUES)
def test_a_document_gives_back_its_value_in_every_form(value: object) -> None:
    rendered, line = canonical.render(value), canonical.line(value)
    spaced = json.dumps(value, ensure_ascii=True, indent=1).encode()

    assert strict.loads(rendered, where="a", form="rendered") == value
    assert strict.loads(line, where="a", form="canonical") == value
    assert strict.loads(line[:-1], where="a", form="canonical") == value
    for data in (rendered, line, spaced):
        assert strict.loads(data, where="a") == value


@given(st.binary(max_size=200) | st.text('[]{}:,"\\ \n0123456789.eE+-truefalsn', max_size=60).map(str.encode))
@example(b'{"":{"":0}}')
def test_any_bytes_give_a_strict_value_or_the_named_error(data: bytes) -> None:
    try:
        value = strict.loads(data, where="a")
    except InvalidDocumentError:
        return

    assert value == orjson.loads(data)
    assert strict.loads(canonical.render(value), where="a", form="rendered") == value


@given(VALUES, st.data())
def test_a_changed_byte_of_a_rendering_never_gives_the_same_value(value: object, data: st.DataObject) -> None:
    rendered = bytearray(canonical.render(value))
    at = data.draw(st.integers(0, len(rendered) - 1))
    rendered[at] ^= data.draw(st.integers(1, 255))

    try:
        found = strict.loads(bytes(rendered), where="a", form="rendered")
    except InvalidDocumentError:
        return

    assert found != value or type(found) is not type(value)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), st.data())
def test_a_repeated_key_is_refused_in_every_form(value: dict[str, object], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    doubled = canonical.canonical(value)[:-1] + b"," + canonical.canonical({key: 1})[1:]

    with pytest.raises(InvalidDocumentError, match="second time"):
        strict.loads(doubled, where="a")


@pytest.mark.parametrize("form", ["rendered", "canonical"])
@pytest.mark.parametrize("data", [b'{"a": 1}\n', b'{"b":1,"a":1}', b'{\n  "a": 1\n}\r\n', b'{"a":1}\n\n'])
def test_another_spelling_of_a_good_value_is_refused_with_its_line(data: bytes, form: Form) -> None:
    with pytest.raises(InvalidDocumentError, match=r"line \d is spelled"):
        strict.loads(data, where="a", form=form)


def test_an_error_names_file_line_and_path() -> None:
    data = b'{\n  "cells": [\n    {"samples": [1, 2, 1.5]}\n  ]\n}\n'

    with pytest.raises(InvalidDocumentError) as caught:
        strict.loads(data, where="x/a.json")

    assert caught.value.where == "x/a.json#/cells/0/samples/2"
    assert caught.value.message.startswith("line 3: found the float 1.5; allowed are integers")


def test_control_characters_of_a_hostile_key_do_not_reach_the_terminal() -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        strict.loads(b'{"\\u001b[2J\\n::error::":null}', where="a")

    assert str(caught.value).isprintable()


@pytest.mark.parametrize("key", ["Decision", "9a", "a-b", "", "a" * 65, "a b"])
def test_a_key_outside_the_certificate_alphabet_is_refused_on_request(key: str) -> None:
    data = canonical.render({"a": {key: 1}})

    assert strict.loads(data, where="a") == {"a": {key: 1}}
    with pytest.raises(InvalidDocumentError, match=r"\[a-z\]\[a-z0-9_\]"):
        strict.loads(data, where="a", certificate_keys=True)


def test_certificate_keys_pass_the_request() -> None:
    data = canonical.render({"a_1": [{"b" * 64: 2}]})

    assert strict.loads(data, where="a", certificate_keys=True) == {"a_1": [{"b" * 64: 2}]}


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("inside", "outside", "limits"),
    [
        ([1] * 9, [1] * 10, Limits(max_nodes=10)),
        (nested(3), nested(4), Limits(max_depth=3)),
        ({"a": "x" * 6}, {"a": "x" * 7}, Limits(max_string_bytes=8)),
        ({"a": "é" * 3}, {"a": "é" * 4}, Limits(max_string_bytes=8)),
        ({"a" * 6: 1}, {"a" * 7: 1}, Limits(max_string_bytes=8)),
        ([99], [100], Limits(max_integer=99)),
        ([1] * 4, [1] * 5, Limits(max_bytes=23)),
    ],
    ids=["nodes", "depth", "string", "wide string", "key", "integer", "bytes"],
)
def test_a_limit_is_exact_in_every_form(inside: object, outside: object, limits: Limits) -> None:
    forms: tuple[Form, ...] = ("rendered", "any")
    for form in forms:
        assert strict.loads(canonical.render(inside), where="a", form=form, limits=limits) == inside
        with pytest.raises(InvalidDocumentError, match=r"allowed|limit"):
            strict.loads(canonical.render(outside), where="a", form=form, limits=limits)


def test_a_large_document_within_the_limits_is_read() -> None:
    value = {"rows": [{"name": f"layer{number}.k", "bytes": number} for number in range(20_000)]}

    assert strict.loads(canonical.render(value), where="a", form="rendered") == value


def test_two_mebibytes_is_the_default_size() -> None:
    with pytest.raises(InvalidDocumentError, match="found 2097153 bytes; allowed are 2097152"):
        strict.loads(b" " * (2 * 1024 * 1024 + 1), where="a")
