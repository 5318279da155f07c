"""One change, one named error: every field, every truncation, every section, and random bytes."""

from __future__ import annotations

import hashlib
import itertools
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.torch_engine.image import ImageError, inspect, validate
from tests.torch_engine_image.image_samples import (
    ENTRY_FIELDS,
    FIELDS,
    IDENTITY,
    description,
    expectation,
    expecting,
    get,
    image,
    put,
    put_entry,
    reseal,
    table_at,
)

CODES = {"short_buffer", "format", "identity", "kv_mode", "capacity", "unsupported", "state"}
BIG64, BIG32 = (1 << 64) - 1, (1 << 32) - 1


def refusal(raw: bytes | bytearray) -> str:
    """The code with which an image is refused."""
    before = bytes(raw)
    with pytest.raises(ImageError) as refused:
        validate(raw, expectation())
    assert bytes(raw) == before
    return refused.value.code


def test_truncation_at_every_byte_is_refused() -> None:
    whole = image()

    codes = {refusal(whole[:size]) for size in range(len(whole))}

    assert codes == {"short_buffer"}


def test_a_byte_too_many_is_refused() -> None:
    assert refusal(image() + b"\0") == "format"


def test_a_flipped_bit_in_any_byte_is_refused() -> None:
    whole = image()

    for at in range(len(whole)):
        whole[at] ^= 1 << at % 8
        assert refusal(whole) in CODES, at
        whole[at] ^= 1 << at % 8


def test_a_flipped_byte_in_a_part_names_the_part_and_its_bytes() -> None:
    whole = image()
    for entry in inspect(whole).parts:
        changed = bytearray(whole)
        changed[entry.offset + entry.nbytes - 1] ^= 0x80

        with pytest.raises(ImageError, match=f"{entry.spec.name} .bytes {entry.offset}") as refused:
            validate(changed, expectation())

        assert refused.value.code == "format"


def test_a_byte_between_parts_is_refused_though_no_digest_covers_it() -> None:
    whole = image()
    parts = inspect(whole).parts
    gaps = [(left, right) for left, right in itertools.pairwise(parts) if left.offset + left.nbytes < right.offset]
    assert gaps

    for left, _ in gaps:
        changed = bytearray(whole)
        changed[left.offset + left.nbytes] = 1
        assert refusal(changed) == "format"


# Every field of the prefix out of range, with the header's digest made right again.
PREFIX_CASES: list[tuple[str, int | bytes, str]] = [
    ("magic", b"SCIMAGE\x1b", "format"),
    ("magic", bytes(8), "format"),
    ("version", 0, "unsupported"),
    ("version", 1, "format"),
    ("version", 3, "unsupported"),
    ("version", BIG32, "unsupported"),
    ("flags", 8 | 7, "format"),
    ("flags", BIG32, "format"),
    ("flags", 1 | 4, "format"),
    ("total_bytes", 0, "format"),
    ("total_bytes", 95, "format"),
    ("total_bytes", BIG64, "short_buffer"),
    ("header_bytes", 0, "format"),
    ("header_bytes", 64, "format"),
    ("header_bytes", BIG64, "format"),
    ("position", 4, "format"),
    ("position", 7, "format"),
    ("position", 0, "format"),
    ("position", BIG64, "format"),
    ("part_count", 0, "format"),
    ("part_count", 4, "format"),
    ("part_count", 6, "format"),
    ("part_count", BIG32, "format"),
    ("identity_bytes", 0, "format"),
    ("identity_bytes", BIG32, "format"),
    ("history_tokens", 0, "format"),
    ("history_tokens", BIG64, "format"),
    ("meta_bytes", 0, "format"),
    ("meta_bytes", BIG32, "format"),
    ("table_bytes", 0, "format"),
    ("table_bytes", BIG32, "format"),
    ("digest", bytes(32), "format"),
]


