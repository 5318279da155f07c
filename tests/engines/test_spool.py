"""The spool: digests are those of the bytes, whatever was seen before; budgets hold."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from harness.engines.spool import Part, Spool, SpoolBudget
from harness.errors import ProtocolError, StorageError

LARGE = 100_000
ROW = 100


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", SpoolBudget())


def _bytes(seed: int, size: int = LARGE) -> bytearray:
    return bytearray(random.Random(seed).randbytes(size))


def _look(spool: Spool, data: bytes | bytearray, *, keep: bool, name: str = "k", threads: int = 1) -> tuple[str, bool]:
    digests, kept = spool.hashed([Part(name, memoryview(data), rows=True)], keep=keep, threads=threads)
    return digests[0], kept


def test_every_digest_is_that_of_the_bytes_over_many_random_looks(spool: Spool) -> None:
    draw = random.Random(7)
    streams = [_bytes(seed, 400_000) for seed in range(3)]
    streams.append(streams[0][:200_000] + streams[1][200_000:])
    for _ in range(100):
        data = bytearray(draw.choice(streams)[: draw.randrange(60_000, 400_000) // ROW * ROW])
        if draw.random() < 0.3:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)

        digest, _ = _look(spool, data, keep=draw.random() < 0.5, threads=draw.choice([1, 2]))

        assert digest == hashlib.sha256(data).hexdigest()
        if digest in spool:
            assert spool.read(digest) == data


def test_a_stream_that_grows_is_kept_once(tmp_path: Path) -> None:
    spool, data = Spool(tmp_path, SpoolBudget(memory=LARGE, disk=0)), _bytes(1)

    kept = [_look(spool, data[:size], keep=True)[1] for size in (70_000, 80_000, LARGE)]

    assert kept == [True, True, True]
    assert spool.read(hashlib.sha256(data[:80_000]).hexdigest()) == data[:80_000]


def test_memory_is_filled_first_then_the_disk_then_nothing_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    spool = Spool(folder, SpoolBudget(memory=LARGE, disk=LARGE))

    kept = [_look(spool, _bytes(seed), keep=True)[1] for seed in range(3)]

    assert kept == [True, True, False]
    assert [path.stat().st_size for path in folder.iterdir()] == [LARGE]
    for seed in range(2):
        assert spool.read(hashlib.sha256(_bytes(seed)).hexdigest()) == _bytes(seed)
    with pytest.raises(StorageError, match="run again"):
        spool.read(hashlib.sha256(_bytes(2)).hexdigest())


def test_one_part_can_be_kept_beyond_the_budget(tmp_path: Path) -> None:
    spool, data = Spool(tmp_path, SpoolBudget(memory=0, disk=0)), _bytes(1)
    digest = hashlib.sha256(data).hexdigest()

    assert not spool.keep(digest, memoryview(data))
    assert spool.keep(digest, memoryview(data), beyond_budget=True)
    assert spool.read(digest) == data


def test_a_later_write_to_live_memory_does_not_reach_the_spool(spool: Spool) -> None:
    data = _bytes(1)
    before = bytes(data)
    digest, _ = _look(spool, data, keep=True)

    data[5] ^= 1

    assert spool.read(digest) == before
    assert _look(spool, data, keep=False)[0] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("at", [0, 50_001, LARGE - 1])
def test_an_old_row_that_is_changed_between_two_looks_is_seen(spool: Spool, keep: bool, threads: int, at: int) -> None:
    parts = {name: _bytes(seed, LARGE + 50 * ROW * seed) for seed, name in enumerate(("k", "v", "raw"))}

    def looked() -> list[str]:
        return list(spool.hashed([Part(n, memoryview(d), rows=True) for n, d in parts.items()], keep=keep)[0])

    before = looked()
    parts["v"][at] ^= 128
    after = list(
        spool.hashed([Part(n, memoryview(d), rows=True) for n, d in parts.items()], keep=keep, threads=threads)[0]
    )

    assert after == [hashlib.sha256(data).hexdigest() for data in parts.values()]
    assert [left == right for left, right in zip(before, after, strict=True)] == [True, False, True]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("keep", [True, False])
def test_threads_that_share_the_hashing_give_the_digests_of_the_bytes(spool: Spool, keep: bool, threads: int) -> None:
    megabyte = 1 << 20
    parts = {name: _bytes(seed, 3 * megabyte) for seed, name in enumerate(("k", "v", "raw"))}

    def looked(size: int) -> list[str]:
        shown = [Part(name, memoryview(data)[:size], rows=True) for name, data in parts.items()]
        return list(spool.hashed(shown, keep=keep, threads=threads)[0])

    for size in (megabyte, 2 * megabyte, 2 * megabyte, 3 * megabyte):
        assert looked(size) == [hashlib.sha256(data[:size]).hexdigest() for data in parts.values()]
    parts["v"][megabyte + 5] ^= 1
    after = looked(3 * megabyte)

    assert after == [hashlib.sha256(data).hexdigest() for data in parts.values()]
    if keep:
        assert [spool.read(digest) for digest in after] == list(parts.values())
    spool.close()


def test_a_look_does_not_wait_for_a_thread_that_gets_no_core(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.engines.helpers.Helpers.call", lambda *_: None)
    data = {name: _bytes(seed, 1 << 20) for seed, name in enumerate(("k", "v"))}

    digests, kept = spool.hashed([Part(n, memoryview(d), rows=True) for n, d in data.items()], keep=True, threads=2)

    assert (list(digests), kept) == ([hashlib.sha256(one).hexdigest() for one in data.values()], True)


def test_rows_that_need_not_be_kept_are_remembered_while_half_of_the_memory_stays_free(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", SpoolBudget(memory=3 * LARGE, disk=LARGE))

    for seed in range(3):
        _look(spool, _bytes(seed), keep=False)

    assert [hashlib.sha256(_bytes(seed)).hexdigest() in spool for seed in range(3)] == [True, False, False]
    assert _look(spool, _bytes(3), keep=True)[1]
    assert not (tmp_path / "spool").exists()


def test_small_and_empty_parts_are_kept_as_they_are(spool: Spool) -> None:
    parts = [Part("a", memoryview(b""), rows=True), Part("b", memoryview(b"abc"), rows=False)]

    digests, kept = spool.hashed(parts, keep=True)

    assert kept
    assert [bytes(spool.read(digest)) for digest in digests] == [b"", b"abc"]


class _Racing(Spool):
    """Another thread writes into a live buffer before or after it is copied."""

    live = bytearray()
    early = True

    def _copied(self, view: memoryview) -> memoryview | None:
        self.live[100] ^= 255 * self.early
        copy = super()._copied(view)
        self.live[100] ^= 255 * (not self.early)
        return copy


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(("size", "rows"), [(LARGE, True), (1000, True), (LARGE, False)])
def test_a_buffer_that_changes_during_a_look_never_has_the_digest_of_other_bytes(
    tmp_path: Path, early: bool, size: int, rows: bool
) -> None:
    spool = _Racing(tmp_path, SpoolBudget())
    spool.live, spool.early = _bytes(1, size), early
    before = hashlib.sha256(spool.live).hexdigest()
    part = Part("layer1.k", memoryview(spool.live), rows=rows)

    told = ""
    try:
        digests, _ = spool.hashed([part], keep=True)
    except ProtocolError as error:
        told = str(error)
    if told:
        assert told.startswith("layer1.k: the bytes changed")
        assert before not in spool
    else:
        assert hashlib.sha256(spool.read(digests[0])).hexdigest() == digests[0]
        later, _ = spool.hashed([part], keep=False)
        assert later[0] == hashlib.sha256(spool.live).hexdigest()


def test_a_part_is_not_kept_under_the_digest_of_other_bytes(spool: Spool) -> None:
    with pytest.raises(ProtocolError, match=r"^layer1\.k: "):
        spool.keep("0" * 64, memoryview(b"abc"), name="layer1.k")


def test_a_stream_that_leaves_another_within_its_new_rows_shares_what_came_before(tmp_path: Path) -> None:
    size, leaves = 3 << 20, (2 << 20) + 5 * ROW
    first = _bytes(1, size)
    second = first[:leaves] + _bytes(2, size - leaves)
    spool = Spool(tmp_path, SpoolBudget(memory=size + (1 << 20), disk=0))

    assert _look(spool, first, keep=True) == (hashlib.sha256(first).hexdigest(), True)
    assert _look(spool, second, keep=True) == (hashlib.sha256(second).hexdigest(), True)

    assert spool.read(hashlib.sha256(second).hexdigest()) == second


@pytest.mark.parametrize("at", [0, (1 << 20) - 1, 1 << 20, (2 << 20) + 1, (3 << 20) - 1])
@pytest.mark.parametrize("streams", [1, 2])
def test_a_byte_that_is_changed_in_a_long_stream_is_seen_whatever_other_streams_there_are(
    spool: Spool, at: int, streams: int
) -> None:
    data = _bytes(1, 3 << 20)
    for stream in (_bytes(2, 3 << 20), bytearray(data))[-streams:]:
        _look(spool, stream, keep=True)

    data[at] ^= 1

    assert _look(spool, data, keep=True)[0] == hashlib.sha256(data).hexdigest()
    assert _look(spool, data[: at + 1], keep=True)[0] == hashlib.sha256(data[: at + 1]).hexdigest()
