"""The standard library's way and that of ``orjson`` give the same values, the same bytes, and the same refusals."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.wire import json_bytes
from harness.wire.json_bytes import MAX_INTEGER, NotJsonError, Spelling

ROOT = Path(__file__).resolve().parents[2]
SPELLINGS: tuple[Spelling, ...] = ("compact", "line", "rendered")


class Word(StrEnum):
    GOOD = "good"


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


_TEXT = st.text(max_size=8) | st.sampled_from(
    ["", "\n", "\x7f", "\x00\x1f", '"', "\\", "\u2028", "\U0001f600", "\ud800"]
)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([MAX_INTEGER, -MAX_INTEGER, MAX_INTEGER + 1, 2**63, 2**64, 10**30])
    | st.floats()
    | _TEXT
    | st.sampled_from([Word.GOOD, Number.ONE, Text("x"), UUID(int=5), b"x", {1}, object])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_TEXT, inner, max_size=4)
        | st.dictionaries(st.integers(0, 1) | st.just(Word.GOOD), inner, max_size=2)
    ),
    max_leaves=12,
)


def fast(value: object, spelling: Spelling) -> bytes | type[Exception]:
    try:
        return orjson.dumps(value, option=json_bytes._options(orjson, spelling))
    except TypeError:
        return TypeError


def slow(value: object, spelling: Spelling) -> bytes | type[Exception]:
    """The standard library's way, and what it leaves to the other."""
    try:
        return json_bytes._written(value, spelling)
    except json_bytes._UnsureError:
        return fast(value, spelling)


@given(VALUES, st.sampled_from(SPELLINGS))
@example({"b": [1, {"a": []}], "a": {}}, "rendered")
@example([[[]]], "rendered")
def test_both_spell_a_value_alike(value: object, spelling: Spelling) -> None:
    assert slow(value, spelling) == fast(value, spelling)


@given(VALUES, st.sampled_from(SPELLINGS))
def test_plain_values_are_not_left_to_the_other(value: object, spelling: Spelling) -> None:
    try:
        wanted = orjson.dumps(value, option=json_bytes._options(orjson, spelling))
    except TypeError:
        return
    kinds = {type(one) for one in flat(value)}
    if kinds <= {str, int, bool, list, dict, tuple, Word, Number}:
        assert json_bytes._written(value, spelling) == wanted


class Named(StrEnum):
    """Its members are written as their values, and are other text."""

    def __new__(cls, text: str) -> Self:
        made = str.__new__(cls, text)
        made._value_ = f"a {text}"
        return made

    WORD = "word"


class Pair(Enum):
    ONE = "one"
    TWO = (1, "two")


@pytest.mark.parametrize("value", [Named.WORD, [Named.WORD], Pair.ONE, {"a": Pair.TWO}, [[Pair.TWO]]])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_member_of_any_enum_is_written_as_its_value(value: object, spelling: Spelling) -> None:
    assert slow(value, spelling) == fast(value, spelling)


def flat(value: object) -> list[object]:
    inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list | tuple) else []
    keys: list[object] = list(value) if isinstance(value, dict) else []
    return [value, *keys, *(one for item in inner for one in flat(item))]


def read(data: bytes, how: str) -> object:
    try:
        if how == "fast":
            return exact(orjson.loads(data))
        try:
            return exact(json_bytes._read(data))
        except json_bytes._UnsureError:
            return exact(orjson.loads(data))
    except orjson.JSONDecodeError:
        return NotJsonError


def exact(value: object) -> object:
    """A value in which ``1``, ``1.0`` and ``True`` differ, and the order of keys counts."""
    return repr(value)


@given(VALUES, st.data())
def test_both_read_changed_text_alike(value: object, data: st.DataObject) -> None:
    try:
        text = bytearray(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    except TypeError:
        return
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b'"', b"\\", b",", b"}", b"0", b"-", b".5", b"e9", b" ", b"\n", b"\x00", b"\xff", b"NaN",
                             b"9" * 20, b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"Infinity", b"tru", b"\xc2\xa0"])
        )  # fmt: skip

    assert read(bytes(text), "slow") == read(bytes(text), "fast")


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"-0", b"01", b"1.0", b"1e3", b"18446744073709551616", b'{"a":1,"a":2}', b"[1,]", b"nul", b"NaN",
     b'"\\u0041"', b"\xef\xbb\xbf1", b"[" * 3000 + b"]" * 3000, b'"\x01"', "\u0661".encode(), b"[1] x", b"\x0c1"],
)  # fmt: skip
def test_both_read_odd_text_alike(text: bytes) -> None:
    assert read(text, "slow") == read(text, "fast")


def test_committed_documents_are_read_and_spelled_without_the_other() -> None:
    paths = sorted((ROOT / "certificates").glob("*/*/*/*.json"))[:5]
    assert paths
    for path in paths:
        data = path.read_bytes()

        value = json_bytes._read(data)

        assert value == orjson.loads(data)
        assert json_bytes._written(value, "rendered") == data


def test_little_is_read_without_the_other_and_much_with_it() -> None:
    code = (
        "import sys; from harness.wire import json_bytes as j\n"
        "j.loads(b'[1]'), j.dumps([1], 'line'); early = 'orjson' in sys.modules\n"
        "j.loads(b'[' + b'1,' * 2000000 + b'1]'); print(early, 'orjson' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True"]


def test_a_file_that_is_large_is_read_with_orjson_from_its_first_line_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(json_bytes._state, "left", 1000)

    json_bytes.expect(10_000)
    assert json_bytes._state["left"] == 1000

    json_bytes.expect(1_000_000)
    assert json_bytes._state["left"] < 0
    assert json_bytes.loads(b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize("before", ["", "[", "[1,", "[1, ", '{"a":', '{"a": ', "[\n", "[\t", "[\r", "\n", " "])
@pytest.mark.parametrize(
    "number", ["-0", "-0.0", "0", "9" * 18, "9" * 19, "-" + "9" * 18, "-" + "9" * 19, "1" + "0" * 25, "-01", "-0e1"]
)
def test_odd_integers_are_read_alike_wherever_they_stand(before: str, number: str) -> None:
    after = {"[": "]", "{": "}"}.get(before.strip()[:1], "")
    text = f"{before}{number}{after}".encode()
    assert read(text, "slow") == read(text, "fast")


def test_a_process_that_has_read_nothing_else_refuses_cut_text_too() -> None:
    """Parts of the standard library raise their errors only where others are imported."""
    code = "from harness.wire import json_bytes as j\nfor t in (b'{', b'[1,', b'\"', b'', b'{\"a\" 1}'):\n try: j.loads(t)\n except j.NotJsonError: print('no')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["no"] * 5
