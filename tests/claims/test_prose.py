"""A text is read by lines: what it cites, what it shows as generated, what it claims; hostile ones in linear time."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.deriving.prose import claims_something, counted, numbers, read_prose, verdict_of, verdicts_of


def read(text: str) -> list[tuple[int, str, str, str, bool, bool, bool]]:
    return [tuple(one) for one in read_prose("a.md", text.encode()).citations]  # type: ignore[misc]


def test_citations_come_with_line_words_target_pointer_and_whether_they_are_historical() -> None:
    text = "One.\n\nTwo [a](cert:0123456789ab#/x/1) and\nthree. Historical: [b](cert:A01/t-t/cpu).\n"

    assert read(text) == [
        (3, "a", "0123456789ab", "/x/1", False, False, False),
        (4, "b", "A01/t-t/cpu", "", True, False, False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\n[a](cert:0123456789ab)\n```\n",
        "~~~\n[a](cert:0123456789ab)\n~~~\n",
        "[a](https://x.invalid/cert:1)\n",
        "`[a](cert:A/b/c)`\n",
    ],
)
def test_code_and_other_links_are_no_citations(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "## It [a](cert:0123456789ab)\n",
        "````\n```\n````\nIt [a](cert:0123456789ab)\n",
        "```\n``` python\n```\nIt [a](cert:0123456789ab)\n",
        "``` x ``` and\n\n[a](cert:0123456789ab)\n",
    ],
)
def test_what_a_forge_shows_as_text_is_read(text: str) -> None:
    assert [one[1] for one in read(text)] == ["a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("passed", {"pass"}),
        ("passed without a stop", {"pass", "stop", "negated"}),
        ("did not pass", {"pass", "negated"}),
        ("failed", {"stop"}),
        ("was not run", {"not_run"}),
        ("passes with no error", {"pass", "error", "negated"}),
        ("ran", set()),
    ],
)
def test_every_verdict_of_a_text_is_told_and_that_it_is_negated(text: str, said: set[str]) -> None:
    assert verdicts_of(text) == said


def test_a_block_is_what_lies_between_its_lines() -> None:
    text = "x\n\n<!-- statecert:begin view=matrix claim=A01/*/* -->\n| a |\n\nb\n<!-- statecert:end -->\ny\n"
    found = read_prose("a.md", text.encode())

    (block,) = found.blocks
    assert (block.line, block.settings, block.held) == (3, {"view": "matrix", "claim": "A01/*/*"}, "| a |\n\nb\n")
    assert found.faults == []
    assert [one.text for one in found.sentences] == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- statecert:begin view=matrix claim=a/b/c -->\n", "does not end"),
        ("<!-- statecert:end -->\n", "does not begin"),
        ("<!-- statecert:begin view=matrix claim=`x` -->\n", "form that is not known"),
        ("It [passed][x].\n\n[x]: cert:0123456789ab\n", "form that is not read"),
        ('It <a href="cert:0123456789ab">passed</a>.\n', "form that is not read"),
        ("It [[passed]](cert:0123456789ab).\n", "form that is not read"),
        ("It [ran. Passed](cert:0123456789ab).\n", "form that is not read"),
    ],
)
def test_half_a_block_is_a_fault(text: str, said: str) -> None:
    assert said in read_prose("a.md", text.encode()).faults[0][1]


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("273.55 ms", 273_549_999, "ns"),
        ("1,234", 1234, ""),
        ("8.3 MiB", 8_703_180, "bytes"),
        ("at least 5 s", 9_000_000_000, "ns"),
        ("\u2264 2 KiB", 2048, "bytes"),
        ("95 %", 950_000, "ppm"),
    ],
)
def test_a_number_spans_what_its_last_digit_leaves_open(text: str, value: int, kind: str) -> None:
    (said,) = numbers(text)

    assert said.kind == kind
    assert said.least <= value <= said.most


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("273.55 ms", 273_556_000),
        ("2 s", 1_400_000_000),
        ("2 s", 2_900_000_000),
        ("at most 5 s", 5_000_000_001),
        ("7", 8),
    ],
)
def test_a_number_beside_it_is_not_in_its_span(text: str, value: int) -> None:
    (said,) = numbers(text)

    assert not said.least <= Fraction(value) <= said.most


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("28 of 30", (28, 30)),
        ("64/64", (64, 64)),
        ("all seven rows", (7, 7)),
        ("all of the 12", (12, 12)),
        ("each", None),
    ],
)
def test_counts_are_read(text: str, count: tuple[int, int] | None) -> None:
    assert counted(text) == count


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("On Metal q8_0/q8_0 passes.", True),
        ("F16/F32 is 1.7x smaller.", True),
        ("| CUDA | Q4_0 | Q4_0 | pass |", True),
        ("Qualified on gfx1151.", True),
        ("The codec knows q8_0/q8_0.", False),
        ("It passes its tests.", False),
        ("CUDA is supported.", False),
    ],
)
def test_a_sentence_claims_something_if_it_tells_how_a_pair_or_a_device_fared(text: str, claim: bool) -> None:
    (sentence,) = read_prose("a.md", text.encode()).sentences

    assert claims_something(sentence) is claim


def test_pass_and_stop_together_are_no_verdict() -> None:
    assert [verdict_of(text) for text in ("it passes", "stopped", "passes and fails", "runs")] == [
        "pass",
        "stop",
        "",
        "",
    ]


@given(
    st.text(
        alphabet=st.sampled_from("[]()<>-#`~|*. \n\rcert:statecert:begin end view=q8_0/f16 12of%ms\u202e\x1b"),
        max_size=400,
    )
)
@settings(max_examples=300, deadline=None)
def test_whatever_is_sent_is_read(text: str) -> None:
    found = read_prose("a.md", text.encode("utf-8", "surrogatepass"))

    for sentence in found.sentences:
        claims_something(sentence)
        numbers(sentence.text)
        counted(sentence.text)


@pytest.mark.parametrize(
    "piece", ["[", "[a](", "[a](cert:", "`", "1", "1 of ", "q8_0/", "<!-- statecert:begin ", "| a ", "at least ", ". A"]
)
def test_a_long_text_takes_linear_time(piece: str) -> None:
    data = (piece * 200_000)[:1_000_000].encode()

    began = time.process_time()
    for sentence in read_prose("a.md", data).sentences:
        claims_something(sentence)
    assert time.process_time() - began < 5


def test_bytes_that_are_no_text_are_read_as_such() -> None:
    assert read_prose("a.md", b"\xff\xfe\x00[a](cert:0123456789ab)\n").citations[0].target == "0123456789ab"