@pytest.mark.parametrize(("field", "value", "code"), PREFIX_CASES)
def test_a_field_out_of_range_is_refused_by_name(field: str, value: int | bytes, code: str) -> None:
    assert refusal(put(image(), field, value)) == code


def test_every_field_of_the_prefix_has_a_case() -> None:
    assert {case[0] for case in PREFIX_CASES} == set(FIELDS)


ENTRY_CASES: list[tuple[str, int | bytes, str]] = [
    ("name_bytes", 0, "format"),
    ("name_bytes", 65_535, "format"),
    ("family_bytes", 0, "format"),
    ("family_bytes", 255, "format"),
    ("type_bytes", 0, "format"),
    ("type_bytes", 255, "format"),
    ("kind", 1, "format"),
    ("kind", 2, "format"),
    ("dimensions", 0, "unsupported"),
    ("dimensions", 9, "format"),
    ("dimensions", 255, "format"),
    ("zero16", 1, "format"),
    ("layer", -2, "format"),
    ("layer", 1, "format"),
    ("zero32", 1, "format"),
    ("bytes", 0, "format"),
    ("bytes", 73, "format"),
    ("bytes", BIG64, "format"),
    ("offset", 0, "format"),
    ("offset", BIG64, "format"),
    ("sha256", bytes(32), "format"),
    ("first dimension", 0, "format"),
    ("first dimension", 3, "format"),
    ("first dimension", BIG64, "format"),
]


@pytest.mark.parametrize(("field", "value", "code"), ENTRY_CASES)
def test_a_field_of_a_table_entry_out_of_range_is_refused_by_name(field: str, value: int | bytes, code: str) -> None:
    assert refusal(put_entry(image(), field, value)) == code


def test_every_field_of_a_table_entry_has_a_case() -> None:
    assert {case[0] for case in ENTRY_CASES} == set(ENTRY_FIELDS)


def test_an_unknown_element_type_is_unsupported() -> None:
    made = image()
    at = made.index(b"recurrentf32") + len("recurrent")
    made[at : at + 3] = b"f99"

    assert refusal(reseal(made)) == "unsupported"


def test_texts_that_are_not_utf8_are_refused() -> None:
    made = image()
    made[made.index(b"layer0.recurrent")] = 0xFF

    assert refusal(reseal(made)) == "format"


