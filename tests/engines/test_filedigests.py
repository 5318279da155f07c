"""Digests of files that are handed on from child to child hold for the very file that was read, and no other."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.engines import filedigests
from harness.errors import ProtocolError


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filedigests, "_known", {})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_that_stays_as_it_is_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(b"code")
    assert filedigests.file_digest(path) == digest(b"code")
    (key,) = filedigests.known()

    filedigests.believe({key: "f" * 64})  # were it read again, its own digest would come back

    assert filedigests.file_digest(path) == "f" * 64


def test_a_changed_file_is_read_again_though_size_and_time_of_writing_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(b"code")
    before = path.stat()
    filedigests.file_digest(path)

    path.write_bytes(b"edit")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert filedigests.file_digest(path) == digest(b"edit")


def test_another_file_in_its_place_is_read(tmp_path: Path) -> None:
    path, other = tmp_path / "library.so", tmp_path / "other"
    path.write_bytes(b"code")
    filedigests.file_digest(path)

    other.write_bytes(b"edit")
    other.replace(path)

    assert filedigests.file_digest(path) == digest(b"edit")


def test_what_is_no_table_of_digests_is_a_protocol_error() -> None:
    broken: tuple[object, ...] = (None, [], {"a": 1})
    for told in broken:
        with pytest.raises(ProtocolError, match="digests of files"):
            filedigests.believe(told)
