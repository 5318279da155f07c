"""The container around a llama.cpp state: what it checks itself, and what only its guard does."""

from __future__ import annotations

import pytest

from harness.adapters.llama_image import Saved, packed, size, unpacked
from harness.errors import RefusedError

SAVED = Saved(tokens=(8, 9, 10), logits=b"logits..", blob=b"state bytes")
MODEL, OTHER = "ab" * 32, "cd" * 32


@pytest.mark.parametrize("guard", [False, True])
def test_what_was_packed_comes_back(guard: bool) -> None:
    image = packed(SAVED, MODEL, guard=guard)

    back = unpacked(image, MODEL, guard=guard)
    assert (list(back.tokens), back.logits, back.blob) == (list(SAVED.tokens), SAVED.logits, SAVED.blob)
    assert len(image) == size(3, 8, 11)


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (packed(SAVED, MODEL, guard=True)[:40], "short_buffer"),
        (packed(SAVED, MODEL, guard=True)[:-1], "short_buffer"),
        (packed(SAVED, MODEL, guard=True) + b"x", "format"),
        (b"X" + packed(SAVED, MODEL, guard=True)[1:], "format"),
        (packed(SAVED, MODEL, guard=True)[:-1] + b"S", "format"),
        (packed(SAVED, OTHER, guard=True), "identity"),
    ],
)
def test_with_a_guard_a_wrong_image_is_refused_by_name(image: bytes, code: str) -> None:
    with pytest.raises(RefusedError) as caught:
        unpacked(image, MODEL, guard=True)
    assert caught.value.code == code


def test_without_a_guard_a_changed_payload_is_left_to_the_engine() -> None:
    image = packed(SAVED, OTHER, guard=False)[:-1] + b"S"

    assert unpacked(image, MODEL, guard=False).blob == b"state byteS"