@pytest.mark.parametrize(
    "identity",
    [
        b'{"b":1,"a":2}',
        b'{"a": 1}    ',
        b'{"a":1.5}',
        b'{"a":NaN}',
        b'{"a":[[1]]}',
        b'{"a":1,"a":1}',
        b"[]",
        b"[" * 60_000,
        b'{"a":' + b"9" * 5_000 + b"}",
        b"\xff",
    ],
)
def test_an_identity_that_is_not_canonical_is_refused(identity: bytes) -> None:
    made = image()
    before = get(made, "identity_bytes")
    body = bytes(made[:96]) + identity + bytes(made[96 + before : get(made, "header_bytes")])
    fields = table_at(made) + get(made, "table_bytes") + 4 * get(made, "history_tokens") - before + len(identity)
    size = -(-fields // 64) * 64
    forged = bytearray(body[:fields].ljust(size, b"\0") + made[get(made, "header_bytes") :])
    struct.pack_into("<I", forged, 44, len(identity))
    struct.pack_into("<QQ", forged, 16, len(forged), size)
    shift = size - get(made, "header_bytes")
    at = table_at(forged)
    for _ in range(get(forged, "part_count")):
        name, family, element, _, dimensions = struct.unpack_from("<HBBBB", forged, at)
        struct.pack_into("<Q", forged, at + 24, struct.unpack_from("<Q", forged, at + 24)[0] + shift)
        at += 64 + 8 * dimensions + name + family + element

    with pytest.raises(ImageError, match="identity") as refused:
        inspect(reseal(forged))

    assert refused.value.code == "format"


# -- another destination -------------------------------------------------------------------------

DESTINATIONS: dict[str, tuple[Callable[[], object], str]] = {
    "another model": (lambda: expectation(identity=IDENTITY | {"model": "x"}), "identity"),
    "a field more": (lambda: expectation(identity=IDENTITY | {"more": 1}), "identity"),
    "a field less": (lambda: expectation(identity={"engine": "sample"}), "identity"),
    "an integer for a truth value": (lambda: expectation(identity=IDENTITY | {"chunk": True}), "identity"),
    "another namespace that counts": (
        lambda: expectation(identity=IDENTITY | {"namespace": "b"}, identity_free=frozenset()),
        "identity",
    ),
    "other K rows": (lambda: expectation(identity=IDENTITY | {"k_type": "f16"}), "kv_mode"),
    "another element type of a part": (lambda: expecting("layer1.k", element_type="f16"), "kv_mode"),
    "room for too few tokens": (lambda: expectation(capacity=5), "capacity"),
    "room for too few rows": (lambda: expecting("layer1.k", shape=(4, 2, 4)), "capacity"),
    "another row shape": (lambda: expecting("layer1.k", shape=(64, 4, 2)), "format"),
    "another fixed shape": (lambda: expecting("layer0.recurrent", shape=(3, 2, 3)), "format"),
    "another layer": (lambda: expecting("layer1.k", layer=2), "format"),
    "another family": (lambda: expecting("layer1.k", family="index"), "format"),
    "another name": (lambda: expecting("layer1.k", name="layer1.v"), "format"),
    "parts in another order": (lambda: expectation(parts=expectation().parts[::-1]), "format"),
    "a part less": (lambda: expectation(parts=expectation().parts[:-1]), "format"),
    "other rows at this position": (lambda: expectation(rows_at=lambda p: {"layer1.k": p - 1}), "format"),
    "index rows behind the K rows": (
        lambda: expectation(rows_at=lambda p: {"layer1.k": p, "layer1.pooled": 2}),
        "format",
    ),
}


@pytest.mark.parametrize(("make", "code"), DESTINATIONS.values(), ids=DESTINATIONS)
def test_an_image_of_another_session_is_refused(make: Callable[[], object], code: str) -> None:
    with pytest.raises(ImageError) as refused:
        validate(image(), make())  # type: ignore[arg-type]

    assert refused.value.code == code


def test_a_namespace_may_differ_where_it_is_free() -> None:
    assert validate(image(), expectation(identity=IDENTITY | {"namespace": "b"}))


# -- random bytes --------------------------------------------------------------------------------

FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def survives(raw: bytes) -> None:
    """Reading ends in a named error or in a header, never in anything else."""
    try:
        validate(raw, expectation())
    except ImageError as error:
        code = error.code
    else:
        return
    assert code in CODES


@FUZZ
@given(st.binary(max_size=2_000))
def test_random_bytes_end_in_a_named_error(raw: bytes) -> None:
    survives(raw)
    survives(b"SCIMAGE\x1a\x02\0\0\0" + raw)


@FUZZ
@given(st.data())
def test_an_image_with_random_changes_and_a_right_digest_ends_in_a_named_error(data: st.DataObject) -> None:
    raw = image()
    header = get(raw, "header_bytes")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, header - 5))
        struct.pack_into("<I", raw, at, data.draw(st.sampled_from([0, 1, 255, 65_535, BIG32]) | st.integers(0, BIG32)))

    survives(bytes(reseal(raw)))


def test_a_forged_count_costs_no_memory() -> None:
    forged = [
        put(image(), field, BIG64 if form == "<Q" else BIG32)
        for field, (_, form) in FIELDS.items()
        if form in ("<I", "<Q")
    ]
    tracemalloc.start()

    for raw in forged:
        refusal(raw)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


def test_the_whole_digest_is_what_the_page_says() -> None:
    raw = image(description())
    header = raw[: get(raw, "header_bytes")]

    expected = hashlib.sha256(header[:64] + bytes(32) + header[96:]).digest()

    assert inspect(raw).sha256 == expected
