from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.digest import blocks, difference
from harness.digest.difference import classify, first_difference
from harness.errors import NotComparableError, StorageError

ROWS, COLUMNS = 32, 16
TYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i32": np.int32, "u8": np.uint8}


def part(seed: int = 1, *, rows: int = ROWS, element_type: str = "bf16") -> bytearray:
    """Make the bytes of a part with values that no two rows share."""
    values = torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(seed))
    if element_type == "bf16":
        return bytearray(values.to(torch.bfloat16).view(torch.uint8).numpy().tobytes())
    return bytearray((values.numpy() * 100).astype(TYPES[element_type]).tobytes())


def shape_of(candidate: bytes | bytearray, element_type: str = "bf16", **more: object) -> str:
    shape = [ROWS, COLUMNS]
    return classify(part(element_type=element_type), candidate, element_type=element_type, shape=shape, **more)  # type: ignore[arg-type]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a part of a kibibyte span many blocks, as gigabytes do."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 48)


@settings(deadline=None)
@given(st.data())
def test_position_and_extent_agree_with_a_plain_loop(data: st.DataObject) -> None:
    width = data.draw(st.sampled_from([1, 2, 3, 4, 8, 34]))
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    size = width * rows * columns
    left = random.Random(size).randbytes(size)
    right = bytearray(left)
    for at in data.draw(st.lists(st.integers(0, size - 1), max_size=6)):
        right[at] ^= data.draw(st.integers(0, 255))
    kind = {1: "u8", 2: "bf16", 4: "f32", 8: "f64"}.get(width, "opaque")

    found = first_difference(left, right, element_type=kind, shape=[rows, columns])

    elements = [
        at
        for at in range(rows * columns)
        if left[at * width : (at + 1) * width] != right[at * width : (at + 1) * width]
    ]
    if not elements:
        assert found is None
        return
    assert found is not None
    assert found.byte == next(at for at in range(size) if left[at] != right[at])
    assert found.index == elements[0]
    assert (found.row, found.element) == divmod(elements[0], columns)
    assert found.reference == left[elements[0] * width :][:width].hex()
    assert found.candidate == right[elements[0] * width :][:width].hex()
    assert found.differing_elements == len(elements)
    assert found.differing_rows == len({at // columns for at in elements})
    assert found.last_row == elements[-1] // columns


@pytest.mark.usefixtures("small_blocks")
def test_blocks_change_no_answer() -> None:
    left, right = part(), part()
    for at in (5, 47, 48, 300, 301, 302, 1023):
        right[at] ^= 0x40
    shape = [ROWS, COLUMNS]

    found = first_difference(left, right, element_type="bf16", shape=shape)

    assert found is not None
    assert (found.byte, found.row, found.element) == (5, 0, 2)
    assert (found.differing_elements, found.differing_rows, found.last_row) == (6, 4, 31)


def test_equal_bytes_have_no_difference() -> None:
    assert first_difference(part(), part(), element_type="bf16", shape=[ROWS, COLUMNS]) is None
    assert first_difference(b"", b"", element_type="f32", shape=[0, 4]) is None
    assert shape_of(part()) == "equal"


@pytest.mark.parametrize(
    ("kind", "form", "values", "texts"),
    [
        ("f32", "<2f", (1.0, 1.5), ("1.0", "1.5")),
        ("f16", "<2e", (1.0, float("inf")), ("1.0", "inf")),
        ("i32", "<2i", (7, -7), ("7", "-7")),
        ("u64", "<2Q", (1, 2**64 - 1), ("1", str(2**64 - 1))),
        ("bool", "<2B", (0, 1), ("0", "1")),
        ("bf16", "<2H", (0x3F80, 0xFFC1), ("1.0", "nan")),
        ("q4_0", "<2H", (1, 2), ("", "")),
    ],
)
def test_elements_are_decoded_where_the_type_is_known(
    kind: str, form: str, values: tuple[float, float], texts: tuple[str, str]
) -> None:
    both = struct.pack(form, *values)
    left, right = both[: len(both) // 2], both[len(both) // 2 :]

    found = first_difference(left, right, element_type=kind, shape=[1])

    assert found is not None
    assert (found.reference_value, found.candidate_value) == texts
    assert (found.reference, found.candidate) == (left.hex(), right.hex())


def test_a_block_format_without_whole_bytes_per_element_is_compared_by_bytes() -> None:
    left, right = bytes(36), bytes(20) + b"\x01" + bytes(15)

    found = first_difference(left, right, element_type="q4_0", shape=[2, 32])

    assert found is not None
    assert (found.element_bytes, found.row, found.element, found.index) == (1, 1, 2, 20)


def test_files_and_buffers_can_be_mixed(tmp_path: Path) -> None:
    right = part()
    right[700] ^= 1
    (tmp_path / "left").write_bytes(part())
    (tmp_path / "right").write_bytes(right)
    shape = [ROWS, COLUMNS]

    found = first_difference(tmp_path / "left", tmp_path / "right", element_type="bf16", shape=shape)

    assert found is not None
    assert found == first_difference(part(), right, element_type="bf16", shape=shape)
    assert classify(tmp_path / "left", right, element_type="bf16", shape=shape) == "single_bit"


def test_an_unaligned_buffer_works() -> None:
    left, right = bytearray(1) + part(), part()
    right[9] ^= 1

    found = first_difference(memoryview(left)[1:], right, element_type="bf16", shape=[ROWS, COLUMNS])

    assert found is not None
    assert found.byte == 9


@pytest.mark.parametrize(
    ("left", "right", "kind", "shape"),
    [
        (bytes(8), bytes(4), "f32", [2]),
        (bytes(8), bytes(8), "f32", [3]),
        (bytes(8), bytes(8), "f32", [0]),
        (bytes(7), bytes(7), "q4_0", [2, 3]),
        (memoryview(bytes(8))[::2], bytes(4), "u8", [4]),
    ],
    ids=["sizes", "shape", "empty shape", "opaque rows", "gaps"],
)
def test_what_cannot_be_compared_is_refused(left: bytes, right: bytes, kind: str, shape: list[int]) -> None:
    with pytest.raises(NotComparableError):
        first_difference(left, right, element_type=kind, shape=shape)


def test_an_absent_file_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        first_difference(tmp_path / "none", b"", element_type="u8", shape=[0])


def rows_of(data: bytes | bytearray) -> list[bytes]:
    width = len(data) // ROWS
    return [bytes(data[at * width : (at + 1) * width]) for at in range(ROWS)]


def test_a_flipped_bit_is_a_single_bit() -> None:
    for bit in (0, 7, 4095, 8191):
        changed = part()
        changed[bit // 8] ^= 1 << (bit % 8)

        assert shape_of(changed) == "single_bit"


def test_a_cleared_part_is_all_zero() -> None:
    assert shape_of(bytes(len(part()))) == "all_zero"


@pytest.mark.parametrize("shift", [1, 3, -1, -5])
def test_moved_rows_are_named_with_their_distance(shift: int) -> None:
    reference, other = rows_of(part()), rows_of(part(2))
    moved = [reference[at - shift] if 0 <= at - shift < ROWS else other[at] for at in range(ROWS)]

    assert shape_of(b"".join(moved)) == f"shifted_by_{shift}_rows"


def test_a_run_of_moved_rows_in_the_middle_is_found() -> None:
    reference = rows_of(part())
    moved = [*reference[:10], reference[9], *reference[10:20], *reference[21:]]

    assert shape_of(b"".join(moved)) == "shifted_by_1_rows"


def test_rows_of_an_earlier_state_are_stale() -> None:
    reference, earlier = rows_of(part()), rows_of(part(2))
    mixed = b"".join([*reference[:8], *earlier[8:12], *reference[12:20], earlier[20], *reference[21:]])

    assert shape_of(mixed, earlier=b"".join(earlier)) == "stale_rows"
    assert shape_of(mixed, earlier=b"".join(earlier[:21])) == "stale_rows"
    assert shape_of(mixed, earlier=b"".join(earlier[:20])) == "scattered"
    assert shape_of(mixed) == "scattered"


def test_a_row_that_is_neither_old_nor_new_is_not_stale() -> None:
    reference, earlier = rows_of(part()), rows_of(part(2))
    mixed = bytearray(b"".join([*reference[:8], *earlier[8:12], *reference[12:]]))
    mixed[9 * len(earlier[0]) + 3] ^= 0x55

    assert shape_of(mixed, earlier=b"".join(earlier)) != "stale_rows"


def test_the_bytes_of_another_part_are_named() -> None:
    others = {"layer0.v": part(2), "layer1.k": part(3), "short": b""}

    assert shape_of(part(3), others=others) == "other_part:layer1.k"


@pytest.mark.parametrize("element_type", ["bf16", "f32", "f64"])
def test_swapped_bytes_are_seen(element_type: str) -> None:
    width = difference.ELEMENT_BYTES[element_type]
    data = part(element_type=element_type)
    swapped = b"".join(bytes(data[at : at + width])[::-1] for at in range(0, len(data), width))

    assert shape_of(swapped, element_type) == "element_type_or_byte_order"


def test_the_same_numbers_in_another_type_are_seen() -> None:
    values = torch.frombuffer(part(), dtype=torch.bfloat16)
    halves = torch.frombuffer(part(element_type="f16"), dtype=torch.float16)
    whole = np.frombuffer(part(element_type="i32"), np.int32)

    assert shape_of(values.to(torch.float16).numpy().tobytes()) == "element_type_or_byte_order"
    assert shape_of(halves.to(torch.bfloat16).view(torch.uint8).numpy().tobytes(), "f16") == (
        "element_type_or_byte_order"
    )
    assert shape_of(whole.astype(np.float32).tobytes(), "i32") == "element_type_or_byte_order"


def test_numbers_beyond_the_other_type_raise_no_warning() -> None:
    huge = torch.full((2, 2), 1e30, dtype=torch.bfloat16).view(torch.uint8).numpy()

    assert classify(huge.data, bytes(range(8)), element_type="bf16", shape=[2, 2]) == "scattered"


@pytest.mark.parametrize(("kind", "form", "one", "other"), [("f32", "<I", 0x7FC00000, 0xFFC00001), ("bf16", "<H", 0x7FC0, 0x7FA5), ("f16", "<H", 0x7E00, 0xFE03), ("f64", "<Q", 0x7FF8 << 48, (0x7FF8 << 48) + 5)])  # fmt: skip
def test_two_kinds_of_nan_are_a_payload(kind: str, form: str, one: int, other: int) -> None:
    width = struct.calcsize(form)
    left, right = bytearray(8 * width), bytearray(8 * width)
    left[2 * width : 3 * width], right[2 * width : 3 * width] = struct.pack(form, one), struct.pack(form, other)

    assert classify(left, right, element_type=kind, shape=[4, 2]) in {"nan_payload", "single_bit"}
    right[0] ^= 3
    assert classify(left, right, element_type=kind, shape=[4, 2]) != "nan_payload"


def test_a_run_of_rows_at_either_end_is_named() -> None:
    reference, other = rows_of(part()), rows_of(part(2))

    assert shape_of(b"".join([*reference[:20], *other[20:]])) == "tail_rows"
    assert shape_of(b"".join([*reference[:-1], other[-1]])) == "tail_rows"
    assert shape_of(b"".join([*other[:20], *reference[20:]])) == "head_rows"
    assert shape_of(b"".join([*reference[:5], *other[5:9], *reference[9:]])) == "scattered"
    assert shape_of(b"".join(other)) == "scattered"


@pytest.mark.usefixtures("small_blocks")
def test_shapes_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.digest.shapes.BLOCK_BYTES", 48)

    test_a_cleared_part_is_all_zero()
    test_rows_of_an_earlier_state_are_stale()
    test_swapped_bytes_are_seen("f32")
    test_a_run_of_rows_at_either_end_is_named()
    test_moved_rows_are_named_with_their_distance(-1)


def test_a_large_file_is_walked_with_bounded_memory(tmp_path: Path) -> None:
    import tracemalloc

    size = 256 << 20
    for name in ("left", "right"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    with (tmp_path / "right").open("r+b") as file:
        file.seek(size - 3)
        file.write(b"\x01")

    tracemalloc.start()
    found = first_difference(tmp_path / "left", tmp_path / "right", element_type="f32", shape=[size // 4096, 1024])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found is not None
    assert (found.byte, found.row, found.differing_elements) == (size - 3, size // 4096 - 1, 1)
    assert peak < 64 << 20
