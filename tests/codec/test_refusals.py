"""What a reader refuses, by name: start from a valid segment or archive, change one thing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.codec import archive, paths, rans
from harness.codec.errors import BoundsError, CodecError, FormatError, GeometryError, ValueRefusedError
from harness.codec.segments import read_segment
from tests.codec import pages
from tests.codec.pages import patched

GOLDEN = Path(__file__).parent / "golden"
LCG1 = (GOLDEN / "wave-16.lcg1").read_bytes()
LCG2 = (GOLDEN / "wave-16.lcg2").read_bytes()
PAGES = {1: (GOLDEN / "page-v1.ckg1").read_bytes(), 2: (GOLDEN / "page-v2.ckg1").read_bytes()}
NUMPY = paths.coder("numpy")
CDF = 16 + 4 * 17
LENGTHS = CDF + 66 * 8
FIRST = 16
"""The first record of an archive."""


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"LCG3" + LCG1[4:], FormatError),
        (patched(LCG1, 4, "B", 24), FormatError),
        (patched(LCG1, 4, "B", 0), FormatError),
        (patched(LCG1, 5, "B", 1), FormatError),
        (patched(LCG2, 5, "B", 5), FormatError),
        (patched(LCG2, 5, "B", 0), FormatError),
        (patched(LCG1, 6, "H", 0), BoundsError),
        (patched(LCG1, 6, "H", 257), BoundsError),
        (patched(LCG1, 6, "H", 18), FormatError),
        (patched(LCG1, 8, "I", 0), BoundsError),
        (patched(LCG1, 8, "I", 0xFFFFFFFF), BoundsError),
        (patched(LCG1, 8, "I", 9), FormatError),
        (patched(LCG2, 12, "I", 1), FormatError),
        (patched(LCG1, 12, "I", 0xFFFFFFFF), FormatError),
        (patched(LCG1, 16, "I", 0x7F800000), ValueRefusedError),
        (patched(LCG1, 16, "I", 0x7FC00000), ValueRefusedError),
        (patched(LCG2, 16, "I", 0xBF800000), ValueRefusedError),
        (patched(LCG1, CDF, "H", 1), ValueRefusedError),
        (patched(LCG1, CDF + 64, "H", 65534), ValueRefusedError),
        (patched(LCG1, CDF + 4, "H", 1), ValueRefusedError),
        (patched(LCG1, LENGTHS, "H", 0), BoundsError),
        (patched(LCG1, LENGTHS, "H", 257), BoundsError),
        (patched(LCG1, LENGTHS, "H", 255), GeometryError),
        (LCG1 + b"\0", FormatError),
        (LCG2[:-1], FormatError),
        (b"", FormatError),
    ],
)
def test_a_segment_with_one_wrong_field_is_refused(data: bytes, kind: type[CodecError]) -> None:
    with pytest.raises(kind):
        read_segment(data)


@pytest.mark.parametrize("data", [LCG1, LCG2])
def test_a_segment_cut_anywhere_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(CodecError):
            read_segment(data[:size])


@pytest.mark.parametrize("version", [1, 2])
def test_an_archive_cut_anywhere_is_refused(version: int) -> None:
    data = PAGES[version]
    for size in [*range(0, len(data), 1 if version == 2 else 7), len(data) - 1]:
        with pytest.raises(CodecError):
            archive.read_archive(data[:size])


@pytest.mark.parametrize(
    ("at", "form", "value", "kind"),
    [
        (0, "4s", b"CKG2", FormatError),
        (4, "Q", 444, CodecError),
        (4, "Q", 446, GeometryError),
        (4, "Q", 1 << 63, BoundsError),
        (12, "I", 0xFFFFFFFF, BoundsError),
        (12, "I", 0, FormatError),
        (FIRST, "B", 7, FormatError),
        (FIRST, "B", 3, FormatError),
        (FIRST, "B", 1, FormatError),
        (FIRST + 1, "B", 4, FormatError),
        (FIRST + 2, "H", 1, FormatError),
        (FIRST + 4, "Q", 1, GeometryError),
        (FIRST + 4, "Q", 1 << 62, BoundsError),
        (FIRST + 12, "Q", 0, BoundsError),
        (FIRST + 12, "Q", 41, GeometryError),
        (FIRST + 12, "Q", (1 << 64) - 1, BoundsError),
        (FIRST + 20, "Q", 4, GeometryError),
        (FIRST + 20, "Q", (1 << 64) - 1, GeometryError),
        (FIRST + 28, "Q", 1, GeometryError),
        (FIRST + 36, "Q", 5, GeometryError),
        (FIRST + 44, "Q", 1 << 62, BoundsError),
    ],
)
def test_an_archive_with_one_wrong_field_is_refused(at: int, form: str, value: int, kind: type[CodecError]) -> None:
    with pytest.raises(kind):
        archive.read_archive(patched(PAGES[2], at, form, value))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["oracle", "numpy", "compiled"])
def test_a_golden_archive_keeps_being_read(version: int, name: str) -> None:
    page = archive.decode_page(PAGES[version], path=paths.coder(name))
    whole = (GOLDEN / "page.raw").read_bytes()
    exact = pages.COMPONENTS[0]
    at = exact.size - exact.exact_bytes
    assert len(page) == len(whole)
    assert page[at : exact.size] == whole[at : exact.size]
    assert archive.read_archive(PAGES[version]).versions == (version,)


def test_both_versions_decode_to_the_same_page() -> None:
    assert archive.decode_page(PAGES[1], path=NUMPY) == archive.decode_page(PAGES[2], path=NUMPY)


def test_coding_a_decoded_page_again_changes_no_row_maximum_and_no_symbol() -> None:
    once = bytes(archive.decode_page(PAGES[2], path=NUMPY))
    records = archive.read_archive(PAGES[2]).records
    again = archive.read_archive(archive.encode_page(once, pages.COMPONENTS, version=2, path=NUMPY)).records
    for before, after in zip(records, again, strict=True):
        if before.kind.element == "f16" and before.segment and after.segment:
            assert after.segment.payload.tobytes() == before.segment.payload.tobytes()


def test_a_long_transposed_layer_is_cut_every_256_tokens() -> None:
    long = (
        archive.Component(
            layers=1, tokens=260, k_element="f16", v_element="f16", k_channels=2, v_channels=3, transposed_v=True
        ),
    )
    data = archive.encode_page(pages.page(long), long, version=2, path=NUMPY)
    assert [(one.start, one.tokens, one.total) for one in archive.read_archive(data).records] == [
        (0, 256, 0), (0, 4, 0), (0, 256, 260), (256, 4, 260),
    ]  # fmt: skip
    page = archive.decode_page(data, path=NUMPY)
    rows = archive.encode_page(bytes(page), long, version=2, path=NUMPY)
    assert archive.decode_page(rows, path=NUMPY) == page


def test_a_page_larger_than_the_caller_takes_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(BoundsError, match="at most 100 bytes"):
        archive.decode_page(PAGES[2], path=NUMPY, limit=100)


def test_a_transposed_block_type_is_refused() -> None:
    with pytest.raises(GeometryError, match="q8_0 transposed"):
        archive.kind_of("q8_0", transposed=True)


@pytest.mark.parametrize("element", ["bf16", "f8", "", "F16"])
def test_an_element_type_without_a_record_kind_is_refused(element: str) -> None:
    with pytest.raises(GeometryError, match="element type"):
        archive.kind_of(element)


def test_a_symbol_above_its_bins_is_refused_where_it_stands() -> None:
    at = 16 + 4 * 17
    bad = patched(LCG2, at, "B", 0xFF)
    read_segment(bad)
    with pytest.raises(ValueRefusedError, match="row 0, channel 0: expected a symbol up to 14, found 15"):
        paths.decode_tile(bad, path=NUMPY)


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_decodes_to_a_page_of_its_size(version: int, data: st.DataObject) -> None:
    whole = bytearray(PAGES[version])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
    try:
        page = archive.decode_page(bytes(whole), path=NUMPY, limit=4096)
    except CodecError:
        return
    assert len(page) == int.from_bytes(whole[4:12], "little")


TINY_CGV1 = (GOLDEN / "tiny.cgv1").read_bytes()


def test_the_published_rans_streams_come_out() -> None:
    assert rans.encode([0, 1, 1, 0, 0, 0, 1, 0], [2048, 2048]).hex() == "1801800000"
    assert rans.encode([0, 2, 0, 0, 1, 0], [3000, 96, 1000]).hex() == "04b02f01f8"
    assert (len(TINY_CGV1), TINY_CGV1[88:].hex()) == (98, "53dcb80082e9440dc1fe")


def test_a_symbol_of_frequency_zero_is_refused_by_name() -> None:
    with pytest.raises(ValueRefusedError, match="symbol 1: expected a frequency above 0 for 2, found 0"):
        rans.encode([0, 2], [2048, 2048, 0])


@settings(max_examples=80, deadline=None)
@given(symbols=st.lists(st.integers(0, 15), min_size=1, max_size=120))
def test_a_rans_stream_comes_back(symbols: list[int]) -> None:
    freqs = rans.frequencies([symbols.count(index) for index in range(16)])
    assert sum(freqs) == 4096
    assert rans.decode(rans.encode(symbols, freqs), freqs, len(symbols)) == symbols


@pytest.mark.parametrize(
    ("at", "form", "value", "kind"),
    [
        (0, "4s", b"CGv2", FormatError),
        (4, "H", 0, BoundsError),
        (6, "I", 0, BoundsError),
        (6, "I", 0xFFFFFFFF, BoundsError),
        (6, "I", 5, GeometryError),
        (10, "I", 0x7F800000, ValueRefusedError),
        (14, "I", 0xBF800000, ValueRefusedError),
        (18, "I", 9, FormatError),
        (22, "H", 1, FormatError),
        (24, "I", 99, GeometryError),
    ],
)
def test_a_cgv1_tile_with_one_wrong_field_is_refused(at: int, form: str, value: int, kind: type[CodecError]) -> None:
    with pytest.raises(kind):
        rans.decode_tile(patched(TINY_CGV1, at, form, value))


def test_a_cgv1_tile_cut_anywhere_is_refused() -> None:
    for size in range(len(TINY_CGV1)):
        with pytest.raises(CodecError):
            rans.decode_tile(TINY_CGV1[:size])
