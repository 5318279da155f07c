from __future__ import annotations

import array
import subprocess
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.digest import parts


@given(st.binary(max_size=300))
def test_a_part_digest_is_the_sha256_of_the_bytes(data: bytes) -> None:
    expected = sha256(data).hexdigest()

    assert parts.part_digest(data) == expected
    assert parts.part_digest(bytearray(data)) == expected
    assert parts.part_digest(memoryview(data)) == expected
    assert parts.part_digests([data], threads=2) == [expected]


@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f2", "<i8", "|u1", "?", "<c16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (4, 6), (2, 3, 4)])
def test_shape_and_element_type_do_not_matter(kind: str, shape: tuple[int, ...]) -> None:
    values = np.arange(24).astype(kind)[: int(np.prod(shape))].reshape(shape)

    assert parts.part_digest(values.data) == sha256(values.tobytes()).hexdigest()
    assert parts.part_digests([values.data, values.data]) == [sha256(values.tobytes()).hexdigest()] * 2


def test_sha256sum_of_the_dumped_part_agrees(tmp_path: Path) -> None:
    tensor = torch.arange(4096, dtype=torch.float32).to(torch.bfloat16).reshape(64, 64)
    rows = tensor[:17].view(torch.uint8).numpy()
    (tmp_path / "part").write_bytes(rows.tobytes())

    printed = subprocess.run(["sha256sum", tmp_path / "part"], capture_output=True, text=True, check=True)

    assert printed.stdout.split()[0] == parts.part_digest(rows.data)


def test_no_byte_is_copied() -> None:
    buffer = bytearray(b"abc")
    first = parts.part_digest(buffer)

    buffer[0] ^= 1

    assert parts.part_digest(buffer) != first


@pytest.mark.parametrize("threads", [1, 2])
def test_a_buffer_with_gaps_is_refused_by_name(threads: int) -> None:
    grid = np.zeros((400, 600), np.float32)

    for view in (grid.T.data, grid[:, ::2].data, memoryview(bytes(10))[::2]):
        with pytest.raises(parts.NotContiguousError, match="C-contiguous"):
            parts.part_digest(view)
        with pytest.raises(parts.NotContiguousError, match="C-contiguous"):
            parts.part_digests([bytes(10**6), view, bytes(10**6)], threads=threads)


def test_the_number_of_threads_changes_no_digest_and_no_order() -> None:
    sizes = [0, 1, 70_000, 65_536, 65_535, 300_000, 4096, 1_000_000, 4096]
    buffers = [parts.known_buffer(seed, 64) * (size // 64 + 1) for seed, size in enumerate(sizes)]
    views = [memoryview(buffer)[:size] for buffer, size in zip(buffers, sizes, strict=True)]

    expected = [sha256(view).hexdigest() for view in views]

    for threads in (0, 1, 2, 3, 20):
        assert parts.part_digests(views, threads=threads) == expected


def test_no_parts_give_no_digests() -> None:
    assert parts.part_digests([]) == []
    assert parts.part_digests([], threads=2) == []


def test_arrays_of_the_standard_library_work() -> None:
    values = array.array("d", [1.0, -0.0])

    assert parts.part_digest(values) == sha256(values.tobytes()).hexdigest()


def test_the_root_is_the_digest_of_the_canonical_table() -> None:
    table = [{"name": "meta", "bytes": 8}, {"name": "layer0.k", "bytes": 64}]
    text = b'[{"bytes":8,"name":"meta"},{"bytes":64,"name":"layer0.k"}]'

    assert parts.root(table) == parts.root(tuple(table)) == sha256(text).hexdigest()
    assert parts.root(table[::-1]) != parts.root(table)


def test_the_known_answers_hold_for_hashlib() -> None:
    assert parts.wrong_answers() == ()
    assert {answer.size % 64 for answer in parts.KNOWN_ANSWERS} >= {0, 1, 55, 56, 63}


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: sha256(data[:-1]).hexdigest(),
        lambda data: sha256(data[::-1]).hexdigest(),
        lambda data: sha256(data[: 1 << 16]).hexdigest(),
        lambda data: sha256(data).hexdigest().upper(),
    ],
    ids=["short", "reversed", "truncated", "upper case"],
)
def test_a_broken_hasher_gives_wrong_answers(broken: object) -> None:
    assert callable(broken)
    assert parts.wrong_answers(broken) != ()


def test_the_generator_of_known_buffers_is_splitmix64() -> None:
    # the first output for seed 0, as the algorithm's publication has it
    assert parts.known_buffer(0, 8) == (0xE220A8397B1DCDAF).to_bytes(8, "little")
    assert parts.known_buffer(7, 100)[:13] == parts.known_buffer(7, 13)
