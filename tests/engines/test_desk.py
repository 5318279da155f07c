"""What a child reads of a message."""

from __future__ import annotations

from harness.engines.channel import Message
from harness.engines.client import token_bytes
from harness.engines.desk import tokens


def test_a_prompt_that_is_begun_again_is_the_same_one_and_cannot_be_changed() -> None:
    message = Message(body={}, frames=[bytearray(token_bytes([3, 500, 2**32 - 1]))])
    other = Message(body={}, frames=[bytearray(token_bytes([3, 501, 2**32 - 1]))])

    first = tokens(message)

    assert list(first) == [3, 500, 2**32 - 1]
    assert tokens(message) is first
    assert isinstance(first, tuple)
    assert list(tokens(other)) == [3, 501, 2**32 - 1]
