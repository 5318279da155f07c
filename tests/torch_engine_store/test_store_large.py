"""A link that is large enough to be read ahead by a second thread behaves like a small one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harness.torch_engine import store_reading
from harness.torch_engine.store import DiskStore, Record, Section, SectionKind
from harness.torch_engine.store_record import LinkCorruptError
from tests.torch_engine_store.store_samples import flip, key, open_store, path_of, stream

SIZES = (0, 1, 63, 3 << 20, 5, (1 << 20) + 1, 64, 0, 700_001, 0)
BUDGET = 1 << 26


def large() -> tuple[Record, list[bytes]]:
    """A link of sections of odd sizes, some of them empty, and its payload."""
    sections = tuple(
        Section(name=f"part{number}", kind=SectionKind.FIXED, row_bytes=size) for number, size in enumerate(SIZES)
    )
    record = Record(key=key(8), parent=None, position=8, meta=b"", sections=sections)
    return record, [(stream(str(number), 1024) * (size // 1024 + 1))[:size] for number, size in enumerate(SIZES)]


def test_the_large_link_is_one_that_is_read_ahead() -> None:
    assert sum(SIZES) > store_reading.AHEAD_FROM


def stored(folder: Path) -> DiskStore:
    record, payload = large()
    store = open_store(folder, budget_bytes=BUDGET)
    assert store.put(record, payload) == "stored"
    return store


@pytest.mark.parametrize("ahead_from", [0, 1 << 40])
def test_a_large_link_comes_back_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_from: int) -> None:
    monkeypatch.setattr(store_reading, "AHEAD_FROM", ahead_from)
    with stored(tmp_path) as store:
        loaded = store.load(key(8))

    assert [bytes(view) for view in loaded.payload] == large()[1]


@pytest.mark.parametrize("number", [number for number, size in enumerate(SIZES) if size])
def test_damage_in_any_section_of_a_large_link_is_located(tmp_path: Path, number: int) -> None:
    with stored(tmp_path) as store:
        path = path_of(store, tmp_path, key(8))
        offset = path.stat().st_size
        for size in reversed(SIZES[number:]):
            offset = (offset - size) // 64 * 64
        flip(path, offset + SIZES[number] - 1)

        with pytest.raises(LinkCorruptError) as refused:
            store.load(key(8))

    assert refused.value.section == f"part{number}"
    assert "statecert-store-read" not in {thread.name for thread in threading.enumerate()}


def test_damage_in_the_padding_of_a_large_link_is_located(tmp_path: Path) -> None:
    with stored(tmp_path) as store:
        flip(path_of(store, tmp_path, key(8)), 4096 + 1)

        with pytest.raises(LinkCorruptError) as refused:
            store.load(key(8))

    assert (refused.value.section, refused.value.start, refused.value.stop) == ("padding", 4097, 4160)


@pytest.mark.parametrize("ahead_from", [0, 1 << 40])
@pytest.mark.parametrize("answer", ["error", "end", "short"])
def test_a_read_that_fails_is_damage_of_the_section_it_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, ahead_from: int
) -> None:
    monkeypatch.setattr(store_reading, "AHEAD_FROM", ahead_from)
    whole = os.preadv

    def read(file: int, views: list[memoryview], offset: int) -> int:
        if offset + sum(map(len, views)) <= 2 << 20:
            return whole(file, views, offset)
        if answer == "error":
            raise OSError(5, "Input/output error")
        return 0 if answer == "end" else whole(file, [views[0][:1000]], offset)

    monkeypatch.setattr("harness.torch_engine.store_reading.os.preadv", read)
    with stored(tmp_path) as store:
        if answer == "short":
            assert [bytes(view) for view in store.load(key(8)).payload] == large()[1]
            return
        with pytest.raises(LinkCorruptError, match="not readable") as refused:
            store.load(key(8))

    assert refused.value.section == "part3"
