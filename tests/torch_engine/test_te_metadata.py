"""Part 0 is words; anything else is refused."""

from __future__ import annotations

import struct

import pytest

from harness.torch_engine.errors import MetadataError
from harness.torch_engine.metadata import Metadata, decode_metadata

META = Metadata(
    position=300,
    logits_valid=True,
    sampler_valid=False,
    decoded=4,
    layers=((1, 300, 0, 0), (2, 300, 300, 9)),
)


def test_metadata_is_little_endian_words_in_the_documented_order() -> None:
    raw = META.encode()

    words = struct.unpack("<13Q", raw)

    assert words == (1, 300, 1, 4, 2, 1, 300, 0, 0, 2, 300, 300, 9)


def test_metadata_reads_back_as_written() -> None:
    raw = META.encode()

    assert decode_metadata(raw) == META


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:-1], "at least"),
        (lambda raw: raw[:-8], "layers"),
        (lambda raw: raw + bytes(8), "layers"),
        (lambda raw: b"\x02" + raw[1:], "version"),
        (lambda raw: raw[:16] + b"\x08" + raw[17:], "flags"),
        (lambda raw: b"", "at least"),
    ],
)
def test_changed_metadata_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    raw = change(META.encode())

    with pytest.raises(MetadataError, match=message) as refusal:
        decode_metadata(raw)

    assert refusal.value.code == "metadata"
