from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from harness.errors import InvalidDocumentError, InvalidScenarioError
from harness.wire import canonical
from harness.wire.strict import Limits
from harness.wire.yaml_text import load_yaml

PRINTABLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co", "Zl", "Zp"]), max_size=20)
KEYS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12)
VALUES = st.recursive(
    PRINTABLE | st.booleans() | st.integers(-canonical.MAX_INTEGER, canonical.MAX_INTEGER),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)

REFUSED = {
    "a key twice": (b"a: 1\nb: 2\na: 3\n", "line 3, column 1: found key 'a' a second time"),
    "a nested key twice": (b"x:\n  - {a: 1, a: 2}\n", "#/x/0: line 2, column 12"),
    "a float": (b"limit: 1.5\n", "s.yaml#/limit: line 1, column 8: found the number 1.5"),
    "an exponent": (b"- 1e5\n", "the number 1e5"),
    "not a number": (b"- .nan\n", "the number .nan"),
    "infinity": (b"- -.inf\n", "the number -.inf"),
    "an octal": (b"- 010\n", "the number 010"),
    "a hex number": (b"- 0x1F\n", "the number 0x1F"),
    "an underscore": (b"- 1_000\n", "the number 1_000"),
    "a plus": (b"- +5\n", "the number +5"),
    "minus zero": (b"- -0\n", "the integer -0"),
    "a large integer": (b"- 9007199254740992\n", "the integer 9007199254740992"),
    "an integer of 5,001 digits": (b"- " + b"9" * 5001, "the integer 999"),
    "an empty value": (b"a:\n", "found a null"),
    "a tilde": (b"a: ~\n", "found a null"),
    "null": (b"a: Null\n", "found a null"),
    "True": (b"a: True\n", "write true"),
    "an alias": (b"a: &x [1]\nb: *x\n", "an anchor (&name)"),
    "an alias alone": (b"b: *x\n", "an alias (*name)"),
    "a tag": (b"a: !!python/object:os.system x\n", "the tag tag:yaml.org,2002:python/object:os.system"),
    "a local tag": (b"a: !x {b: 1}\n", "the tag !x"),
    "a merge key": (b"<<: {a: 1}\n", "a merge key"),
    "two documents": (b"a: 1\n---\nb: 1\n", "a second document"),
    "a directive": (b"%YAML 1.2\n---\na: 1\n", "a % directive"),
    "nothing": (b"", "no document"),
    "only a comment": (b"# x\n", "no document"),
    "an open list": (b"a: [1,\n", "line 2, column 1"),
    "a tab": (b"a:\n\tb: 1\n", "line 2, column 1"),
    "wrong indentation": (b"a: b: c\n", "line 1, column 5"),
    "a byte order mark": (b"\xef\xbb\xbfa: 1\n", "byte order mark"),
    "Latin-1": (b"a: \xe9\n", "byte 0xe9 at offset 3"),
    "UTF-16": ("a: 1".encode("utf-16"), "byte 0xff"),
    "a control character": (b"a: \x00\n", "unacceptable character"),
    "a lone surrogate": (b'a: "\\ud800"\n', "line 1"),
    "100,000 brackets": (b"[" * 100_000, "nesting depth"),
    "25 levels": (b"- " * 26 + b"1\n", "more than 24 levels"),
    "a list as a key": (b"? [a]\n: 1\n", "a collection as a key"),
    "a key that is not ASCII": ("é: 1\n".encode(), "printable ASCII"),
    "an empty key": (b"'': 1\n", "printable ASCII"),
}


@pytest.mark.parametrize(("text", "found"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_text_ends_in_the_named_error(text: bytes, found: str) -> None:
    with pytest.raises(InvalidDocumentError, match=re.escape(found)) as caught:
        load_yaml(text, "s.yaml")

    assert str(caught.value).startswith("s.yaml")


def test_only_true_and_false_are_booleans() -> None:
    text = b"on: [on, off, yes, no, y, n, On, YES, true, false]\n"

    assert load_yaml(text, "s") == {"on": ["on", "off", "yes", "no", "y", "n", "On", "YES", True, False]}


def test_dates_times_and_versions_are_text() -> None:
    text = b"- 2026-01-02\n- 2026-01-02T03:04:05Z\n- 12:30:45\n- 1.2.3\n- end+1\n- 1e5x\n"

    assert load_yaml(text, "s") == [
        "2026-01-02", "2026-01-02T03:04:05Z", "12:30:45", "1.2.3", "end+1", "1e5x",
    ]  # fmt: skip
    assert isinstance(yaml.safe_load(text)[0], date)


def test_quoted_text_is_never_anything_else() -> None:
    assert load_yaml(b"- '1.5'\n- \"null\"\n- 'true'\n- |\n  010\n", "s") == [
        "1.5", "null", "true", "010\n",
    ]  # fmt: skip


class Quoting(yaml.SafeDumper):
    """Quotes text that another dumper leaves bare, though this reader takes it for a number (0E0) and refuses it."""


Quoting.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if re.fullmatch(r"[-+.0-9].*", text, re.DOTALL) else None
    ),
)


@given(VALUES)
@example("0E0")
def test_what_a_dumper_writes_is_read_back(value: object) -> None:
    text = yaml.dump(value, Dumper=Quoting, allow_unicode=True, default_flow_style=None)

    assert load_yaml(text.encode(), "s") == value


@given(st.binary(max_size=80) | st.text("abc:-[]{}&*!|>'\"%@`#?, \n01.~<", max_size=50).map(str.encode))
def test_any_bytes_give_a_plain_value_or_the_named_error(text: bytes) -> None:
    try:
        value = load_yaml(text, "s")
    except InvalidDocumentError:
        return

    canonical.canonical(value)


def test_the_error_of_a_scenario_can_be_asked_for() -> None:
    with pytest.raises(InvalidScenarioError, match="a second time"):
        load_yaml(b"a: 1\na: 2\n", "s", error=InvalidScenarioError)


def test_the_slower_parser_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"on: [on, 1, true, 'x']\nm: |\n  a\n  b\n"
    fast = load_yaml(text, "s")

    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)

    assert load_yaml(text, "s") == fast
    for bad, _ in REFUSED.values():
        if not bad.startswith(b"[" * 99):
            with pytest.raises(InvalidDocumentError):
                load_yaml(bad, "s")


def test_limits_hold() -> None:
    with pytest.raises(InvalidDocumentError, match="allowed are 10"):
        load_yaml(b"a: " + b"x" * 10, "s", limits=Limits(max_bytes=10))
    with pytest.raises(InvalidDocumentError, match="more than 3 values"):
        load_yaml(b"[1, 2, 3]", "s", limits=Limits(max_nodes=3))
    with pytest.raises(InvalidDocumentError, match="text of 6 letters"):
        load_yaml(b"a: xxxxxx", "s", limits=Limits(max_string_bytes=5))


def test_every_scenario_of_the_product_can_be_read() -> None:
    for path in sorted((Path(__file__).parents[2] / "scenarios").rglob("*.yaml")):
        load_yaml(path.read_bytes(), path.name)
