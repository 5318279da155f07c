"""Whatever stands in a record, a report shows it and does nothing else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from html.parser import HTMLParser

from hypothesis import example, given, settings
from markdown_it import MarkdownIt

from harness.reporting import escape, html, markdown, terminal
from harness.reporting.subjects import grid_of
from tests.reporting.hostile import HOSTILE, poison, texts
from tests.reporting.samples import sample_overview, sample_page, sample_view

ALLOWED_CONTROLS = {"\n"}
INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u2028\u2029\x80-\x9f]")
COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)


def every(test: Callable[..., None]) -> Callable[..., None]:
    """Run a property test on each hostile string and on random ones."""
    for text in HOSTILE:
        test = example(text)(test)
    return settings(max_examples=10, deadline=None)(test)


def assert_visible(text: str) -> None:
    assert not [letter for letter in text if ord(letter) < 0x20 and letter not in ALLOWED_CONTROLS]
    assert INVISIBLE.search(text) is None
    assert COMMAND.search(text) is None


class Outline(HTMLParser):
    """Tags and attributes of a page; text is left out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.comments = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def outline(page: bytes) -> Outline:
    reader = Outline()
    reader.feed(page.decode())
    return reader


HONEST_HTML = (
    outline(html.render_certificate(poison(sample_view(), "x" * 9))),
    outline(html.render_index(poison(sample_overview(), "x" * 9))),
)


@every
@given(texts)
def test_html_keeps_its_tags(text: str) -> None:
    made = (html.render_certificate(poison(sample_view(), text)), html.render_index(poison(sample_overview(), text)))
    for page, expected in zip(made, HONEST_HTML, strict=True):
        found = outline(page)
        if text:
            assert [tag for tag, _ in found.found if tag != "title"] == [t for t, _ in expected.found if t != "title"]
        assert {attribute for _, names in found.found for attribute in names if attribute.startswith("on")} == set()
        assert all(re.fullmatch(r"[0-9a-z]+\.html", link) for link in found.links)
        assert found.comments == 0
        assert_visible(page.decode())


def token_types(text: str) -> list[str]:
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    types: list[str] = []
    for token in reader.parse(text):
        types.append(token.type)
        types += [child.type for child in token.children or () if child.type not in ("text", "text_special")]
    return types


def kinds(types: list[str]) -> set[str]:
    return {kind for kind in types if kind not in ("code_inline", "softbreak")}


COUNTED = ("tr_open", "td_open", "table_open", "heading_open", "html_block", "hr", "link_open", "list_item_open")
HONEST_MARKDOWN = (
    token_types(markdown.render_page(poison(sample_page(), "x")).decode()),
    token_types(markdown.render_overview(poison(sample_overview(), "x")).decode()),
)


@every
@example(" ")
@given(texts)
def test_markdown_keeps_its_structure(text: str) -> None:
    made = (
        markdown.render_page(poison(sample_page(), text)),
        markdown.render_overview(poison(sample_overview(), text)),
    )
    for page, honest in zip(made, HONEST_MARKDOWN, strict=True):
        shown = page.decode()
        types = token_types(shown)
        assert kinds(types) <= kinds(honest)
        for kind in COUNTED if text.strip() else ():
            assert types.count(kind) == honest.count(kind), kind
        assert shown.count("<!--") == 1
        assert re.search(r"https?://|www\.|@\S", re.sub(r"(?<!\\)`[^`\n]*`", "", shown)) is None
        assert_visible(shown)


def test_only_a_claim_key_becomes_a_link() -> None:
    row = sample_overview().rows[0]
    for key, linked in ((row.claim_key, 2), ("//example.org/x/y", 0), ("javascript:alert(1)", 0), ("A01/../..", 0)):
        rows = [dataclasses.replace(row, claim_key=key)]
        page = markdown.render_overview(dataclasses.replace(sample_overview(), rows=rows, grid=grid_of(rows)))

        assert token_types(page.decode()).count("link_open") == linked


@every
@given(texts)
def test_markdown_text_comes_back_as_it_was_shown(text: str) -> None:
    shown = escape.markdown(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(f"x {shown}")

    content = "".join(child.content for token in tokens for child in token.children or ())

    expected = escape.plain(text).lstrip().replace("@", "@ ").replace("#", "# ")
    assert re.sub(r"\s", "", content) == re.sub(r"\s", "", f"x {expected}")


@every
@given(texts)
def test_a_terminal_gets_no_sequence_and_no_command(text: str) -> None:
    assert_visible(terminal.render_certificate(poison(sample_view(), text), colour=False))
    assert_visible(terminal.render_overview(poison(sample_overview(), text), colour=False))
