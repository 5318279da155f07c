"""Messages of a rendered conversation: where they begin, what is content, what is head and turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from harness.torch_engine.chat import FAMILIES, ChatFormat, Ids, chat_format
from harness.torch_engine.errors import OptionError
from tests.torch_engine.support import shared_engine

TEXT = [100, 101, 102]
HEADER = [60, 61, 62, 63]


def tokens(*parts: Sequence[int] | int) -> Ids:
    flat = [number for part in parts for number in ([part] if isinstance(part, int) else part)]
    return np.array(flat, dtype=np.int32)


@pytest.fixture
def chatml() -> ChatFormat:
    return chat_format("chatml:volatile=60+61,volatile_end=63")


SYSTEM, USER, ASSISTANT, TOOL = [0, 3, 2], [0, 4, 2], [0, 5, 2], [0, 6, 2]
END = [1, 2]


def test_each_message_after_the_first_begins_a_cut(chatml: ChatFormat) -> None:
    prompt = tokens(SYSTEM, TEXT, END, USER, TEXT, END, ASSISTANT)
    assert chatml.cuts(prompt) == (8, 16)
    assert [message.role for message in chatml.messages(prompt)] == ["system", "user", "assistant"]


def test_a_prompt_without_markers_has_no_cut(chatml: ChatFormat) -> None:
    assert chatml.cuts(tokens(TEXT)) == ()
    assert chatml.cuts(tokens()) == ()


def test_a_token_that_begins_all_prompts_is_no_message() -> None:
    deepseek = chat_format("deepseek")
    assert deepseek.cuts(tokens(7, 0, TEXT, 1, TEXT, 2, 0, TEXT)) == (5, 10)
    assert deepseek.cuts(tokens(7, TEXT, 0, TEXT, 1)) == (4, 8)


def test_deepseek_cuts_at_every_role_marker() -> None:
    deepseek = chat_format("deepseek:user=10,assistant=11,end=12")
    prompt = tokens(7, 50, 10, 51, 11, 52, 12, 10, 53, 11)
    assert deepseek.cuts(prompt) == (2, 4, 7, 9)
    assert deepseek.turn(prompt) == 7
    assert deepseek.head(prompt) == 2


def test_mistral_answers_begin_behind_the_question() -> None:
    mistral = chat_format("mistral")
    tools = tokens(506, 3, TEXT, 4, 0, TEXT, 1, TEXT, 2, 5, TEXT, 6, 5, TEXT, 6, TEXT, 2, 0, TEXT, 1)
    roles = [message.role for message in mistral.messages(tools)]
    assert roles == ["tools", "user", "assistant", "tool", "tool", "assistant", "user"]
    assert mistral.head(tools) == mistral.messages(tools)[1].start
    assert mistral.turn(tools) == mistral.messages(tools)[6].start


def test_a_quoted_marker_inside_a_message_is_content(chatml: ChatFormat) -> None:
    plain = tokens(USER, TEXT, TEXT, END, ASSISTANT)
    quoted = tokens(USER, TEXT, SYSTEM, END, ASSISTANT)
    assert chatml.cuts(quoted) == chatml.cuts(plain)


def test_a_lone_end_marker_hides_no_later_message(chatml: ChatFormat) -> None:
    assert chatml.cuts(tokens(USER, TEXT, END, TEXT, END, ASSISTANT)) == (13,)


def test_an_end_marker_without_its_separator_ends_too(chatml: ChatFormat) -> None:
    assert chatml.cuts(tokens(USER, TEXT, 1, ASSISTANT, TEXT, END, USER)) == (7, 15)


def test_a_role_that_nobody_knows_is_a_message_all_the_same(chatml: ChatFormat) -> None:
    prompt = tokens([0, 99], TEXT, END, USER, TEXT)
    assert [message.role for message in chatml.messages(prompt)] == ["", "user"]


def test_cuts_depend_on_what_is_before_them_and_the_token_at_them(chatml: ChatFormat) -> None:
    whole = tokens(
        SYSTEM, TEXT, END, USER, TEXT, END, ASSISTANT, TEXT, END, TOOL, TEXT, END, TOOL, TEXT, END, ASSISTANT
    )
    cuts = chatml.cuts(whole)
    for end in range(len(whole) + 1):
        assert chatml.cuts(whole[:end]) == tuple(cut for cut in cuts if cut < end)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_cuts_of_every_family_are_those_of_all_longer_prompts(family: str) -> None:
    chat = chat_format(family)
    rng = np.random.default_rng(5)
    ids = [numbers[0] for _, numbers in chat.ids]
    for _ in range(20):
        prompt = rng.choice([*ids, 100, 101], size=60).astype(np.int32)
        cuts = chat.cuts(prompt)
        for end in range(len(prompt)):
            assert chat.cuts(prompt[:end]) == tuple(cut for cut in cuts if cut < end), (family, prompt.tolist(), end)


def test_the_head_is_what_all_turns_share(chatml: ChatFormat) -> None:
    assert chatml.head(tokens(SYSTEM, TEXT, END, USER, TEXT)) == 8
    assert chatml.head(tokens(USER, TEXT, END, ASSISTANT)) == 0


def test_the_turn_begins_before_all_answers_of_tools(chatml: ChatFormat) -> None:
    prompt = tokens(USER, TEXT, END, ASSISTANT, TEXT, END, TOOL, TEXT, END, TOOL, TEXT, END, ASSISTANT)
    assert chatml.turn(prompt) == 16
    assert chatml.turn(tokens(USER, TEXT, END, ASSISTANT)) == 0


def test_a_volatile_header_moves_into_the_turn(chatml: ChatFormat) -> None:
    prompt = tokens(SYSTEM, HEADER, TEXT, END, USER, TEXT, END, ASSISTANT)
    moved = chatml.arranged(prompt)
    assert moved.tolist() == tokens(SYSTEM, TEXT, END, USER, HEADER, TEXT, END, ASSISTANT).tolist()
    assert chatml.arranged(moved).tolist() == moved.tolist()


@pytest.mark.parametrize(
    "parts",
    [
        (SYSTEM, TEXT, HEADER, TEXT, END, USER, TEXT),
        (SYSTEM, HEADER[:3], TEXT, END, USER, TEXT),
        (SYSTEM, HEADER[:1], TEXT, 63, END, USER, TEXT),
        (SYSTEM, HEADER[:2], [100] * 300, 63, END, USER, TEXT),
        (USER, HEADER, TEXT, END, ASSISTANT),
    ],
    ids=["in_the_middle", "without_an_end", "another_beginning", "too_long", "nothing_before_the_turn"],
)
def test_what_is_no_header_stays(chatml: ChatFormat, parts: tuple[list[int], ...]) -> None:
    prompt = tokens(*parts)
    assert chatml.arranged(prompt).tolist() == prompt.tolist()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("alpaca", "expected one of"),
        ("chatml:begin=9", "expected one of"),
        ("chatml:start=x", "an id from 0 on for start"),
        ("chatml:start=7+8", "an id from 0 on for start"),
        ("chatml:start=1", "an id of its own"),
        ("chatml:volatile=60", "both volatile and volatile_end"),
    ],
)
def test_a_format_that_is_none_is_refused(text: str, names: str) -> None:
    with pytest.raises(OptionError, match=names):
        chat_format(text)


def test_formats_with_the_same_ids_are_equal() -> None:
    assert chat_format("chatml") == chat_format("chatml:end=1")
    assert chat_format("chatml").spec != chat_format("chatml:end=9").spec


def test_one_cut_a_turn_needs_a_chat_format() -> None:
    with pytest.raises(OptionError, match="expected a chat format"):
        shared_engine().open_session(keep="turn")
