"""What a child reads of a message."""

from __future__ import annotations

from harness.engines.channel import Message
from harness.engines.client import token_bytes
from harness.engines.desk import tokens


def test_a_prompt_that_is_begun_again_is_a_list_of_its_own() -> None:
    message = Message(body={}, frames=[bytearray(token_bytes([3, 500, 2**32 - 1]))])

    first = list(tokens(message))
    tokens(message).clear()  # type: ignore[attr-defined] # an engine may do with its prompt what it likes

    assert first == [3, 500, 2**32 - 1]
    assert tokens(message) == first
