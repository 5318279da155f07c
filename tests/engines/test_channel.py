"""The channel: whole messages or a named error, within a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from harness.engines.channel import Channel, ChannelClosedError
from harness.errors import ProtocolError


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    near, far = Channel(near_read, near_write), Channel(far_read, far_write)
    yield near, far
    near.close()
    far.close()


def test_a_message_arrives_with_its_frames(ends: tuple[Channel, Channel]) -> None:
    near, far = ends
    frames = [memoryview(b""), memoryview(b"abc"), memoryview(bytearray(range(200)))]

    near.send({"op": "look", "n": 3}, frames, seconds=1)
    message = far.receive(seconds=1)

    assert message.body == {"op": "look", "n": 3}
    assert [bytes(frame) for frame in message.frames] == [bytes(frame) for frame in frames]


def test_a_number_of_another_library_arrives_as_the_integer_that_it_stands_for(ends: tuple[Channel, Channel]) -> None:
    near, far = ends

    near.send({"layer": np.int64(3), "shape": [np.int32(2), np.uint8(7)]}, seconds=1)

    assert far.receive(seconds=1).body == {"layer": 3, "shape": [2, 7]}


def test_what_stands_for_no_integer_is_not_sent(ends: tuple[Channel, Channel]) -> None:
    near, _ = ends

    with pytest.raises(TypeError):
        near.send({"layer": np.float64(3.0).reshape(1)}, seconds=1)


@pytest.mark.parametrize(
    "garbage", [b"Traceback (most recent call last)", b"scm1" + b"\xff" * 8, b"scm1\x02\x00\x00\x00\x00\x00\x00\x00[]"]
)
def test_what_is_no_message_is_refused(garbage: bytes) -> None:
    read, write = os.pipe()
    spare_read, spare_write = os.pipe()
    channel = Channel(read, spare_write)
    os.write(write, garbage)

    with pytest.raises(ProtocolError):
        channel.receive(seconds=1)

    channel.close()
    os.close(write)
    os.close(spare_read)


def test_a_closed_end_is_told_from_silence(ends: tuple[Channel, Channel]) -> None:
    near, far = ends
    with pytest.raises(TimeoutError):
        far.receive(seconds=0.01)

    near.close()

    with pytest.raises(ChannelClosedError):
        far.receive(seconds=1)
    with pytest.raises(ChannelClosedError):
        far.send({"a": 1}, seconds=1)


def test_a_peer_that_does_not_read_is_a_timeout_too(ends: tuple[Channel, Channel]) -> None:
    near, _ = ends

    with pytest.raises(TimeoutError):
        near.send({}, [bytes(4 << 20)], seconds=0.05)
