"""Strings that try to break out of a report, and a way to put them into every string of a noun."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar, cast

from hypothesis import strategies as st

from harness.reporting.words import MARKS

Noun = TypeVar("Noun")

HOSTILE = (
    "</script><script>alert(1)</script>",
    "--><!-- qual:end --><!-- x -->",
    "::error::owned",
    "\r::stop-commands::token",
    "##[error]owned",
    "\x1b[2J\x1b]8;;https://example.org\x07link\x1b]8;;\x07",
    "\x9b31m",
    "abc\u202egnp.exe\u2066\u200b\ufeff",
    "=cmd|' /C calc'!A0",
    "| a | b |\n| --- | --- |",
    "[text](https://example.org) ![i](https://example.org/x.png)",
    "*bold* _em_ `code` ~~gone~~ # head",
    "- item\n1. item\n> quote\n---\n===",
    '" onload="alert(1)',
    "&lt;b&gt; &#60;b&#62; &amp;",
    "https://example.org www.example.org a@example.org @everyone #123",
    "<img src=x onerror=alert(1)>",
    "<https://example.org>",
    "javascript:alert(1)",
    "{{ 7 * 7 }} {% raw %} [red]x[/red]",
    "\\`*\\|",
    "\u2028\u2029\u0085\x0b\x0c",
    "```\nx\n```",
    "$x$ $$y$$",
)

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=3).map("".join),
    st.text(max_size=40),
)


def poison(noun: Noun, text: str) -> Noun:
    """Return the noun with ``text`` in place of, or after, every string that is no known state."""
    return cast("Noun", _poisoned(noun, text))


def _poisoned(value: object, text: str) -> object:
    if isinstance(value, str):
        return value if value in MARKS else text
    if isinstance(value, Mapping):
        return {key: _poisoned(item, text) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_poisoned(item, text) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _poisoned(getattr(value, name), text) for name in names})
    return value
